"""`qkv practice`, `qkv hint`, `qkv solution`, `qkv progress`: learning by writing, and what is kept of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from .. import words
from ..course.quiz import all_questions
from ..errors import ArgumentError, FileError, QkvError
from ..judge import progress as kept
from ..judge.mistakes import explained
from ..judge.orders import ORDERS, order
from ..judge.task import Task
from ..judge.tasks import load, names
from ..views import progress_text as view
from ..views.screen import write
from .saying import aside, screen, show, tell
from .starting import free_name, write_new

LEFT_AS_IT_IS = 1  # how `practice` ends when there is a file already


def add(group: click.Group, lang: str) -> None:
    """Add the commands to the command line."""

    def option(*flags: str, **how: Any) -> Callable[[Any], Any]:
        return click.option(*flags, help=words.say(f"help.practice_option.{flags[0].lstrip('-')}", lang), **how)

    spoken = option("--lang", type=click.Choice(words.LANGUAGES), expose_value=False)

    @group.command("practice", help=words.say("help.practice", lang))
    @click.argument("task", required=False)
    @option("--order", "asked", type=click.Choice(ORDERS), default="course")
    @option("--dir", "folder", type=click.Path(path_type=Path), default=Path())
    @option("--new", is_flag=True)
    @spoken
    def practice_command(task: str | None, asked: str, folder: Path, new: bool) -> int:
        if task is None:
            progress = kept.load()
            tell(progress.notices, lang)
            show(view.order_text([load(name) for name in order(asked)], progress, asked, lang, screen()))
            return 0
        return _practise(_task(task), folder, new, lang)

    @group.command("hint", help=words.say("help.hint", lang))
    @click.argument("task")
    @option("--rung", type=click.IntRange(1, 3))
    @option("--mistake")
    @spoken
    def hint_command(task: str, rung: int | None, mistake: str | None) -> None:
        _hint(_task(task), rung, mistake, lang)

    @group.command("solution", help=words.say("help.solution", lang))
    @click.argument("task")
    @option("--reveal", is_flag=True)
    @spoken
    def solution_command(task: str, reveal: bool) -> None:
        known = _task(task)
        if not reveal:
            progress = kept.load()
            tell(progress.notices, lang)
            if not progress.task(task).solved:
                raise ArgumentError("not_solved", task=task)
        show(view.solution_text(known, lang, screen()))

    @group.command("progress", help=words.say("help.progress", lang))
    @option("--json", "as_json", is_flag=True)
    @option("--reset", "forget")
    @option("--yes", is_flag=True)
    @spoken
    def progress_command(as_json: bool, forget: str | None, yes: bool) -> int:
        if forget is not None:
            return _forget(forget, yes, lang)
        progress = kept.load()
        tell(progress.notices, lang)
        if as_json:
            numbers = {"solved": progress.solved, "total": len(names()), "streak_days": progress.streak()}
            show(json.dumps({**numbers, **progress.kept()}, ensure_ascii=False, indent=1))
        else:
            show(view.progress_text(progress, list(names()), len(all_questions()), lang, screen()))
        return 0


def _practise(task: Task, folder: Path, new: bool, lang: str) -> int:
    """Print what is asked and write the starter, unless there is a file of that name."""
    path = folder / f"{task.name}.py"
    if new:
        path = free_name(path)
    said = [view.statement_text(task, lang, screen()), ""]
    fresh = write_new(path, task.starter(lang))
    if fresh:
        said.append(words.say("practice.written", lang, path=path))
    else:
        said.append(words.say("practice.there_already", lang, path=path, task=_with_folder(task, folder)))
    said.append(words.say("practice.check_it", lang, task=task.name, path=_quoted(path)))
    show("\n".join([said[0], "", *(view.paragraph(line, screen()) for line in said[2:])]))
    if fresh:
        _keep(lambda: kept.record_start(task.name), "start_not_kept", lang)
    return 0 if fresh else LEFT_AS_IT_IS


def _with_folder(task: Task, folder: Path) -> str:
    return task.name if folder == Path() else f"{task.name} --dir {_quoted(folder)}"


def _quoted(path: Path) -> str:
    return f'"{path}"' if " " in str(path) else str(path)


def _hint(task: Task, rung: int | None, mistake: str | None, lang: str) -> None:
    progress = kept.load()
    tried = progress.task(task.name)
    tell(progress.notices, lang)
    known = [one.id for one in task.mistakes]
    if mistake is not None and mistake not in known:
        raise ArgumentError("choice", name="--mistake", choices=", ".join(known), value=mistake)
    ladder = kept.rungs(task, tried)
    named, n = kept.next_rung(tried, ladder)
    named, shown = (named, n) if mistake is None else (mistake, 1)
    shown = rung or shown
    head = [view.paragraph(line, screen()) for line in _about(task, tried, mistake or named, mistake, lang)]
    foot = []
    if rung is None and mistake is None and _keep(lambda: kept.record_hint(task.name), "hint_not_kept", lang):
        more = tried.hints < len(ladder) - 1
        foot = [words.say("practice.another_hint" if more else "practice.no_more_hints", lang, task=task.name)]
    body = view.hint_text(task, named, shown, lang, screen())
    show("\n".join([*head, body, *(view.paragraph(line, screen()) for line in foot)]))


def _about(task: Task, tried: kept.Tried, named: str, asked: str | None, lang: str) -> list[str]:
    """What the hint is for."""
    if named:
        means = explained(task, named).means[lang]
        return [means] if asked else [words.say("practice.for_mistake", lang, means=means)]
    return [words.say("practice.after_pass" if tried.solved else "practice.no_mistake", lang, task=task.name)]


def _forget(task: str, yes: bool, lang: str) -> int:
    known = {*names(), *kept.load().tasks}
    if task not in known:
        raise ArgumentError("choice", name="--reset", choices=", ".join(sorted(known)), value=task)
    if not yes and not _agreed(words.say("practice.ask_reset", lang, task=task)):
        show(words.say("practice.not_reset", lang))
        return 1
    kept.reset(task)
    show(words.say("practice.was_reset", lang, task=task))
    return 0


def _agreed(question: str) -> bool:
    """Ask; anything but a yes is a no, the end of the input too."""
    write(sys.stdout, f"{question} [y/N] ")
    answer = sys.stdin.readline()
    if not answer.endswith("\n") or not sys.stdin.isatty():
        write(sys.stdout, "\n")
    return answer.strip().lower() in ("y", "yes", "是", "好")


def _task(name: str) -> Task:
    if name not in names():
        raise ArgumentError("choice", name="task", choices=", ".join(names()), value=name)
    return load(name)


def _keep(record: Callable[[], Iterable[QkvError]], key: str, lang: str) -> bool:
    """Keep something; when it cannot be kept, that is said, and spoils nothing."""
    try:
        tell(record(), lang)
    except FileError as error:
        aside(words.say(f"practice.{key}", lang, why=words.message(error, lang)))
        return False
    return True
