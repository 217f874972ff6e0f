"""Programs in any language: one JSON object in, one JSON object out, for each probe."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
import time
from typing import Any

import numpy as np

from .process import OUTPUT, SHOWN, TICK, Report, end_group
from .task import Probe, Task
from .wire import Stream, encode

NON_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def run_command(command: str, task: Task, probes: list[Probe], timeout: float) -> Report:
    """Run a command once for each probe, all within `timeout` seconds."""
    report = Report(busy=False, typed=False)
    deadline = time.monotonic() + timeout
    for number, probe in enumerate(probes):
        report.at = number
        text = json.dumps({"task": task.name, "arguments": arguments(task, probe)})
        try:
            code, out, errors, limit = _run(shlex.split(command), text, deadline)
        except OSError as error:
            report.failed = _failure("OSError", str(error))
            return report
        report.printed = errors
        if limit:
            report.limit = limit
            return report
        report.outcomes[number] = _outcome(code, out, errors)
    return report


def arguments(task: Task, probe: Probe) -> Any:
    """What a program gets: an object by parameter name, or for a class the list of them, one for each call."""
    named = [dict(zip(task.parameters, call)) for call in task.calls(probe)]
    return plain(named if task.method else named[0])


def plain(value: Any) -> Any:
    """Nested lists; what is not finite as text, because JSON has no number for it.

    Examples
    --------
    >>> plain({"x": np.array([1.0, -np.inf]), "mask": None})
    {'x': [1.0, '-Infinity'], 'mask': None}
    """
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Stream):
        return plain(list(value.values))
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, float) and not np.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value


def _numbers(value: Any) -> Any:
    """The way back: a nested list of one shape is an array, any other list holds several results."""
    if isinstance(value, list):
        items = [_numbers(item) for item in value]
        fits = all(isinstance(i, np.ndarray) and i.dtype.kind in "bif" and i.shape == items[0].shape for i in items)
        return np.array(items) if items and fits else tuple(items)
    value = NON_FINITE.get(value, value) if isinstance(value, str) else value
    return np.asarray(value) if isinstance(value, bool | int | float) else value


def _outcome(code: int, out: str, errors: str) -> dict[str, Any]:
    if code != 0:
        return {"error": _failure("RuntimeError", errors.strip().rpartition("\n")[2] or f"exit code {code}")}
    try:
        answer = json.loads(out)
        return {"value": encode(_numbers(answer["result"]))}
    except (ValueError, TypeError, KeyError, RecursionError):
        return {"error": _failure("ValueError", f'no {{"result": ...}} on standard output: {out.strip()[:60]!r}')}


def _failure(kind: str, says: str) -> dict[str, Any]:
    return {"type": kind, "kind": kind, "says": says, "file": None, "line": None, "source": ""}


def _run(command: list[str], text: str, deadline: float) -> tuple[int, str, str, str | None]:
    """Exit code, standard output, the end of standard error, and the limit that was met."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        given.write(text.encode())
        given.seek(0)
        process = subprocess.Popen(command, stdin=given, stdout=out, stderr=errors, start_new_session=True)
        limit = None
        try:
            while process.poll() is None and limit is None:
                limit = "time" if time.monotonic() > deadline else None
                if any(os.fstat(file.fileno()).st_size > OUTPUT for file in (out, errors)):
                    limit = "output"
                time.sleep(TICK)
        finally:
            end_group(process)
        out.seek(0)
        errors.seek(0)
        said = errors.read(OUTPUT).decode("utf-8", "replace")[-SHOWN:]
        return process.returncode, out.read(OUTPUT).decode("utf-8", "replace"), said, limit
