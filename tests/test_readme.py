"""Every command and every example that the README and the documentation show gives what they show."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.pages import (
    LEFT_OUT,
    PAGES,
    Block,
    Examples,
    blocks,
    examples,
    name_of,
    needs_model,
    place,
    run,
    session,
    shows,
)

SESSIONS = [page for page in PAGES if any(b.kind == "console" for b in blocks(page.read_text(encoding="utf-8")))]


@pytest.mark.parametrize("page", SESSIONS, ids=name_of)
def test_the_commands_of_a_page_print_what_is_shown(page: Path) -> None:
    wrong = []
    with place(page):
        for command, shown, real in session(page):
            if not shows(shown, real):
                wrong.append("\n".join([f"$ {command}", "shown:", *shown, "real:", *real]))
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_gives_what_is_shown(page: Path) -> None:
    runner = Examples()
    with place(page):
        test = examples(page)
        if test is not None:
            runner.run(test, out=lambda _: None)
    wrong = [f"line {e.lineno + 1}: {e.source}shown:\n{e.want}real:\n{got}" for e, got in runner.failed]
    assert not wrong, "\n".join(wrong)


def test_a_session_keeps_files_input_and_ends(tmp_path: Path) -> None:
    with place(tmp_path / "page.md"):
        Block("python", "def softmax(x, axis=-1):\n    return x\n", 0, "deep/softmax.py").write()
        assert run("qkv check softmax deep/softmax.py --only example; echo $?")[-1] == "1"
        assert any("softmax" in line for line in run("qkv progress"))
        assert run("echo A | qkv quiz --seed 1 --n 1")[-1] in ("0 of 1 right.", "1 of 1 right.")
    with place(tmp_path / "page.md"):
        assert not any("softmax " in line for line in run("qkv progress"))


def test_left_out_lines() -> None:
    real = ["a", "b", "c", "b", "d"]
    assert shows(["a", LEFT_OUT, "b", "d"], real)
    assert shows([LEFT_OUT, "d"], real)
    assert shows(["a", LEFT_OUT], real)
    assert not shows(["a", LEFT_OUT], ["a"])
    assert not shows(["a", LEFT_OUT, "c"], real)
    assert not shows([LEFT_OUT, "x", LEFT_OUT], real)
    assert not shows(["a", "b"], real)


@pytest.mark.parametrize("readme", ["README.md", "README.zh.md"])
def test_the_readme_is_short_and_shows_each_thing(readme: str) -> None:
    text = next(page for page in PAGES if name_of(page) == readme).read_text(encoding="utf-8")
    assert text.count("\n") <= 170
    shown = [block.kind for block in blocks(text)]
    assert shown.count("console") >= 2
    assert shown.count("python") >= 4
    assert needs_model(text)
