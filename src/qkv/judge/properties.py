"""What every right answer has: said when no known mistake fits, so that there is still something to go by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .compare import Outcome, arranged, close, fits_kind
from .task import Function, Probe, Property, Task
from .wire import Array, Unreadable


def why(expected: Any, got: Outcome) -> str:
    """In one word, why an outcome is not the expected one."""
    if got.failure is not None:
        return "error"
    if got.value is None:
        return "nothing"
    if isinstance(got.value, Unreadable):
        return "kind"
    value = arranged(expected, got.value)
    if _shapes(expected) != _shapes(value):
        return "shape"
    pairs = zip(_tuple(expected), _tuple(value))
    return "differs" if all(fits_kind(e, g) for e, g in pairs) else "kind"


def broken(
    task: Task, values: Mapping[str, Any], outcome: Callable[[Function, Probe], Outcome], probes: list[Probe]
) -> tuple[str, ...]:
    """The ids of the properties that the learner's values do not have."""
    reasons = [
        why(outcome(task.reference, probe).value, Outcome(values[probe.name]))
        for probe in probes
        if probe.name in values
    ]
    named = {"nothing": "returns_nothing", "shape": "wrong_shape", "kind": "wrong_dtype"}
    found = [mistake for reason, mistake in named.items() if reason in reasons][:1]
    right = (task.reference, *(convention.variation for convention in task.conventions))
    finite = [p.name for p in probes if all(_is_finite(outcome(way, p).value) for way in right)]
    if not all(_is_finite(values[name]) for name in finite if name in values):
        found.append("all_nan" if values and all(map(_is_nan, values.values())) else "not_finite")
    return (*found, *(p.id for p in task.properties if p.fails(values)))


def _is_finite(value: Any) -> bool:
    return all(np.isfinite(a).all() for a in _tuple(value) if isinstance(a, np.ndarray))


def _is_nan(value: Any) -> bool:
    """Whether there is nothing but NaN."""
    return all(isinstance(a, np.ndarray) and a.dtype.kind == "f" and np.isnan(a).all() for a in _tuple(value))


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _shapes(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_shapes, value))
    return value.shape if isinstance(value, np.ndarray) else None


def part(value: Any, index: int | None) -> Array | None:
    """One array of a value, or all of it; None if there is no such thing."""
    if index is not None:
        value = value[index] if isinstance(value, tuple) and index < len(value) else None
    return value if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" else None


def rows_sum_to_one(index: int | None = None, axis: int = -1) -> Property:
    """Weights along an axis sum to 1; to 0 or NaN where nothing may be looked at."""

    def fails(values: Mapping[str, Any]) -> bool:
        found = [a for value in values.values() if (a := part(value, index)) is not None and a.ndim]
        totals = [a.sum(axis=axis) for a in found]
        return any(not (np.isnan(t) | (np.abs(t - 1) < 1e-4) | (t == 0)).all() for t in totals)

    return Property("rows_sum", fails)


def future_leaks(one: str, other: str, rows: slice, index: int | None = None) -> Property:
    """These rows are the same on two probes that differ in what comes later only."""
    return Property("future_leaks", _rows_differ(one, other, rows, index))


def depends_on_block_size(one: str, other: str, index: int | None = None) -> Property:
    """All rows are the same on two probes that differ in the block size only."""
    return Property("block_size", _rows_differ(one, other, slice(None), index))


def _rows_differ(one: str, other: str, rows: slice, index: int | None) -> Callable[[Mapping[str, Any]], bool]:
    def fails(values: Mapping[str, Any]) -> bool:
        a, b = (part(values.get(probe), index) for probe in (one, other))
        if a is None or b is None or a.ndim < 2 or b.ndim != a.ndim:
            return False
        a, b = a[..., rows, :], b[..., rows, :]
        return a.shape == b.shape and not close(a, b)

    return fails
