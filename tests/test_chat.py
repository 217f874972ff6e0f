"""`qkv chat`: lines in, answers out, through a pipe."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from tests.decoder_fixture import Copy, byte_tokenizer
from tests.gguf_fixture import smollm2, smollm2_file

from qkv import words
from qkv.cli import chatting
from qkv.cli.commands import qkv as command
from qkv.cli.saying import utter
from qkv.errors import QkvError
from qkv.models import Decoder, PrefixCache, load
from qkv.models.conversation import Conversation
from qkv.walkthrough import answer
from qkv.walkthrough.answer import attended

TEMPLATE = """{% for m in messages %}{{ m.role[0] }}:{{ m.content }}
{% endfor %}{% if add_generation_prompt %}a:{% endif %}"""


PRINTABLE = 94


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A tiny llama that reads bytes, with a template and room for 300 tokens."""
    copy = Copy(tmp_path, "llama")
    random, tensors = np.random.default_rng(0), copy.tensors()
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        tensors[name] = random.normal(size=(258, 20)).astype(np.float32)
    tensors["lm_head.weight"][PRINTABLE:] = 0  # so that it answers in whole characters
    copy.write(tensors)
    copy.config(vocab_size=258, max_position_embeddings=300)
    byte_tokenizer(copy.directory)
    (copy.directory / "chat_template.jinja").write_text(TEMPLATE)
    return copy.directory


def talk(directory: Path, lines: str, *options: str, lang: str = "en") -> Result:
    return CliRunner().invoke(command(lang), ["chat", "--model", str(directory), *options], input=lines)


def expected(directory: Path, lines: list[str], n: int) -> list[dict[str, str]]:
    """The chat, each answer computed from the beginning."""
    model, messages = load(directory), []
    for line in lines:
        messages.append({"role": "user", "content": line})
        text = model.generate(model.chat_prompt(messages), max_new_tokens=n)
        messages.append({"role": "assistant", "content": text})
    return messages


def test_each_answer_follows_from_all_that_was_said(directory: Path, tmp_path: Path) -> None:
    known = expected(directory, ["hello", "你好，世界", "more"], 13)
    file = tmp_path / "chat.json"
    run = talk(directory, f"hello\n\n你好，世界\nmore\n/save {file}\n", "--max-new-tokens", "13")
    assert run.exit_code == 0
    assert run.stdout == "".join(m["content"] + "\n" for m in known if m["role"] == "assistant")
    assert json.loads(file.read_text()) == known
    assert run.stderr == f"written: {file}\n"


def test_only_what_was_saved_before_is_written_over(directory: Path, tmp_path: Path) -> None:
    mine, link = tmp_path / "mine.txt", tmp_path / "link"
    mine.write_text("precious")
    link.symlink_to(mine)
    run = talk(
        directory,
        f"hello\n/save {mine}\n/save {link}\n/save {tmp_path}/new\nmore\n/save {tmp_path}/new\n",
        "--max-new-tokens",
        "7",
    )
    assert mine.read_text() == "precious"
    assert f"there is a file {mine} already; it was left as it is\n" in run.stderr
    assert f"there is a file {link} already" in run.stderr
    assert len(json.loads((tmp_path / "new").read_text())) == 4


def test_the_history_is_not_read_again(directory: Path) -> None:
    chat = Conversation(load(directory), {"max_new_tokens": 7})
    for line in ("hello", "more"):
        list(chat.answer(line))
    assert chat.cache.n_reused >= len("u:hello\na:") + 6
    assert chat.cache.n_computed <= len("\nu:more\na:") + 1 + 7 * 4  # an answer may be spelled with other tokens


def test_reset_and_system(directory: Path) -> None:
    lines = "hello\n/reset\nhello\n/system be brief\nhello\n/reset\nhello\n/system\nhello\n"
    run = talk(directory, lines, "--max-new-tokens", "7", "--system", "be long")
    chat = load(directory)
    system = {name: {"role": "system", "content": name} for name in ("be long", "be brief")}
    user = {"role": "user", "content": "hello"}
    told = {name: chat.generate(chat.chat_prompt([s, user]), max_new_tokens=7) for name, s in system.items()}
    plain = chat.generate(chat.chat_prompt([user]), max_new_tokens=7)
    answers = [told["be long"]] * 2 + [told["be brief"]] * 2 + [plain]
    assert run.stdout == "".join(text + "\n" for text in answers)
    assert len(set(answers)) == 3
    assert run.stderr.count("\n") == 4


