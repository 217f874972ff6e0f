"""`qkv check`: judge a file or a program, once or whenever it is saved."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import click

from .. import words
from ..errors import ArgumentError
from ..judge.checking import TIMEOUT, check
from ..judge.orders import order
from ..judge.process import Child
from ..judge.progress import record_attempt
from ..judge.tasks import load
from ..judge.verdict import Verdict
from ..views.screen import Screen, printable, write
from ..views.verdict_text import verdict_text
from .saying import aside
from .starting import start_anew, write_new

POLL = 0.05


def add(group: click.Group, lang: str) -> None:
    """Add the commands of the judge to the command line."""

    def option(*flags: str, **how: Any) -> Callable[[Any], Any]:
        return click.option(*flags, help=words.say(f"help.check_option.{flags[0].lstrip('-')}", lang), **how)

    @group.command("check", help=words.say("help.check", lang))
    @click.argument("task")
    @click.argument("file", required=False, type=click.Path(path_type=Path))
    @option("--function")
    @option("--only")
    @option("--timeout", type=float, default=TIMEOUT)
    @option("--cmd")
    @option("--watch", is_flag=True)
    @option("--hint", type=click.IntRange(0, 3), default=0)
    @option("--json", "as_json", is_flag=True)
    @option("--lang", "asked", type=click.Choice(words.LANGUAGES))
    def check_command(
        task: str, file: Path | None, function: str | None, only: str | None, timeout: float, cmd: str | None,
        watch: bool, hint: int, as_json: bool, asked: str | None,
    ) -> int:  # fmt: skip
        how = {"function": function, "only": only, "timeout": timeout, "lang": asked}
        screen = Screen.of(sys.stdout, os.environ)
        if watch:
            if file is None:
                raise ArgumentError("number", name="FILE", expected="given with --watch", value=file)
            return watching(task, file, screen, how)
        verdict = judged(task, file, cmd=cmd, **how)
        show(verdict.to_json() if as_json else verdict_text(verdict, screen, hint), screen)
        return verdict.exit_code


def judged(task: str, file: Path | None, **how: Any) -> Verdict:
    """A verdict, kept as an attempt."""
    started = time.perf_counter()
    verdict = check(task, file, **how)
    for line in record_attempt(task, verdict, time.perf_counter() - started):
        aside(line)
    return verdict


def show(text: str, screen: Screen) -> None:
    write(sys.stdout, printable(text + "\n", screen))


def watching(task: str, file: Path, screen: Screen, how: dict[str, Any]) -> int:
    """Judge now and after each save: h shows a hint more, n goes to the next task, r starts anew, q ends."""
    hints = 0
    verdict: Verdict | None = None
    child = Child()
    try:
        with keys() as pressed:
            saved = None
            while True:
                now = _saved(file)
                if (now != saved and now is not None) or verdict is None:
                    saved, hints = now, 0
                    verdict = judged(task, file, child=child, **how)
                    child = Child()  # warm by the time of the next save
                    _page(verdict, file, hints, screen)
                key = pressed(POLL)
                if key == "q":
                    return verdict.exit_code
                if key == "r":
                    kept = start_anew(file, load(task).starter(verdict.lang))
                    how["function"] = None  # the starter has the task's own
                    aside(words.say("judge.started_anew", verdict.lang, kept=kept.name))
                elif key == "n":
                    known = order("interview")
                    task = known[(known.index(task) + 1) % len(known)]
                    file, how["function"], how["only"] = file.with_name(f"{task}.py"), None, None
                    write_new(file, load(task).starter(verdict.lang))
                    saved, verdict = None, None
                elif key == "h":
                    hints = min(hints + 1, 3)
                    _page(verdict, file, hints, screen)
    finally:
        child.close()


def _saved(file: Path) -> tuple[int, int] | None:
    """When the file was saved and how long it is; None while it is away, as editors do when they save."""
    try:
        about = file.stat()
    except OSError:
        return None
    return about.st_mtime_ns, about.st_size


def _page(verdict: Verdict, file: Path, hints: int, screen: Screen) -> None:
    if sys.stdout.isatty():
        write(sys.stdout, "\x1b[2J\x1b[H")
    below = [words.say("judge.waiting", verdict.lang, file=file.name), words.say("judge.keys", verdict.lang)]
    show("\n".join([verdict_text(verdict, screen, hints), "", *below]), screen)


@contextmanager
def keys() -> Any:
    """Gives a function that waits for a key at most so many seconds: the key, or nothing."""
    if sys.platform == "win32":
        import msvcrt

        def pressed(seconds: float) -> str:
            time.sleep(seconds)
            return msvcrt.getwch() if msvcrt.kbhit() else ""

        yield pressed
        return
    import select

    with _single_keys() if sys.stdin.isatty() else nullcontext():

        def pressed(seconds: float) -> str:
            ready, _, _ = select.select([sys.stdin], [], [], seconds)
            return (os.read(sys.stdin.fileno(), 1).decode("ascii", "replace") or "q") if ready else ""

        yield pressed


@contextmanager
def _single_keys() -> Any:
    """The terminal gives each key at once and does not echo it; as before afterwards."""
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
