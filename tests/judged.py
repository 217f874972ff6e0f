"""What the tests of the judge share: a judge's own function handed in like a learner's, and programs in a file."""

from __future__ import annotations

import os
import textwrap
from functools import partial
from typing import Any

from qkv.judge.task import Function, Task


def attempt(task: Task, function: Function) -> Any:
    """A function of the judge's as a learner would write it: for a class task, a class that hands on all its calls."""
    if task.method is None:
        return function

    class Attempt:
        def __init__(self) -> None:
            self.calls: list[list[Any]] = []

        def step(self, *one: Any) -> Any:
            self.calls.append(list(one))
            return function(self.calls)[-1]

    if task.method != "step":
        setattr(Attempt, task.method, Attempt.step)
    return Attempt


def program(source: str, entry: str) -> Any:
    """The function or class of a program's source, run in this process."""
    space: dict[str, Any] = {"__name__": "program"}
    exec(compile(textwrap.dedent(source), f"<{entry}>", "exec"), space)
    return space[entry]


def label(function: Function) -> str:
    """A name for a variation, for test ids."""
    if isinstance(function, partial):
        inner = "-".join(f"{name}_{label(step)}" for name, step in function.keywords.items() if callable(step))
        plain = "-".join(f"{name}{step}" for name, step in function.keywords.items() if not callable(step))
        return "-".join(part for part in (inner or label(function.func), plain) if part)
    return getattr(function, "__name__", "function")


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
