"""Continuing texts: where it ends, what a reader sees of it, and what never changes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tests.decoder_fixture import TINY, Copy, byte_tokenizer, known, random_decoder, tiny

import qkv
from qkv import words
from qkv.cli.commands import qkv as command
from qkv.errors import QkvError
from qkv.io.config import Config
from qkv.io.tokens.endings import read_end_ids
from qkv.io.tokens.tokenizer import Tokenizer
from qkv.layers import Rotary
from qkv.models import Decoder
from qkv.models.generation import growing
from qkv.models.generation.text import Writer
from qkv.ops.scaling import DynamicNTK

IDS = np.random.default_rng(2).integers(0, 256, 17)
COOL: dict[str, Any] = {"temperature": 0.7, "min_p": 0.1, "seed": 1}
SAMPLED: dict[str, Any] = {"temperature": 1.3, "top_k": 50, "top_p": 0.9, "seed": 5}
END, TURN = 256, 257
TEXT = "苹果 naïve 👩‍👩‍👧 ok\n"


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return byte_tokenizer(tmp_path)


def scripted(monkeypatch: pytest.MonkeyPatch, tokenizer: Tokenizer, ids: list[int]) -> Decoder:
    """A model whose next tokens are these, one after the other, then 0."""
    model = random_decoder(n_positions=500)
    model.tokenizer, model.end_ids = tokenizer, frozenset({END, TURN})
    asked = iter(ids)
    monkeypatch.setattr(growing, "pick", lambda *args: next(asked, 0))
    return model


# what is computed


@pytest.mark.parametrize("how", [{}, SAMPLED, COOL, {"repetition_penalty": 1.4}])
@pytest.mark.parametrize("changes", [{}, {"windows": (5, None, 3)}])
def test_a_batch_gives_what_each_gives_alone(how: dict[str, Any], changes: dict[str, Any]) -> None:
    model = random_decoder(**changes)
    prompts = [IDS, IDS[:1], IDS[4:11]]
    alone = [model.generate(prompt, max_new_tokens=19, **how) for prompt in prompts]
    assert model.generate(prompts, max_new_tokens=19, **how) == alone
    assert len({tuple(ids) for ids in alone}) == 3


def test_greedy_is_the_largest_logit_of_a_full_pass_each_time() -> None:
    model, ids = random_decoder(windows=(5, None, 3)), IDS.tolist()
    for _ in range(13):
        ids.append(int(model.logits(ids)[-1].argmax()))
    assert model.generate(IDS, max_new_tokens=13) == ids[17:]
    assert list(model.stream(IDS, max_new_tokens=13)) == ids[17:]


def test_greedy_with_positions_that_stretch() -> None:
    """From 19 tokens on every further one turns all keys anew: each token is that of a full pass."""
    model, ids = random_decoder(rotary=(Rotary(100.0, scaling=DynamicNTK(3.0, 19)),) * 3), IDS.tolist()
    for _ in range(7):
        ids.append(int(model.logits(ids)[-1].argmax()))
    assert model.generate(IDS, max_new_tokens=7) == ids[17:]
    both = model.generate([IDS, IDS[:5]], max_new_tokens=7)
    assert both == [ids[17:], model.generate(IDS[:5], max_new_tokens=7)]


def test_what_the_prompt_says_is_a_repetition_too() -> None:
    new = random_decoder(n_positions=500).generate(list(range(200)), max_new_tokens=19, repetition_penalty=1e6)
    assert len(set(new)) == 19
    assert min(new) >= 200


def test_a_seed_draws_the_same_again_and_another_does_not() -> None:
    model = random_decoder()
    found = [model.generate(IDS, max_new_tokens=23, **SAMPLED | {"seed": seed}) for seed in (5, 5, 6)]
    assert found[0] == found[1] != found[2]


# where it ends


def test_it_ends_at_each_end_and_no_end_is_given_out(monkeypatch: pytest.MonkeyPatch, tokenizer: Tokenizer) -> None:
    for end in (END, TURN):
        model = scripted(monkeypatch, tokenizer, [65, 66, end, 67])
        assert model.generate(IDS, max_new_tokens=9) == [65, 66]
    assert scripted(monkeypatch, tokenizer, [END]).generate(IDS) == []
    assert list(scripted(monkeypatch, tokenizer, [END]).stream("text")) == []
    assert scripted(monkeypatch, tokenizer, []).generate(IDS, max_new_tokens=0) == []
    assert scripted(monkeypatch, tokenizer, []).generate("text", max_new_tokens=0) == ""


def test_a_row_that_has_ended_waits_for_the_others(monkeypatch: pytest.MonkeyPatch, tokenizer: Tokenizer) -> None:
    script = [65, END, 66, 67, 68, 69, END, 70, 71]
    model = scripted(monkeypatch, tokenizer, script)
    assert model.generate([IDS, IDS[:3]], max_new_tokens=9) == [[65, 66, 68], []]
    assert growing.pick() == 71  # type: ignore[call-arg]  # nothing is computed once all have ended


def write(directory: Path, **files: Any) -> None:
    for name, value in files.items():
        (directory / f"{name}.json").write_text(json.dumps(value))


def test_the_ends_that_the_files_name(tmp_path: Path, tokenizer: Tokenizer) -> None:
    def ends(tokens: Tokenizer | None) -> set[int]:
        return set(read_end_ids(tmp_path, Config(tmp_path / "config.json"), tokens))

    write(tmp_path, config={"eos_token_id": 3})
    assert ends(None) == {3}
    assert ends(tokenizer) == {3, TURN}
    write(tmp_path, config={"eos_token_id": None}, generation_config={"eos_token_id": [4, 5]})
    assert ends(None) == {4, 5}
    for written in ("<end>", {"content": "<end>", "lstrip": False}):
        write(tmp_path, tokenizer_config={"eos_token": written})
        assert ends(tokenizer) == {4, 5, END, TURN}
    write(tmp_path, tokenizer_config={"eos_token": "not a token"})
    assert ends(tokenizer) == {4, 5, TURN}
    write(tmp_path, tokenizer_config={"eos_token": 7})
    with pytest.raises(QkvError, match="'eos_token' must be a token"):
        ends(tokenizer)


def test_loading_reads_the_ends(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "llama")
    copy.config(eos_token_id=7)
    write(copy.directory, generation_config={"eos_token_id": [7, 9]})
    assert copy.load().end_ids == {7, 9}
    greedy = known("llama")["7.greedy"].tolist()
    copy.config(eos_token_id=greedy[4])
    assert copy.load().generate(known("llama")["7.ids"], max_new_tokens=11) == greedy[: greedy.index(greedy[4])]


# text


def test_text_comes_in_whole_characters(monkeypatch: pytest.MonkeyPatch, tokenizer: Tokenizer) -> None:
    model = scripted(monkeypatch, tokenizer, [*tokenizer.encode(TEXT), END])
    pieces = list(model.stream("The", max_new_tokens=99))
    assert "".join(pieces) == TEXT
    assert all("\N{REPLACEMENT CHARACTER}" not in piece and piece for piece in pieces)
    assert pieces[:3] == ["苹", "果", " "]
    assert scripted(monkeypatch, tokenizer, [*tokenizer.encode(TEXT), END]).generate("The") == TEXT


@pytest.mark.parametrize("n_bytes", [1, 2])
def test_half_a_character_is_never_given_out(
    monkeypatch: pytest.MonkeyPatch, tokenizer: Tokenizer, n_bytes: int
) -> None:
    half = tokenizer.encode("a果")[: 1 + n_bytes]
    assert list(scripted(monkeypatch, tokenizer, [*half, END]).stream("The")) == ["a"]
    model = scripted(monkeypatch, tokenizer, [*half, *half, END])  # bytes that are no text, then text again
    text = model.generate("The")
    assert text.startswith("a\N{REPLACEMENT CHARACTER}")
    assert text.endswith("a")


@pytest.mark.parametrize(
    ("stop", "text", "given"),
    [
        ("\nUser:", "Yes.\nUser: no", "Yes."),
        ("果", "苹果树", "苹"),
        (["no", "Yes"], "is Yes no", "is "),
        ("\nUser:", "Yes.\nUse it", "Yes.\nUse it"),
        ("aab", "aaab", "a"),
        ("ab", "xxa", "xxa"),
        ((), "plain", "plain"),
    ],
)
def test_stop(monkeypatch: pytest.MonkeyPatch, tokenizer: Tokenizer, stop: Any, text: str, given: str) -> None:
    ids = [*tokenizer.encode(text), END]
    pieces = list(scripted(monkeypatch, tokenizer, ids).stream("The", stop=stop))
    assert "".join(pieces) == given
    assert scripted(monkeypatch, tokenizer, ids).generate("The", stop=stop) == given


def test_an_id_without_a_token_adds_no_text(monkeypatch: pytest.MonkeyPatch, tokenizer: Tokenizer) -> None:
    """The table of a model is often larger than its vocabulary."""
    ids = tokenizer.encode("苹")
    model = scripted(monkeypatch, tokenizer, [*ids[:2], 300, ids[2], 300, END])
    model.embeddings.W_word = np.concatenate([model.embeddings.W_word] * 2)
    assert list(model.stream("The")) == ["苹"]


def test_stop_with_ids_keeps_the_id_that_completed_it(monkeypatch: pytest.MonkeyPatch, tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("one two")
    assert scripted(monkeypatch, tokenizer, ids).generate(IDS, stop="e t") == ids[:5]


def test_a_space_at_the_start_of_a_word_is_kept(tmp_path: Path) -> None:
    """Decoders that mark words by a leading space drop it at the start of a text, not in the middle."""
    import tokenizers

    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({"▁of": 0, "▁France": 1, "▁is": 2, "▁Paris": 3}, "▁of"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    inner.decoder = tokenizers.decoders.Metaspace()
    inner.save(str(tmp_path / "t.json"))
    tokenizer = Tokenizer(tmp_path / "t.json")
    assert tokenizer.decode([3]) == "Paris"
    writer = Writer(tokenizer, [0, 1, 2])
    assert writer.add(3) + writer.add(0) + writer.finish() == " Paris of"
    stopping = Writer(tokenizer, [0], ("is", "ari", "of"))  # both in one token: the earlier one counts
    assert stopping.add(3) + stopping.finish() == " P"
    assert stopping.stopped


# the end of the positions


def test_a_text_that_would_not_fit_is_refused_unless_it_may_slide() -> None:
    model = random_decoder(n_positions=23)
    assert len(model.generate(IDS, max_new_tokens=6)) == 6
    with pytest.raises(QkvError, match=r"17 tokens and 7 more are asked for, .* at most 23; .*slide=True"):
        model.generate(IDS, max_new_tokens=7)
    with pytest.raises(QkvError, match="17 tokens and 7 more"):
        model.stream(IDS, max_new_tokens=7)
    with pytest.raises(QkvError, match="the text has 40 tokens, but the model takes at most 23"):
        model.generate([3] * 40)
    assert len(model.generate([3] * 40, max_new_tokens=31, slide=True)) == 31


def test_sliding_forgets_the_older_half() -> None:
    model, context, expected = random_decoder(n_positions=23), IDS.tolist(), []
    for _ in range(41):
        context = context if len(context) <= 23 else context[-12:]
        expected.append(int(model.logits(context)[-1].argmax()))
        context.append(expected[-1])
    assert model.generate(IDS, max_new_tokens=41, slide=True) == expected
    both = model.generate([IDS, IDS[:5]], max_new_tokens=41, slide=True)
    assert both == [expected, model.generate(IDS[:5], max_new_tokens=41, slide=True)]


# what is refused


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"max_new_tokens": -1}, "max_new_tokens must be an integer of at least 0, but it is -1"),
        ({"max_new_tokens": None}, "max_new_tokens must be an integer"),
        ({"max_new_tokens": 2.0}, "max_new_tokens must be an integer"),
        ({"temperature": -0.1}, "temperature must be a number of at least 0"),
        ({"temperature": float("nan")}, "temperature must be a number of at least 0"),
        ({"top_k": 0}, "top_k must be an integer of at least 1"),
        ({"top_p": 1.1}, "top_p must be from 0 to 1"),
        ({"min_p": -0.1}, "min_p must be from 0 to 1"),
        ({"repetition_penalty": 0}, "repetition_penalty must be from 1e-06 to 1000000.0"),
        ({"seed": -3}, "seed must be an integer of at least 0"),
        ({"stop": ""}, "stop must be text, or a list of texts"),
        ({"stop": [3]}, "stop must be text"),
        ({"stop": 3}, "stop must be text, or a list of texts, but 3 came"),
        ({"stop": None}, "stop must be text, or a list of texts, but None came"),
        ({"repetition_penalty": 1e-320}, "repetition_penalty must be from 1e-06 to 1000000.0"),
        ({"n_beams": 2, "length_penalty": 1e308}, "length_penalty must be from -10.0 to 10.0"),
        ({"n_beams": 2, "early_stopping": np.ones(2)}, "early_stopping must be one of True, False, never"),
    ],
)
def test_a_wrong_setting_is_one_line(how: dict[str, Any], message: str) -> None:
    for call in (random_decoder().generate, random_decoder().stream):
        with pytest.raises(QkvError, match=message) as caught:
            call(IDS, **how)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("prompt", "message"), [("", "no token"), ([], "no token"), ([[3], []], "no token in text 1")])
def test_an_empty_prompt_is_refused(prompt: Any, message: str, tokenizer: Tokenizer) -> None:
    model = random_decoder()
    model.tokenizer = tokenizer
    with pytest.raises(QkvError, match=message):
        model.generate(prompt)


def test_a_stream_has_one_prompt() -> None:
    with pytest.raises(QkvError, match="the input must be one sequence, but a list came"):
        random_decoder().stream([[3], [4]])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of the overflow
@pytest.mark.parametrize(
    "how",
    [{}, {"temperature": 1.0, "seed": 0}, {"n_beams": 2}, {"draft": random_decoder()}, {"kv_dtype": "int8"},
     {"temperature": 1.0, "top_p": 0.5, "seed": 0, "draft": random_decoder()}],
    ids=lambda how: "-".join(how) or "greedy",
)  # fmt: skip
def test_logits_that_are_no_numbers_give_no_token(how: dict[str, Any]) -> None:
    model = random_decoder()
    model.layers[1].feed_forward.W_up[:] = 1e308  # which overflows: inf - inf
    for call in (model.generate, lambda *given, **how: list(model.stream(*given, **how))):
        with pytest.raises(QkvError, match="the logits hold NaN; qkv verify says from which step on") as caught:
            call(IDS, max_new_tokens=3, **how)
        assert caught.value.key == "logits"


def test_a_token_that_an_edit_bans_is_no_error() -> None:
    model = random_decoder()
    (first,) = model.generate(IDS, max_new_tokens=1)
    banned = np.where(np.arange(258) == first, -np.inf, 0.0)
    with qkv.edit({"step.0.head.logits": lambda logits: logits + banned}):
        assert model.generate(IDS, max_new_tokens=1) != [first]
    with (
        qkv.edit({"step.0.head.logits": lambda logits: logits - np.inf}),
        pytest.raises(QkvError, match="no finite largest"),
    ):
        model.generate(IDS, max_new_tokens=1)


# the command


def test_the_command(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "gpt2")
    tensors, settings = copy.tensors(), copy.settings()
    wide = np.random.default_rng(0).normal(size=(258, settings["n_embd"])).astype(np.float32)
    copy.write(tensors | {"transformer.wte.weight": wide})
    copy.config(vocab_size=258)
    byte_tokenizer(copy.directory)
    options = ["--model", str(copy.directory), "--max-new-tokens", "7"]
    for lang in words.LANGUAGES:
        run = CliRunner().invoke(command(lang), ["generate", "ab", "c", *options])
        assert run.exit_code == 0
        assert run.output == copy.load().generate("ab c", max_new_tokens=7) + "\n"
    drawn = ["--temperature", "0.9", "--seed", "3", "--top-k", "40", "--top-p", "0.9", "--stop", "zz", "--slide"]
    run = CliRunner().invoke(command("en"), ["generate", "-", *options, *drawn], input="ab c")
    how: dict[str, Any] = {"temperature": 0.9, "seed": 3, "top_k": 40, "top_p": 0.9, "stop": "zz", "slide": True}
    assert run.output == copy.load().generate("ab c", max_new_tokens=7, **how) + "\n"
    assert "--max-new-tokens" in CliRunner().invoke(command("zh"), ["generate", "--help"]).output


def test_the_command_refuses_an_encoder() -> None:
    run = CliRunner().invoke(command("en"), ["generate", "text", "--model", str(TINY.parent / "tiny_bert")])
    assert "holds a model that writes no text" in str(run.exception)
    assert isinstance(tiny("gpt2"), Decoder)