def test_settings_reach_the_model(directory: Path) -> None:
    options = ["--temperature", "0.9", "--seed", "3", "--top-k", "40", "--kv-dtype", "int8", "--max-new-tokens", "9"]
    model = load(directory)
    prompt = model.chat_prompt([{"role": "user", "content": "hello"}])
    how: dict[str, Any] = {"temperature": 0.9, "seed": 3, "top_k": 40, "kv_dtype": "int8", "max_new_tokens": 9}
    assert talk(directory, "hello\n", *options).stdout == model.generate(prompt, **how) + "\n"


def test_attention(directory: Path) -> None:
    lines = "/attention\nhello\n/attention\n/attention 1\n/attention 2 3\nmore\n"
    run = talk(directory, lines, "--max-new-tokens", "5")
    assert run.stderr == "there is no answer yet to look into\n"
    text = run.stdout
    assert text.count("The heads: entropy") == 3
    for line in ("mean over all heads of all layers (4 of 4 tokens)", "the heads of layer 1", "layer 2, head 3"):
        assert line in text.replace("\n", " ")
    assert text.splitlines()[-1] == expected(directory, ["hello", "more"], 5)[-1]["content"]  # looking changes nothing
    zh = talk(directory, "hello\n/attention 0\n/help\n", lang="zh")
    assert "回答的词元看了什么，取第 0 层各个头的平均" in zh.stdout.replace("\n", "")
    assert "忘掉说过的一切" in zh.stderr


