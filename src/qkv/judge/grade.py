"""Many submissions judged beside each other: one row for each, whatever a submission does."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from .. import words
from ..errors import FileError, QkvError
from .checking import TIMEOUT, check
from .process import Child
from .tasks import names

STATUSES = ("pass", "wrong", "error", "timeout", "missing")
WAIT = 0.2  # seconds between two looks at an interrupt


@dataclass(frozen=True)
class Submission:
    """A file that answers a task. Without a file: one that was expected and is not there."""

    student: str
    task: str
    file: Path | None


@dataclass(frozen=True)
class Row:
    """How one submission was judged.

    Attributes
    ----------
    student, task : str
    file : str
        Below the folder that was graded; empty if there is none.
    status : {"pass", "wrong", "error", "timeout", "missing"}
    mistakes : tuple of str
        Ids, as in a verdict.
    match : {"exact", "pair", "none"}
    failed, total : int
        Probes.
    seconds : float
    message : str
        The one line of the verdict.
    """

    student: str
    task: str
    file: str
    status: str
    mistakes: tuple[str, ...] = ()
    match: str = "none"
    failed: int = 0
    total: int = 0
    seconds: float = 0.0
    message: str = ""


@dataclass(frozen=True)
class Grades:
    """What grading a folder gave.

    Attributes
    ----------
    rows : tuple of Row
        By student, then by task.
    left_out : tuple of str
        Python files that are named after no task.
    interrupted : bool
        Whether it was ended early; then rows are missing.
    lang : {"en", "zh"}
    """

    rows: tuple[Row, ...]
    left_out: tuple[str, ...]
    interrupted: bool
    lang: str

    @property
    def counts(self) -> dict[str, int]:
        """How many rows have each status."""
        found = Counter(row.status for row in self.rows)
        return {status: found[status] for status in STATUSES}

    @property
    def common(self) -> list[tuple[str, list[Row]]]:
        """The mistakes that were named, the most common first, each with the rows that made it."""
        made: dict[str, list[Row]] = {}
        for row in self.rows:
            for mistake in row.mistakes:
                if mistake != "no_match":
                    made.setdefault(mistake, []).append(row)
        return sorted(made.items(), key=lambda pair: (-len(pair[1]), pair[0]))


def submissions(folder: Path, tasks: Sequence[str]) -> tuple[list[Submission], list[str]]:
    """What there is in a folder, and the Python files that are named after no task.

    Two layouts, which may be mixed: a folder for each student with files named after tasks, `STUDENT/TASK.py`; or files
    side by side, `STUDENT_TASK.py`. A file `TASK.py` at the top belongs to a student of the folder's name. Capitals and
    hyphens in a file's name do not matter.

    Parameters
    ----------
    folder : Path
    tasks : sequence of str
        The tasks that every student should have; one that is missing becomes a row. Empty: those that anybody has.

    Raises
    ------
    FileError
        When there is no such folder, or nothing in it.
    """
    if not folder.is_dir():
        raise FileError("no_folder", path=folder)
    found, left_out = [], []
    for path in sorted([*folder.glob("*.py"), *folder.glob("*/*.py")]):
        below = path.relative_to(folder)
        if not path.is_file() or any(part.startswith((".", "__")) for part in below.parts):
            continue
        student, task = _owner(folder, below)
        if task:
            found.append(Submission(student, task, path))
        else:
            left_out.append(below.as_posix())
    if not found:
        raise FileError("no_submissions", path=folder)
    wanted = list(tasks) or sorted({one.task for one in found})
    there = {(one.student, one.task) for one in found}
    absent = [Submission(s, t, None) for s in _students(folder, found) for t in wanted if (s, t) not in there]
    asked = [one for one in found if one.task in wanted]
    return sorted([*asked, *absent], key=lambda one: (one.student, wanted.index(one.task))), left_out


def _students(folder: Path, found: list[Submission]) -> set[str]:
    """Who handed in anything; where students have folders, those with an empty one too."""
    students = {one.student for one in found}
    if any(one.file is not None and one.file.parent != folder for one in found):
        students |= {path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith((".", "__"))}
    return students


def _owner(folder: Path, below: Path) -> tuple[str, str]:
    """The student and the task of a file; no task when it is named after none."""
    stem = below.stem.lower().replace("-", "_")
    if len(below.parts) == 2:
        return below.parts[0], stem if stem in names() else ""
    if stem in names():
        return folder.resolve().name, stem
    task = max((name for name in names() if stem.endswith(f"_{name}")), key=len, default="")
    return below.stem[: -len(task) - 1], task


def grade(
    folder: Path,
    *,
    tasks: Sequence[str] = (),
    timeout: float = TIMEOUT,
    jobs: int | None = None,
    lang: str | None = None,
    seen: Callable[[int, int], None] = lambda done, total: None,
) -> Grades:
    """Judge every submission in a folder, several at once, each in a process of its own.

    Parameters
    ----------
    folder : Path
        See `submissions`.
    tasks : sequence of str
        See `submissions`.
    timeout : float
        Seconds for each submission.
    jobs : int, optional
        How many at once. By default as many as there are processors.
    lang : {"en", "zh"}, optional
    seen : callable
        Told how many of how many are judged.

    Returns
    -------
    Grades
        With what was judged until then, when the person interrupts.
    """
    spoken = words.language(lang)
    every, left_out = submissions(folder, tasks)
    workers = _Workers(folder, timeout, spoken)
    rows: dict[int, Row] = {}
    interrupted = False
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        running = {pool.submit(workers.judge, one): i for i, one in enumerate(every)}
        waiting: set[Future[Row]] = set(running)
        try:
            while waiting:
                done, waiting = wait(waiting, WAIT, FIRST_COMPLETED)
                rows.update((running[future], future.result()) for future in done)
                if done:
                    seen(len(rows), len(every))
        except KeyboardInterrupt:
            interrupted = True
            pool.shutdown(wait=False, cancel_futures=True)
            workers.stop()
    return Grades(tuple(rows[i] for i in sorted(rows)), tuple(left_out), interrupted, spoken)


class _Workers:
    """Judges submissions in threads, each of which waits for a process; can end them all."""

    def __init__(self, folder: Path, timeout: float, lang: str) -> None:
        self.folder, self.timeout, self.lang = folder, timeout, lang
        self.children: set[Child] = set()
        self.lock, self.stopped = Lock(), False

    def judge(self, one: Submission) -> Row:
        """One row, whatever happens."""
        if one.file is None:
            return Row(one.student, one.task, "", "missing", message=words.say("grade.no_file", self.lang))
        below = one.file.relative_to(self.folder).as_posix()
        began = time.perf_counter()
        try:
            with self._child() as child:
                verdict = check(one.task, one.file, lang=self.lang, timeout=self.timeout, child=child)
        except Exception as error:  # whatever it is, the other submissions go on
            why = words.message(error, self.lang) if isinstance(error, QkvError) else f"{type(error).__name__}: {error}"
            return Row(one.student, one.task, below, "error", message=words.say("grade.not_judged", self.lang, why=why))
        finally:
            self._ended()
        return Row(
            one.student, one.task, below, verdict.status, verdict.mistakes, verdict.match, verdict.failed,
            len(verdict.results), round(time.perf_counter() - began, 3), verdict.message,
        )  # fmt: skip

    def _child(self) -> Child:
        with self.lock:
            if self.stopped:
                raise InterruptedError
            child = Child()
            self.children.add(child)
        return child

    def _ended(self) -> None:
        with self.lock:
            self.children = {child for child in self.children if child.process.poll() is None}

    def stop(self) -> None:
        """End every process, so that no thread waits any longer."""
        with self.lock:
            self.stopped = True
            children = list(self.children)
        for child in children:
            child.close()
