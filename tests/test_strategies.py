"""How likely a model finds a text, and one prompt continued in several ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tests.decoder_fixture import Copy, byte_tokenizer, known, random_decoder, tiny

from qkv import words
from qkv.cli.commands import qkv as command
from qkv.errors import QkvError
from qkv.models import compare_strategies
from qkv.models.generation.strategies import STRATEGIES, distinct
from qkv.views.strategies_text import strategies_text

IDS = np.random.default_rng(2).integers(0, 258, 17)


# score


def test_a_score_is_the_log_probability_of_each_token() -> None:
    ids, logits = known("llama")["23.ids"], known("llama")["23.logits"].astype(np.float64)
    exact = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    for start in (1, 7, 22):
        expected = exact[np.arange(start - 1, 22), ids[start:]]
        np.testing.assert_allclose(tiny("llama").score(ids[:start], ids[start:]), expected, rtol=0, atol=1e-4)
    everything = np.exp([tiny("llama").score(ids, [token])[0] for token in range(67)])
    assert everything.sum() == pytest.approx(1, abs=1e-9)
    assert everything.std() > 1e-3


def test_text_is_scored_as_it_is_read(tmp_path: Path) -> None:
    model = random_decoder()
    model.tokenizer = tokenizer = byte_tokenizer(tmp_path)
    found = model.score("你", "好, then")
    np.testing.assert_array_equal(found, model.score(tokenizer.encode("你"), tokenizer.encode("好, then")))
    assert found.shape == (9,)
    assert found.dtype == np.float64


def test_special_tokens_stand_before_a_text_and_not_within(tmp_path: Path) -> None:
    import tokenizers

    from qkv.io.tokens.tokenizer import Tokenizer

    byte_tokenizer(tmp_path)
    inner = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    inner.post_processor = tokenizers.processors.TemplateProcessing(single="<end> $A", special_tokens=[("<end>", 256)])
    inner.save(str(tmp_path / "tokenizer.json"))
    model = random_decoder()
    model.tokenizer = Tokenizer(tmp_path / "tokenizer.json")
    plain = model.tokenizer.encode("cd", special_tokens=False)
    np.testing.assert_array_equal(model.score("ab", "cd"), model.score(model.tokenizer.encode("ab"), plain))
    assert len(model.score("ab", "cd")) == 2


@pytest.mark.parametrize(
    ("prompt", "continuation", "message"),
    [
        ([], [3], "no token"), ([3], [], "no token"), ([3], [258], "from 0 to 257"), ([3], [4] * 61, "62 tokens"),
        ([[3], [4]], [3], "the prompt must be one sequence, but a list came"),
        ([3], [[3], [4]], "the continuation must be one sequence, but a list came"),
    ],
)  # fmt: skip
def test_what_cannot_be_scored(prompt: Any, continuation: Any, message: str) -> None:
    with pytest.raises(QkvError, match=message):
        random_decoder().score(prompt, continuation)


# strategies


@pytest.mark.parametrize(("ids", "n", "share"), [([1, 1, 1, 1], 1, 0.25), ([1, 1, 1, 1], 3, 0.5), ([1, 2, 3], 2, 1.0)])
def test_distinct(ids: list[int], n: int, share: float) -> None:
    assert distinct(ids, n) == share
    assert np.isnan(distinct(ids, 9))


def test_each_strategy_is_what_generate_gives() -> None:
    model = random_decoder()
    ways: dict[str, Any] = STRATEGIES | {"short": {"max_new_tokens": 3, "temperature": 2.0, "seed": 9}}
    found = compare_strategies(model, IDS, ways, max_new_tokens=11, seed=4)
    assert [one.name for one in found] == list(ways)
    for one in found:
        seeded = {"seed": 4} if "temperature" in one.settings else {}
        assert one.ids == model.generate(IDS, **{"max_new_tokens": 11, **seeded, **one.settings})
        np.testing.assert_array_equal(one.log_probs, model.score(IDS, one.ids))
        assert one.total == one.log_probs.sum()
        assert one.per_token == pytest.approx(np.exp(one.total / len(one.ids)))
        assert one.distinct(2) == distinct(one.ids, 2)
        assert one.text is None
    by_name = {one.name: one for one in found}
    assert by_name["beams"].total >= by_name["greedy"].total
    assert len(by_name["short"].ids) == 3


def test_nothing_came(tmp_path: Path) -> None:
    model = random_decoder()
    model.tokenizer = byte_tokenizer(tmp_path)
    model.end_ids = frozenset(range(258))
    (found,) = compare_strategies(model, "abc", {"greedy": {}})
    assert (found.ids, found.text, found.total) == ([], "", 0.0)
    assert np.isnan(found.per_token)
    for lang, said in (("en", "it ended at once"), ("zh", "立刻就结束了")):
        assert said in strategies_text([found], lang=lang)


def test_what_is_refused() -> None:
    for wrong in ([], {"greedy": 3}):
        with pytest.raises(QkvError, match="strategies must be a mapping of names to settings"):
            compare_strategies(random_decoder(), IDS, wrong)  # type: ignore[arg-type]
    with pytest.raises(QkvError, match="the prompt must be one sequence, but a list came"):
        compare_strategies(random_decoder(), [IDS, IDS])


# the command


def test_the_command(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "gpt2")
    wide = np.random.default_rng(0).normal(size=(258, 20)).astype(np.float32)
    copy.write(copy.tensors() | {"transformer.wte.weight": wide})
    copy.config(vocab_size=258)
    byte_tokenizer(copy.directory)
    model, options = copy.load(), ["ab c", "--model", str(copy.directory), "--max-new-tokens", "7"]

    def run(*more: str, lang: str = "en") -> str:
        ran = CliRunner().invoke(command(lang), ["generate", *options, *more], env={"COLUMNS": "100"})
        return ran.output if ran.exception is None else str(ran.exception)

    for lang in words.LANGUAGES:
        expected = strategies_text(compare_strategies(model, "ab c", max_new_tokens=7), lang=lang)
        assert run("--compare", lang=lang) == expected + "\n"
        assert all(name in expected for name in STRATEGIES)
    assert "beams" in run("--compare", "--seed", "5")
    assert run("--compare", "--top-k", "3") == "--top-k cannot be given together with --compare"
    beams = model.generate("ab c", max_new_tokens=7, n_beams=3, length_penalty=0.5)
    assert run("--n-beams", "3", "--length-penalty", "0.5") == beams + "\n"
    greedy = model.generate("ab c", max_new_tokens=7)
    assert run("--draft", str(copy.directory), "--n-draft", "2") == greedy + "\n"
    assert run("--kv-dtype", "int8") == model.generate("ab c", max_new_tokens=7, kv_dtype="int8") + "\n"
    assert run("--n-draft", "2") == "n_draft has no effect when no draft model is given"
