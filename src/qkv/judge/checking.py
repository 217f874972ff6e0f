"""`qkv.check`: run an attempt on a task's probes, compare, and say what it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from .. import words
from ..errors import ArgumentError, FileError
from .bank import Bank, Match, bank_of
from .calls import run_probe
from .child import LIBRARIES, library_of
from .command import run_command
from .compare import Outcome, arranged, failure, same
from .process import Child, Report
from .properties import broken, why
from .steps import first_step
from .task import Probe, Task
from .tasks import load, names
from .verdict import ProbeResult, Shown, Verdict
from .wire import arrays, encode

TIMEOUT = 10.0


def check(
    task: str,
    attempt: Callable[..., Any] | str | os.PathLike[str] | None = None,
    *,
    lang: str | None = None,
    timeout: float = TIMEOUT,
    only: str | None = None,
    cmd: str | None = None,
    function: str | None = None,
    child: Child | None = None,
) -> Verdict:
    """Judge a hand-written answer to a task, and name the mistake.

    Parameters
    ----------
    task : str
        The name of a task.
    attempt : callable or path, optional
        A function (or class) runs where it is. A Python file runs in a process of its own, within limits.
    lang : {"en", "zh"}, optional
        By default `QKV_LANG`, then the locale.
    timeout : float
        Seconds for all probes together.
    only : str, optional
        The name of the one probe to run.
    cmd : str, optional
        A command in place of `attempt`: it gets one JSON object for each probe, and answers with one.
    function : str, optional
        The name of the function in the file, if it is not the task's.
    child : Child, optional
        A process that was started beforehand.

    Returns
    -------
    Verdict

    Raises
    ------
    ArgumentError, FileError
        For a task, probe or file that is not there. What is wrong with the attempt is never raised.

    Examples
    --------
    >>> import numpy as np
    >>> verdict = check("softmax", lambda x, axis=-1: np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True), lang="en")
    >>> verdict.status, verdict.mistakes
    ('wrong', ('softmax_no_max',))
    """
    if task not in names():
        raise ArgumentError("choice", name="task", choices=", ".join(names()), value=task)
    known = load(task)
    probes = chosen(known, only)
    spoken = words.language(lang)
    if (attempt is None) == (cmd is None):
        raise ArgumentError("number", name="attempt", expected="a function, a file or a command", value=attempt)
    if not timeout > 0:
        raise ArgumentError("number", name="timeout", expected="a number of seconds above 0", value=timeout)
    if cmd is not None:
        report = run_command(cmd, known, probes, timeout)
    elif callable(attempt):
        library = library_here(attempt)
        probes = [probe for probe in probes if not (library and probe.numpy_only)]
        report = run_here(attempt, known, probes, library)
    else:
        assert attempt is not None
        library = library_of(str(attempt))
        probes = [probe for probe in probes if not (library and probe.numpy_only)]
        report = run_file(Path(attempt), known, probes, timeout, function, library, child)
    return judged(known, probes, report, spoken, timeout)


def chosen(task: Task, only: str | None) -> list[Probe]:
    """All probes, or the one of that name."""
    found = [probe for probe in task.probes if only in (None, probe.name)]
    if not found:
        raise ArgumentError("choice", name="only", choices=", ".join(p.name for p in task.probes), value=only)
    return found


def library_here(attempt: Callable[..., Any]) -> str | None:
    """Whose arrays a function works with: that of PyTorch or JAX if its module imports one."""
    module = sys.modules.get(getattr(attempt, "__module__", ""))
    space = getattr(attempt, "__globals__", vars(module) if module else {})
    held = {value.__name__.split(".")[0] for value in space.values() if isinstance(value, ModuleType)}
    return next((name for name in LIBRARIES if name in held), None)


def run_here(attempt: Callable[..., Any], task: Task, probes: list[Probe], library: str | None) -> Report:
    """Run a function in this process: it is the caller's own, and so are its prints and its endless loops."""
    file = getattr(getattr(attempt, "__code__", None), "co_filename", None)
    file = file or getattr(sys.modules.get(getattr(attempt, "__module__", "")), "__file__", None)

    def own(code: CodeType) -> bool:
        return code.co_filename == file and code.co_name != "<module>"

    report = Report(busy=False)
    for number, probe in enumerate(probes):
        report.outcomes[number] = run_probe(attempt, task.method, task.calls(probe), library, own)
    return report


def run_file(
    path: Path,
    task: Task,
    probes: list[Probe],
    timeout: float,
    function: str | None,
    library: str | None,
    child: Child | None,
) -> Report:
    """Run a file in a process of its own."""
    if not path.is_file():
        raise FileError("no_file", path=path)
    request = {
        "file": str(path.resolve()), "names": [function] if function else [task.entry, task.name],
        "method": task.method, "library": library, "timeout": timeout,
        "probes": [encode(task.calls(probe)) for probe in probes],
    }  # fmt: skip
    with child or Child() as one:
        return one.run(request)


