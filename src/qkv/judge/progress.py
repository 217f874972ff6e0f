"""What a learner has done: tasks tried and solved, hints taken, questions answered, days in a row."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from .. import words
from ..errors import FileError, QkvError
from . import store
from .mistakes import explained
from .task import Task
from .verdict import Verdict

RUNGS = (1, 2, 3)
NONE = type(None)
KINDS = {
    "int": (int,), "bool": (bool,), "list[str]": (list,), "str | None": (str, NONE), "float | None": (int, float, NONE),
}  # fmt: skip
MOMENTS = ("started", "solved", "last")


@dataclass
class Tried:
    """What is kept of one task.

    Attributes
    ----------
    attempts : int
    started : str or None
        When the starter was written that has not been solved yet; times are ISO 8601.
    solved, last : str or None
        When it was first solved, when it was last tried.
    best_seconds : float or None
        Shortest time from starter to solution.
    best_run_seconds : float or None
        Shortest run of an attempt that passed.
    mistakes : list of str
        Those that the last verdict named.
    hints : int
        How many hints were shown since these mistakes were named.
    """

    attempts: int = 0
    started: str | None = None
    solved: str | None = None
    last: str | None = None
    best_seconds: float | None = None
    best_run_seconds: float | None = None
    mistakes: list[str] = field(default_factory=list)
    hints: int = 0


@dataclass
class Answered:
    """What is kept of one question of a quiz: how often it was answered rightly and wrongly, and the last time."""

    right: int = 0
    wrong: int = 0
    last: str | None = None
    last_right: bool = False


@dataclass
class Progress:
    """All that is kept.

    Attributes
    ----------
    tasks : dict of str to Tried
    quiz : dict of str to Answered
    days : list of str
        The days on which something was tried or answered, each once.
    notices : list of QkvError
        What a person should hear about the file. Not kept.
    """

    tasks: dict[str, Tried] = field(default_factory=dict)
    quiz: dict[str, Answered] = field(default_factory=dict)
    days: list[str] = field(default_factory=list)
    notices: list[QkvError] = field(default_factory=list)

    def kept(self) -> dict[str, Any]:
        """What goes into the file."""
        return {
            "tasks": {name: asdict(one) for name, one in self.tasks.items()},
            "quiz": {name: asdict(one) for name, one in self.quiz.items()},
            "days": self.days,
        }

    def task(self, name: str) -> Tried:
        """What is known of a task; nothing yet, if it is new."""
        return self.tasks.get(name, Tried())

    @property
    def solved(self) -> list[str]:
        return [name for name, one in self.tasks.items() if one.solved]

    def streak(self, today: date | None = None) -> int:
        """Days in a row up to today; up to yesterday while nothing has been done today.

        Examples
        --------
        >>> Progress(days=["2026-03-01", "2026-03-03", "2026-03-04"]).streak(date(2026, 3, 5))
        2
        """
        today = today or date.today()
        done = {date.fromisoformat(day) for day in self.days}
        last = today if today in done else today - timedelta(days=1)
        days = 0
        while last - timedelta(days=days) in done:
            days += 1
        return days

    def touch(self, now: datetime) -> str:
        """Note the day, give the moment as it is kept."""
        day = now.date().isoformat()
        if day not in self.days:
            self.days = sorted([*self.days, day])
        return now.isoformat(timespec="seconds")


def load() -> Progress:
    """What is kept, to be looked at. A damaged file is set aside, and a notice says so; one that cannot be read too.

    Raises
    ------
    FileError
        store_version, when another version of qkv wrote the file.
    """
    path = store.location()
    try:
        return _parsed(path, store.read(path))
    except FileError as error:
        if error.key == "store_version":
            raise
        if error.key != "damaged":
            return Progress(notices=[error])
    try:
        with store.locked(path):
            return _sound(path)
    except FileError as error:
        return Progress(notices=[error])


@contextmanager
def changing() -> Iterator[Progress]:
    """What is kept, to be changed: read, changed and written while no other process can. An error writes nothing.

    Raises
    ------
    FileError
        When the file cannot be read or written, another version of qkv wrote it, or another process keeps it locked.
    """
    path = store.location()
    with store.locked(path):
        progress = _sound(path)
        yield progress
        store.write(path, progress.kept())


def _sound(path: Path) -> Progress:
    """What a file holds, or nothing and a notice once it has been set aside. Under the lock."""
    try:
        return _parsed(path, store.read(path))
    except FileError as error:
        if error.key != "damaged":
            raise
        aside = store.set_aside(path)
        return Progress(notices=[FileError("set_aside", path=path, reason=error.facts["reason"], aside=aside.name)])


def _parsed(path: Path, data: dict[str, Any]) -> Progress:
    try:
        return Progress(
            tasks={name: _record(Tried, one) for name, one in dict(data.get("tasks", {})).items()},
            quiz={name: _record(Answered, one) for name, one in dict(data.get("quiz", {})).items()},
            days=sorted({date.fromisoformat(day).isoformat() for day in list(data.get("days", []))}),
        )
    except (TypeError, ValueError, AttributeError):
        raise FileError("damaged", path=path, reason="entries of another kind") from None


def _record(kind: type[Any], data: dict[str, Any]) -> Any:
    """A record, if every value is of the kind that is kept there."""
    empty = kind()
    for one in fields(kind):
        value = data.get(one.name, getattr(empty, one.name))
        if type(value) not in KINDS[str(one.type)]:
            raise TypeError(one.name)
        if isinstance(value, list) and not all(isinstance(item, str) for item in value):
            raise TypeError(one.name)
        if one.name in MOMENTS and value is not None:
            datetime.fromisoformat(value)
    return kind(**data)


def record_attempt(task: str, verdict: Verdict, seconds: float) -> tuple[str, ...]:
    """Keep one attempt. Never raises: what a person should hear comes back, in the verdict's language.

    Parameters
    ----------
    task : str
    verdict : Verdict
        One that passed solves the task only if it ran every probe.
    seconds : float
        How long the attempt ran.

    Returns
    -------
    tuple of str
        Lines for standard error, mostly none.
    """
    try:
        with changing() as progress:
            _attempted(progress, task, verdict, seconds, datetime.now().astimezone())
    except FileError as error:
        return (words.say("practice.not_kept", verdict.lang, why=words.message(error, verdict.lang)),)
    return tuple(words.message(notice, verdict.lang) for notice in progress.notices)


def _attempted(progress: Progress, name: str, verdict: Verdict, seconds: float, now: datetime) -> None:
    tried = progress.tasks.setdefault(name, Tried())
    tried.attempts += 1
    tried.last = progress.touch(now)
    mistakes = [one for one in verdict.mistakes if one != "no_match"]
    if mistakes != tried.mistakes:
        tried.mistakes, tried.hints = mistakes, 0
    counted = sum(not probe.note for probe in verdict.task.probes)
    if not verdict.passed or len(verdict.results) < counted:
        return
    tried.solved = tried.solved or tried.last
    runs = [tried.best_run_seconds, round(seconds, 3)]
    tried.best_run_seconds = min(run for run in runs if run is not None)
    if tried.started:
        took = round(max(0.0, (now - datetime.fromisoformat(tried.started)).total_seconds()), 3)
        tried.best_seconds = took if tried.best_seconds is None else min(took, tried.best_seconds)
        tried.started = None


def record_start(task: str) -> tuple[QkvError, ...]:
    """Keep that a starter was written: the clock runs. Raises as `changing`; gives notices about the file."""
    with changing() as progress:
        now = datetime.now().astimezone()
        progress.tasks.setdefault(task, Tried()).started = now.isoformat(timespec="milliseconds")
    return tuple(progress.notices)


def record_answer(question: str, right: bool) -> tuple[QkvError, ...]:
    """Keep one answer of a quiz. Raises as `changing`; gives notices about the file."""
    with changing() as progress:
        answered = progress.quiz.setdefault(question, Answered())
        answered.right += right
        answered.wrong += not right
        answered.last, answered.last_right = progress.touch(datetime.now().astimezone()), right
    return tuple(progress.notices)


def reset(task: str) -> None:
    """Forget a task. Raises as `changing`."""
    with changing() as progress:
        progress.tasks.pop(task, None)


def rungs(task: Task, tried: Tried) -> list[tuple[str, int]]:
    """The hints of a task from first to last: three for each mistake last named, or three general ones (no name)."""
    known = [name for name in tried.mistakes if _is_explained(task, name)]
    return [(name, rung) for name in known or [""] for rung in RUNGS]


def _is_explained(task: Task, name: str) -> bool:
    """Whether there still are hints for a mistake that was named, perhaps by an older version."""
    try:
        return bool(explained(task, name))
    except KeyError:
        return False


def next_rung(tried: Tried, ladder: list[tuple[str, int]]) -> tuple[str, int]:
    """The hint that has not been shown yet; the last one, when all have been."""
    return ladder[min(tried.hints, len(ladder) - 1)]


def record_hint(task: str) -> tuple[QkvError, ...]:
    """Keep that one more hint was shown. Raises as `changing`; gives notices about the file."""
    with changing() as progress:
        progress.tasks.setdefault(task, Tried()).hints += 1
    return tuple(progress.notices)