def test_attention_is_that_of_the_model(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import qkv

    model = load(directory)
    chat = Conversation(model, {"max_new_tokens": 8})
    list(chat.answer("hello"))
    ids, n = chat.cache.ids, chat.n_prompt
    assert len(ids) == n + 7
    with qkv.record("layers.2.attention.weights") as trace:
        model(ids)
    weights = trace["layers.2.attention.weights"]
    monkeypatch.setattr(answer, "MOST", 5)
    line, tokens, _, heads = attended(model, chat.cache, n, 2)
    assert line.facts == {"layer": 2, "head": None, "shown": 5, "total": 7}  # type: ignore[union-attr]
    assert len(tokens.rows) == 5  # type: ignore[union-attr]
    for i, row in enumerate(tokens.rows, n):  # type: ignore[union-attr]
        mean = weights[:, i].mean(axis=0)
        assert row[0] == i
        assert row[2] == pytest.approx(mean[0], abs=1e-5)
        best = int(row[3].split()[0])
        assert mean[best] == pytest.approx(mean[1:].max(), abs=1e-5)
        assert row[3].endswith(f"{mean[best]:.2f}")
    assert [row[:2] for row in heads.rows] == [(2, head) for head in range(4)]  # type: ignore[union-attr]
    for row, of_head in zip(heads.rows, weights):  # type: ignore[union-attr]
        shown = of_head[n : n + 5]
        shares = [shown[:, :1].sum(-1).mean(), shown[:, 1:n].sum(-1).mean(), shown[:, n:].sum(-1).mean()]
        np.testing.assert_allclose(row[3:], shares, atol=1e-5)
        assert sum(row[3:]) == pytest.approx(1, abs=1e-5)
    assert chat.cache.ids == ids


# what stops it


def test_a_full_context_says_so_and_how_to_go_on(directory: Path) -> None:
    run = talk(directory, f"{'a' * 290}\n{'b' * 5}\n/reset\nhello\n", "--max-new-tokens", "50")
    cut, full = run.stderr.splitlines()[:1], run.stderr
    assert "the model has only 300 positions" in " ".join(run.stderr.split())
    assert "there is no room for an answer; /reset begins anew, --slide forgets the older half" in full
    assert cut
    assert len(run.stdout.splitlines()) >= 2
    known = expected(directory, ["hello"], 50)[1]["content"]
    assert run.stdout.endswith(known + "\n")
    slid = talk(directory, f"{'a' * 290}\n{'b' * 5}\n", "--max-new-tokens", "50", "--slide")
    assert slid.stderr == ""


def test_ctrl_c_stops_the_answer_and_not_the_chat(
    directory: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In the middle of the second pass of the first answer; the next one is what it would be without that."""
    plain, n_calls = Decoder.forward, 0

    def forward(self: Decoder, *args: Any) -> Any:
        nonlocal n_calls
        n_calls += 1
        if n_calls == 4:
            for layer in self.layers[:2]:  # some layers have read the token, some have not
                args[1][self.layers.index(layer)].append(*(np.ones((2, 1, 6), np.float32),) * 2)
            raise KeyboardInterrupt
        return plain(self, *args)

    monkeypatch.setattr(Decoder, "forward", forward)
    file = tmp_path / "chat.json"
    run = talk(directory, f"hello\nmore\n/save {file}\n", "--max-new-tokens", "9")
    assert run.exit_code == 0
    assert run.stderr.startswith("(stopped; what came counts as said)")
    said = json.loads(file.read_text())
    assert [m["role"] for m in said] == ["user", "assistant"] * 2
    model = load(directory)
    assert said[3]["content"] == model.generate(model.chat_prompt(said[:3]), max_new_tokens=9)
    whole = expected(directory, ["hello"], 9)[1]["content"]
    assert whole.startswith(said[1]["content"])
    assert len(said[1]["content"]) < len(whole)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("/no", "the command must be one of /attention, /help, /quit, /reset, /save, /system, but it is '/no'"),
        ("/attention x", "/attention must be a layer and a head, as numbers, but x came"),
        ("/attention 1 2 3", "as numbers, but 1 2 3 came"),
        ("/save", "/save must be the name of a file, but nothing came"),
        ("/save /no/such/place", "cannot be written"),
        ("/save a\0b", "cannot be written: no name that a file may have"),
        ("/attention " + "9" * 5000, "/attention must be a layer and a head, as numbers"),
        ("/attention", "there is no answer yet to look into"),
    ],
)
def test_a_wrong_command_is_said_and_the_chat_goes_on(directory: Path, line: str, message: str) -> None:
    run = talk(directory, f"{line}\nhello\n", "--max-new-tokens", "5")
    assert message in run.stderr
    assert run.stderr.count("\n") == 1
    assert run.stdout == expected(directory, ["hello"], 5)[1]["content"] + "\n"


def test_a_layer_that_is_not_there(directory: Path) -> None:
    run = talk(directory, "hello\n/attention 3\n/attention 0 4\n", "--max-new-tokens", "5")
    assert run.stderr == "layer must be from 0 to 2, but it is 3\nhead must be from 0 to 3, but it is 4\n"


def test_quit_and_bytes_that_are_no_text(directory: Path) -> None:
    assert talk(directory, "/quit\nhello\n").stdout == ""
    run = CliRunner().invoke(command("en"), ["chat", "--model", str(directory)], input=b"\xff\xfe\n")
    assert "no text in UTF-8" in str(run.exception)
    assert isinstance(run.exception, QkvError)


# without a template


def test_without_a_template_it_says_so_or_goes_on_with_the_text(directory: Path) -> None:
    (directory / "chat_template.jinja").unlink()
    run = talk(directory, "hello\n")
    assert "has no chat template" in str(run.exception)
    assert "--plain" in str(run.exception)
    run = talk(directory, "hello\nand\n", "--plain", "--max-new-tokens", "7")
    model = load(directory)
    first = model.generate("hello", max_new_tokens=7)
    second = model.generate(f"hello{first}\nand", max_new_tokens=7)
    assert run.stdout == f"{first}\n{second}\n"


def test_help(directory: Path) -> None:
    for lang in words.LANGUAGES:
        assert "--kv-dtype" in CliRunner().invoke(command(lang), ["chat", "--help"]).output
    from tests.decoder_fixture import TINY

    run = talk(TINY.parent / "tiny_bert", "hello\n")
    assert "holds no decoder" in str(run.exception)


def test_an_answer_that_was_never_given(directory: Path) -> None:
    model = load(directory)
    with pytest.raises(QkvError, match="there is no answer yet"):
        attended(model, PrefixCache(model), 0)


def test_smollm2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chatting, "load_shown", lambda path, lang: smollm2())
    lines = "What is the capital of France?\n/attention 3 2\nAnd of Spain?\n"
    run = talk(smollm2_file(), lines, "--max-new-tokens", "7")
    answers = run.stdout.splitlines()
    assert "Paris" in answers[0]
    assert "Madrid" in answers[-1]
    assert "ĠFrance" in run.stdout or "ĠParis" in run.stdout


def test_what_a_model_writes_cannot_act_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        encoding = "utf-8"

        def isatty(self) -> bool:
            return True

    for stream, shown in ((Terminal(), "red\\x1b[31m\\r\n\tü 👩‍👧"), (io.StringIO(), "red\x1b[31m\r\n\tü 👩‍👧")):
        monkeypatch.setattr("sys.stdout", stream)
        assert utter("red\x1b[31m\r\n\tü 👩‍👧")
        assert stream.getvalue() == shown
