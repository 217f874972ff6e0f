"""Seeing a function's own intermediate values, line by line, without a word of it in its code.

The learner's code is watched like this, and so are the judge's formulas: the same eyes for both.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from .wire import encode

MOST_EVENTS = 20_000
MOST_VALUES = 60
LARGEST = 6_000  # characters of an encoded value: anything larger is not shown anyway


@dataclass(frozen=True)
class Sight:
    """A value that a local variable had.

    Attributes
    ----------
    function, name : str
        Whose variable; `softmax()` for what a function returned.
    line : int
        The line that gave it.
    data : JSON
        The value, encoded.
    """

    function: str
    name: str
    line: int
    data: Any


class Eyes:
    """A trace function that keeps arrays of the frames it is meant to look into."""

    def __init__(self, wanted: Callable[[CodeType], bool]) -> None:
        self.wanted = wanted
        self.events = 0
        self.sights: dict[tuple[str, str, int], Sight] = {}
        self.last: dict[int, tuple[int, dict[str, Any]]] = {}  # by frame: its line, its arrays

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not self.wanted(frame.f_code):
            return None
        self.last[id(frame)] = (frame.f_lineno, {})
        self._look(frame)
        return self._step

    def _step(self, frame: FrameType, event: str, argument: Any) -> Any:
        self.events += 1
        if self.events > MOST_EVENTS:
            sys.settrace(None)
            return None
        if event in ("line", "return", "exception"):
            self._look(frame)
        if event == "return":
            _, known = self.last.pop(id(frame), (0, {}))
            data = _numbers(argument)
            if data is not None and data not in known.values():
                self._keep(frame.f_code, f"{frame.f_code.co_name}()", frame.f_lineno, data)
        return self._step

    def _look(self, frame: FrameType) -> None:
        """What changed since the line before, which is the line that changed it."""
        line, known = self.last.get(id(frame), (frame.f_lineno, {}))
        for name, value in list(frame.f_locals.items()):
            data = _numbers(value)
            if data is not None and known.get(name) != data:
                known[name] = data
                self._keep(frame.f_code, name, line, data)
        self.last[id(frame)] = (frame.f_lineno, known)

    def _keep(self, code: CodeType, name: str, line: int, data: Any) -> None:
        key = (code.co_name, name, line)
        if key in self.sights or len(self.sights) < MOST_VALUES:
            self.sights[key] = Sight(*key, data)


def _numbers(value: Any) -> Any:
    """An array, encoded; None for anything else and for what is too large to show."""
    if type(value).__module__.split(".")[0] not in ("numpy", "torch", "jax", "jaxlib") or not getattr(value, "ndim", 0):
        return None
    try:
        data = encode(value)
    except Exception:
        return None
    is_array = isinstance(data, dict) and "array" in data
    return data if is_array and len(data["array"][2]) <= LARGEST else None


def watched(call: Callable[[], Any], wanted: Callable[[CodeType], bool]) -> list[Sight]:
    """Call, and return the arrays that the wanted functions held, in the order in which they came to be.

    Whatever the call raises ends it quietly: what was seen until then is the answer.

    Examples
    --------
    >>> import numpy as np
    >>> def double(x):
    ...     twice = x + x
    ...     return twice
    >>> [sight.name for sight in watched(lambda: double(np.ones(2)), lambda code: code is double.__code__)]
    ['x', 'twice']
    """
    eyes = Eyes(wanted)
    before = sys.gettrace()
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):  # it has printed once already
        sys.settrace(eyes)
        try:
            call()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
        finally:
            sys.settrace(before)
    return list(eyes.sights.values())
