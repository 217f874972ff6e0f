"""Every command and every example that the README and the documentation show gives what they show."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.pages import (
    LEFT_OUT,
    PAGES,
    Examples,
    blocks,
    commands,
    examples,
    language_of,
    name_of,
    needs_model,
    place,
    run,
    shows,
)

CONSOLE = [
    pytest.param(page, command, shown, id=f"{name_of(page)}: {command}")
    for page in PAGES
    for block in blocks(page.read_text(encoding="utf-8"))
    if block.kind == "console"
    for command, shown in commands(block.text)
]


@pytest.mark.parametrize(("page", "command", "shown"), CONSOLE)
def test_a_command_prints_what_is_shown(page: Path, command: str, shown: list[str]) -> None:
    with place(language_of(page)):
        real = run(command)
    if LEFT_OUT not in shown:
        assert real == shown
    assert shows(shown, real), "\n".join(real)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_gives_what_is_shown(page: Path) -> None:
    runner = Examples()
    with place(language_of(page)):
        test = examples(page)
        if test is not None:
            runner.run(test, out=lambda _: None)
    wrong = [f"line {e.lineno + 1}: {e.source}shown:\n{e.want}real:\n{got}" for e, got in runner.failed]
    assert not wrong, "\n".join(wrong)


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
