"""`qkv.record`: keep everything that is computed inside a block of code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from ..contract import watcher
from .trace import Entry, Trace, matches
from .watch import watching


class _Keeper:
    def __init__(self, trace: Trace, patterns: tuple[str, ...]) -> None:
        self.trace, self.patterns = trace, patterns

    def add(self, entry: Entry) -> None:
        if not self.patterns or any(matches(entry.path, pattern) for pattern in self.patterns):
            self.trace.entries[entry.path] = entry


@contextmanager
def record(*patterns: str) -> Iterator[Trace]:
    """Keep every value that the ops inside compute, in this thread.

    Parameters
    ----------
    *patterns : str
        Keep only paths that match one of these, as file names do: `"*.weights"`. Everything by default. A pattern that
        names no step holds in every call of a model and every step of a generation.

    Yields
    ------
    Trace
        A mapping of paths to arrays, filled as the code runs. What was kept before an error stays.

    Notes
    -----
    Nests. A second call of the same thing gets `#2` behind its name. What a model computes for the n-th token that it
    generates stands under `step.n`, from 0, which reads the prompt. While somebody watches, attention is computed by
    its definition, every score of it.

    Examples
    --------
    >>> import qkv
    >>> with qkv.record("*.weights") as trace:
    ...     out = qkv.attention([[0.0]], [[0.0], [0.0]], [[1.0], [3.0]])
    >>> trace["attention.weights"]
    array([[0.5, 0.5]])
    """
    trace = Trace()
    watch = watching()
    token = watcher.set(replace(watch, recorders=(*watch.recorders, _Keeper(trace, patterns))))
    try:
        yield trace
    finally:
        watcher.reset(token)
