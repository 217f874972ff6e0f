"""`qkv grade`: a class's submissions, one row each."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from .. import words
from ..errors import ArgumentError, FileError
from ..io.whole import write_whole
from ..judge.checking import TIMEOUT
from ..judge.grade import Grades, grade
from ..judge.tasks import names
from ..views.grade_text import grade_csv, grade_json, grade_junit, grade_text
from ..views.screen import write
from .saying import aside, screen, show

EVERY = 1.0  # seconds between two lines of progress where nothing can be overwritten
INTERRUPTED = 130


def add(group: click.Group, lang: str) -> None:
    """Add the command to the command line."""

    def option(*flags: str, **how: Any) -> Callable[[Any], Any]:
        return click.option(*flags, help=words.say(f"help.grade_option.{flags[0].lstrip('-')}", lang), **how)

    to_file = click.Path(dir_okay=False, path_type=Path)

    @group.command("grade", help=words.say("help.grade", lang))
    @click.argument("dir", type=click.Path(path_type=Path))
    @option("--task", "tasks", multiple=True)
    @option("--csv", "csv_file", type=to_file)
    @option("--json", "json_file", type=to_file)
    @option("--junit", "junit_file", type=to_file)
    @option("--timeout", type=float, default=TIMEOUT)
    @option("--jobs", type=click.IntRange(1))
    @option("--lang", type=click.Choice(words.LANGUAGES), expose_value=False)
    def grade_command(
        dir: Path, tasks: tuple[str, ...], csv_file: Path | None, json_file: Path | None, junit_file: Path | None,
        timeout: float, jobs: int | None,
    ) -> int:  # fmt: skip
        if unknown := [task for task in tasks if task not in names()]:
            raise ArgumentError("choice", name="--task", choices=", ".join(names()), value=unknown[0])
        if not timeout > 0:
            raise ArgumentError("number", name="timeout", expected="a number of seconds above 0", value=timeout)
        grades = grade(dir, tasks=tasks, timeout=timeout, jobs=jobs, lang=lang, seen=_Counter(lang))
        files = {csv_file: grade_csv, json_file: grade_json, junit_file: grade_junit}
        _give(grades, {path: form for path, form in files.items() if path is not None}, lang)
        return INTERRUPTED if grades.interrupted else 0


def _give(grades: Grades, files: dict[Path, Callable[[Grades], str]], lang: str) -> None:
    """The table, then the files, each that can be written; what goes to standard output stands there alone."""
    failed: list[FileError] = []
    if not any(str(path) == "-" for path in files):
        show(grade_text(grades, screen()))
    for path, form in files.items():
        text = form(grades)
        if str(path) == "-":
            write(sys.stdout, text.rstrip("\r\n") + "\n")
            continue
        try:
            write_whole(path, text.encode("utf-8"))
            aside(words.say("cli.written", lang, path=path))
        except FileError as error:
            failed.append(error)
    if failed:
        raise failed[0]


class _Counter:
    """How far it is, on standard error: over itself in a terminal, else a line now and then."""

    def __init__(self, lang: str) -> None:
        self.lang, self.terminal, self.told = lang, sys.stderr.isatty(), time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        line = words.say("grade.done", self.lang, done=done, total=total)
        if self.terminal:
            write(sys.stderr, f"\r{line}" + ("\n" if done == total else ""))
        elif done == total or time.monotonic() - self.told > EVERY:
            self.told = time.monotonic()
            aside(line)