def judged(task: Task, probes: list[Probe], report: Report, lang: str, timeout: float) -> Verdict:
    """The verdict on what a run left."""
    counted = [probe for probe in probes if not probe.note]
    got = {probes[n].name: Outcome.read(data) for n, data in report.outcomes.items() if 0 <= n < len(probes)}
    bank = bank_of(task.name)
    results = tuple(
        ProbeResult(p.name, p.tries, *result(bank, p, got[p.name])) for p in counted if p.name in got
    ) + tuple(ProbeResult(p.name, p.tries, False, "missing") for p in counted if p.name not in got)
    at = probes[report.at].name if report.at is not None and 0 <= report.at < len(probes) else ""
    ending: dict[str, Any] = {"task": task, "lang": lang, "results": results, "printed": report.printed}
    if report.limit is not None:
        status = "error" if report.limit == "exited" else "timeout"
        place = words.say("judge.place.probe", lang, probe=at) if at else words.say("judge.place.loading", lang)
        facts = {"place": place, "seconds": f"{timeout:g}", "code": report.code, "says": _last_line(report.printed)}
        return Verdict(status=status, reason=report.limit, facts=facts, **ending)
    if report.failed is not None:
        return Verdict(status="error", reason="load", failure=failure(report.failed), **ending)
    if report.missing is not None:
        facts = {"wanted": task.entry, "found": ", ".join(report.missing) or "-"}
        return Verdict(status="error", reason="missing", facts=facts, **ending)
    if any(probe.name not in got for probe in counted):
        return Verdict(status="error", reason="lost", **ending)
    flags = [
        p.note
        for p in probes
        if p.note and p.name in got and _is_noted(bank.outcome(task.reference, p), got[p.name], report.typed)
    ]
    return compared(bank, counted, got, flags, ending)


def _last_line(printed: str) -> str:
    return next((line.strip() for line in reversed(printed.splitlines()) if line.strip()), "-")


def _is_noted(expected: Outcome, got: Outcome, typed: bool) -> bool:
    """Whether a probe that is there for a note finds something to note."""
    kinds = [[array.dtype for array in arrays(outcome.value)] for outcome in (expected, got)]
    return got.failure is None and (not same(expected, got) or (typed and kinds[0] != kinds[1]))


def result(bank: Bank, probe: Probe, got: Outcome) -> tuple[bool, str]:
    """Whether a probe passed, and if not why."""
    if not bank.is_right(got, probe):
        return False, why(bank.outcome(bank.task.reference, probe).value, got)
    return (False, "changed") if got.changed else (True, "")


def compared(
    bank: Bank, counted: list[Probe], got: dict[str, Outcome], flags: list[str], ending: dict[str, Any]
) -> Verdict:
    """The verdict on a full set of outcomes."""
    task = bank.task
    match = bank.match(got, counted)
    changed = any(got[probe.name].changed for probe in counted)
    notes = tuple(dict.fromkeys((*match.notes, *flags)))
    if match.kind == "right" and not changed:
        return Verdict(status="pass", notes=notes, **ending)
    mistakes, kind = _named(match, changed)
    bad = [p for p, r in zip(counted, ending["results"]) if not r.passed] or counted
    smallest = min(bad, key=lambda probe: probe.size)
    error = next((got[p.name].failure for p in bad if got[p.name].failure), None)
    right = {p.name: bank.outcome(task.reference, p).value for p in counted}
    values = {p.name: arranged(right[p.name], got[p.name].value) for p in counted if got[p.name].failure is None}
    properties = () if mistakes else broken(task, values, bank.outcome, counted)
    crashed = error is not None and not mistakes
    shape = tuple(p for p in properties if p in ("returns_nothing", "wrong_shape", "wrong_dtype"))
    expected = bank.outcome(match.function if match.kind == "right" and match.function else task.reference, smallest)
    yours = arranged(expected.value, got[smallest.name].value)
    return Verdict(
        status="error" if crashed else "wrong",
        mistakes=mistakes or (() if crashed else shape or ("no_match",)),
        match=kind,
        first_step=first_step(task, smallest, got[smallest.name], match.function if mistakes else None),
        notes=notes,
        shown=Shown(smallest.name, task.calls(smallest), expected.value, yours),
        properties=properties,
        nearest=match.nearest,
        reason=_why_crashed(error) if crashed else "",
        facts={"probe": smallest.name},
        failure=error,
        **ending,
    )


def _named(match: Match, changed: bool) -> tuple[tuple[str, ...], str]:
    """The ids of the mistakes with the kind of match; changed arguments are a mistake of their own."""
    if not changed or "mutates_input" in match.ids:
        return match.ids, match.kind
    if match.kind == "right":
        return ("mutates_input",), "exact"
    if match.kind == "exact":
        return (*match.ids, "mutates_input"), "pair"
    return match.ids, match.kind


def _why_crashed(error: Any) -> str:
    return "unwritten" if error.kind == "NotImplementedError" and not error.says else "raised"
