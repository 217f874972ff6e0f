"""`qkv fill`, `qkv classify`, `qkv embed`: in a pipe, on a narrow screen, in both languages."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from rich.cells import cell_len
from tests.encoder_fixture import TINY, tiny
from tests.models_fixture import TINY as BERT
from tests.models_fixture import tiny as tiny_bert

from qkv import words
from qkv.cli.commands import qkv as command
from qkv.errors import QkvError
from qkv.models import Filling
from qkv.views.encoder_text import fill_text, labels_text, similarity_text
from qkv.views.screen import Screen


def run(*arguments: str, lang: str = "en", given: str = "", **env: str) -> str:
    found = CliRunner().invoke(command(lang), arguments, input=given, env=env, catch_exceptions=False)
    assert found.exit_code == 0
    return found.output


def refused(*arguments: str) -> QkvError:
    with pytest.raises(QkvError) as caught:
        CliRunner().invoke(command("en"), arguments, catch_exceptions=False)
    return caught.value


FILL, CLASSIFY = (("--model", str(TINY / name)) for name in ("bert-fill", "bert-classify"))
EMBED = ("--model", str(BERT))


def test_fill() -> None:
    found = tiny("bert-fill").fill("the [MASK] sat on [MASK].", top=2)
    lines = [[f"{one.probability:.4f}  {one.text}" for one in fillings] for fillings in found]
    english = run("fill", "the [MASK] sat", "on [MASK].", *FILL, "--top", "2").split("\n\n")
    assert [block.splitlines()[1:] for block in english] == lines
    assert english[1].startswith("Mask 2 of 2, while the others stay hidden\n")
    assert run("fill", "-", *FILL, "--top", "2", lang="zh", given="the [MASK] sat on [MASK].\n").startswith(
        "第 1 个掩码"
    )
    assert run("fill", "the [MASK]", *FILL, "--top", "1").count("\n") == 1
    read = json.loads(run("fill", "the [MASK]", *FILL, "--top", "3", "--json"))
    assert read["text"] == "the [MASK]"
    assert [Filling(**one) for one in read["masks"][0]] == tiny("bert-fill").fill("the [MASK]", top=3)[0]


def test_classify() -> None:
    found = tiny("bert-classify").classify("the cat")
    ordered = sorted(found.items(), key=lambda label: -label[1])
    assert run("classify", "the cat", *CLASSIFY).splitlines() == [f"{p:.4f}  {label}" for label, p in ordered]
    several = run("classify", "-", *CLASSIFY, given="the cat\n远方有颗苹果树\r\n", lang="zh").split("\n\n")
    assert [block.splitlines()[0] for block in several] == ["the cat", "远方有颗苹果树"]
    assert several[0].splitlines()[1:] == run("classify", "the cat", *CLASSIFY).splitlines()
    pair = json.loads(run("classify", "the cat", "sat", "--pair", "--json", *CLASSIFY))
    assert pair["texts"] == ["the cat", "sat"]
    assert pair["labels"] == [pytest.approx(tiny("bert-classify").classify(("the cat", "sat")))]


def test_embed() -> None:
    texts = ["the cat sat", "远方有颗苹果树"]
    vectors = tiny_bert().encode(texts)
    lines = run("embed", *texts, *EMBED).splitlines()
    np.testing.assert_array_equal(np.array([line.split() for line in lines], np.float32), vectors)
    assert run("embed", "-", *EMBED, given="the cat sat\n远方有颗苹果树\n").splitlines() == lines
    read = json.loads(run("embed", *texts, *EMBED, "--json"))
    assert read["texts"] == texts
    np.testing.assert_array_equal(np.array(read["vectors"], np.float32), vectors)
    first = run("embed", "the cat", *EMBED, "--pooling", "mean").split()
    assert len(first) == 21


def test_how_alike_texts_are() -> None:
    texts = ["the cat sat", "远方有颗苹果树", "a"]
    vectors = tiny("bert-fill").encode(texts, pooling="mean")  # whose files ask for no length of 1
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    shown = run("embed", *texts, *FILL, "--similarity", "--pooling", "mean").splitlines()
    assert shown[:4] == ["0  the cat sat", "1  远方有颗苹果树", "2  a", ""]
    table = np.array([line.split()[1:] for line in shown[5:]], float)
    np.testing.assert_allclose(table, vectors @ vectors.T, rtol=0, atol=6e-4)
    read = json.loads(run("embed", *texts, *FILL, "--similarity", "--json", "--pooling", "mean"))
    np.testing.assert_allclose(read["similarity"], vectors @ vectors.T, rtol=0, atol=1e-6)


@pytest.mark.parametrize("columns", [20, 33])
def test_a_narrow_screen(columns: int) -> None:
    long = ["the cat sat on the mat. " * 3, "远方有颗苹果树，" * 2, "a", "sat"]
    for shown in (
        run("embed", *long, *EMBED, "--similarity", COLUMNS=str(columns)),
        run("classify", *long[1:], *CLASSIFY, COLUMNS=str(columns)),
        run("fill", "[MASK] the [MASK]", *FILL, COLUMNS=str(columns)),
        run("fill", "[MASK] the [MASK]", *FILL, lang="zh", COLUMNS=str(columns)),
    ):
        assert max(map(cell_len, shown.splitlines())) <= columns


def test_what_a_model_holds_cannot_move_the_cursor() -> None:
    wild = Filling("\x1b[2J\n", "\x1b[2J\n", 7, 0.5)
    assert fill_text([[wild]], Screen(), "en") == "0.5000  \\x1b[2J"
    half = Filling("Ġæ", "\N{REPLACEMENT CHARACTER}", 7, 0.5)
    assert fill_text([[half]], Screen(), "en") == "0.5000  Ġæ"
    assert labels_text(["a"], [{"\x1b[31mred": 1.0}], Screen()) == "1.0000  \\x1b[31mred"
    assert similarity_text(["\x1b[2Jx\ny"], np.eye(1), Screen(), "en").startswith("0  \\x1b[2Jx y\n")


def test_json_on_a_screen_that_lacks_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Screen, "of", lambda *a, **k: Screen(encoding="ascii"))
    read = json.loads(run("fill", "远方[MASK]", *FILL, "--json"))
    assert read["text"] == "远方[MASK]"


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (("fill", "the cat", *FILL), "no_mask"),
        (("fill", "[MASK]", *CLASSIFY), "no_task_head"),
        (("fill", "[MASK]", "--model", str(TINY.parent / "tiny" / "llama")), "not_an_encoder"),
        (("classify", "a", "--pair", *CLASSIFY), "model_input"),
        (("classify", "a", *FILL), "no_task_head"),
        (("embed", "a", *FILL), "no_pooling"),
        (("embed", "", *EMBED), "empty_text"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_one_line(arguments: tuple[str, ...], key: str) -> None:
    error: Any = refused(*arguments)
    assert error.key == key
    for lang in words.LANGUAGES:
        assert "\n" not in words.message(error, lang)
