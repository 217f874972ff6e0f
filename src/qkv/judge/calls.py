"""One call of a learner's function: what came back or went wrong, and what it did to its arguments.

Runs in the learner's process or in the user's own; it knows no right answer.
"""

from __future__ import annotations

import linecache
import time
import traceback
import warnings
from collections.abc import Callable
from types import CodeType
from typing import Any

from .watcher import watched
from .wire import Stream, encode, fresh

Calls = list[list[Any]]  # positional arguments of each call: one call for a function, several for a class

SLOW = 0.3  # seconds; a call that took longer is not run again to be watched


def drive(target: Callable[..., Any], method: str | None, calls: Calls, library: str | None = None) -> Any:
    """Call a function once, or make an object and call its method again and again."""
    arguments = fresh(calls, library)
    return _drive(target, method, arguments)


def _drive(target: Callable[..., Any], method: str | None, arguments: Calls) -> Any:
    if method is None:
        return target(*arguments[0])
    step = getattr(target(), method)
    return tuple(step(*one) for one in arguments)


def run_probe(
    target: Callable[..., Any],
    method: str | None,
    calls: Calls,
    library: str | None = None,
    wanted: Callable[[CodeType], bool] | None = None,
) -> dict[str, Any]:
    """The outcome of one probe as JSON: `value` or `error`, `changed` (numbers of arguments), `seen`.

    Parameters
    ----------
    target : callable
    method : str or None
        The method to call, when the target is a class.
    calls : list of lists
    library : {"torch", "jax"}, optional
        Whose arrays the function takes.
    wanted : callable, optional
        Whose variables are watched, in a call of its own.
    """
    arguments = fresh(calls, library)
    before = [[encode(argument) for argument in one] for one in arguments]
    outcome: dict[str, Any] = {}
    begun = time.perf_counter()
    try:
        with warnings.catch_warnings():  # an overflow is an answer here, not a reason to stop
            warnings.simplefilter("ignore")
            outcome["value"] = encode(_drive(target, method, arguments))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        outcome["error"] = described(error)
    outcome["seconds"] = time.perf_counter() - begun
    outcome["changed"] = sorted({
        number
        for one, was, given in zip(arguments, before, calls)
        for number, argument in enumerate(one)
        if not isinstance(given[number], Stream) and encode(argument) != was[number]
    })  # fmt: skip
    if wanted is not None and outcome["seconds"] < SLOW:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seen = watched(lambda: drive(target, method, calls, library), wanted)
        outcome["seen"] = [[s.function, s.name, s.line, s.data] for s in seen]
    return outcome


def described(error: BaseException) -> dict[str, Any]:
    """An exception as JSON: its kind, what it says, and the last line of the learner's that led to it."""
    kinds = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins"]
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(("<frozen", JUDGE))]
    own = [f for f in frames if not _is_library(f.filename)]
    where = own or frames
    file, line = (where[-1].filename, where[-1].lineno) if where else (None, None)
    if isinstance(error, SyntaxError) and error.filename:
        file, line = error.filename, error.lineno
    try:
        says = str(error)[:500]
    except Exception:
        says = ""
    source = linecache.getline(file, line).strip()[:200] if file and line else ""
    return {"type": type(error).__name__, "kind": kinds[0], "says": says, "file": file, "line": line, "source": source}


JUDGE = __file__.rpartition("calls.py")[0]
_LIBRARIES = ("site-packages", "dist-packages", "/lib/python", "\\lib\\")


def _is_library(file: str) -> bool:
    return any(part in file for part in _LIBRARIES)
