"""The Markdown of a walk: tables that hold together, numbers of the run, and a user's text that stays text."""

from __future__ import annotations

import re

import numpy as np
import pytest

from qkv.views.cells import width
from qkv.views.screen import Screen
from qkv.views.walk_markdown import comparison_markdown, literal, walk_markdown
from qkv.walkthrough import compare, explain

NASTY = "a|b `c` <script> *x* [l](http://e.com) www.e.com _y_ &lt; $z$ \\ \\| # - \u2028p c\x00d @me !"


def tables(text: str) -> list[list[list[str]]]:
    """The tables as GitHub splits them: a `|` behind a backslash is text, and a backslash behind one too."""
    found: list[list[list[str]]] = []
    before = ""
    for line in text.splitlines():
        if line.startswith("|"):
            if not before.startswith("|"):
                found.append([])
            cells = re.findall(r"((?:\\.|[^|\\])*)\|", line[1:])
            found[-1].append([cell.strip() for cell in cells])
        before = line
    return found


def unescaped(text: str) -> str:
    return re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", text)


def numbers(table: list[list[str]]) -> np.ndarray:
    return np.array([[float(text) for text in row[1:]] for row in table[2:]])


def after(text: str, title: str) -> list[list[str]]:
    return tables(text[text.index(title) :])[0]


@pytest.mark.parametrize("text", ["远方有颗苹果树", NASTY, "我"])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_table_is_aligned_in_the_source_and_has_one_width(text: str, lang: str) -> None:
    written = walk_markdown(explain(text, lang=lang, causal=True, heads=2))
    assert len(tables(written)) > 15
    for table in tables(written):
        assert {len(row) for row in table} == {len(table[0])}
        assert all(re.fullmatch(r":-+|-+:", cell) for cell in table[1])
    block: list[str] = []
    for line in [*written.splitlines(), ""]:
        if line.startswith("|"):
            block.append(line)
            continue
        assert len({width(row, Screen()) for row in block}) <= 1
        block = []


def test_numbers_are_those_of_the_run() -> None:
    walk = explain("远方有颗苹果树")
    written = walk_markdown(walk)
    for name in ("X", "W_Q", "W_K", "W_V", "Q", "K", "V", "scores", "output"):
        shown = numbers(after(written, f"\n**{name}** ("))
        assert np.abs(shown - walk.values[name]).max() <= 0.5001e-4
    heat = after(written, "**weights** (7, 7), 在看")
    assert [row[0] for row in heat[2:]] == [f"{i} {token}" for i, token in enumerate(walk.tokens)]
    shown = np.array([[0.0 if x == "~0" else float(x) for x in row[1:]] for row in heat[2:]])
    assert np.abs(shown - walk.values["weights"]).max() <= 0.5001e-2


def test_masked_is_a_dot_and_not_a_zero() -> None:
    walk = explain("the cat sat on it", causal=True)
    heat = after(walk_markdown(walk), "**weights** (5, 5), looks")
    for i, row in enumerate(heat[2:]):
        assert row[1 + i + 1 :] == ["·"] * (4 - i)
        assert "·" not in row[1 : 1 + i + 1]
    scores = after(walk_markdown(walk), "## 7.")
    assert scores[2][2:] == ["-inf"] * 4
    assert "`·` masked" in walk_markdown(walk)


def test_what_a_user_wrote_comes_back_as_text() -> None:
    walk = explain(NASTY, lang="en")
    written = walk_markdown(walk)
    names = [unescaped(row[0]) for row in after(written, "**X** (")[2:]]
    plain = [token.replace("c\x00d", r"c\x00d") for token in walk.tokens]
    assert names == [unescaped(literal(token)) for token in plain]
    outside = re.sub(r"```.*?```", "", written, flags=re.DOTALL)
    for mark in ("<script", "[l]", "://", "www.", "&lt", "*x*", "`c`"):
        assert mark not in outside.replace("\\" + mark[0], "\\")
    assert not re.search("[\x00-\x09\x0b-\x1f\u2028\u202e]", written)


def test_a_line_break_in_the_text_opens_no_block() -> None:
    written = walk_markdown(explain("a\n\n# b\n```\n| c |", lang="en"))
    assert written.splitlines()[0] == r"# Attention on: a # b \`\`\` \| c \|"
    assert written.count("\n```") == 2
    assert not [line for line in written.splitlines() if line.startswith("# ")][1:]


@pytest.mark.parametrize("text", ["a_b", "W_Q", "3.5", "it's", "(x)", "远方，"])
def test_harmless_text_is_left_alone(text: str) -> None:
    assert literal(text) == text


def test_both_languages_have_the_same_structure() -> None:
    one, two = (walk_markdown(explain(example="cat-mat", causal=True, lang=lang)) for lang in ("en", "zh"))
    assert [len(t) for t in tables(one)] == [len(t) for t in tables(two)]
    assert [line.split()[0] for line in one.splitlines() if line.startswith("#")] == [
        line.split()[0] for line in two.splitlines() if line.startswith("#")
    ]
    assert one.count("\n\n") == two.count("\n\n")


def test_formulas_and_code_are_code() -> None:
    walk = explain("远方", causal=True)
    written = walk_markdown(walk)
    assert all(f"\n`{step.formula}`\n" in written for step in walk.steps)
    assert written.endswith(f"```python\n{walk.code().rstrip()}\n```\n")


def test_large_sentences_are_cut_and_say_so() -> None:
    written = walk_markdown(explain(" ".join(f"w{i}" for i in range(131)), d_model=37))
    assert "rows 8–122 of 131 left out" in written
    assert "columns 8–28 of 37 left out" in written
    assert "each cell: the largest of 5 × 5" in written
    assert len(written) < 120_000


def test_comparison() -> None:
    both = compare("the cat sat", "the dog|x sat", heads=2)
    written = comparison_markdown(both)
    assert written.startswith(r"# Two sentences, one layer: the cat sat | the dog\|x sat")
    shown = after(written, "**b - a** (3, 3)")
    assert shown[0][2] == r"1 cat/dog\|x"
    values = np.array([[0.0 if x == "~0" else float(x) for x in row[1:]] for row in shown[2:]])
    assert np.abs(values - both.difference).max() <= 0.5001e-2
