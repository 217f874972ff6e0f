"""Whether two outcomes are the same: structure, shape, kind of number, values. The judge's own NumPy, nobody's `==`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .wire import Array, Stream, Unreadable, decode

# By the bytes of a result's number: float32 cannot be as near as float64, and GELU's two forms differ by 4.7e-4.
TOLERANCES = {2: (5e-3, 5e-3), 4: (1e-4, 1e-5), 8: (1e-6, 1e-8)}
# Shapes that do not fit: PyTorch's word for it, and that of a loop.
SAME_ERROR = {"RuntimeError": "ValueError", "IndexError": "ValueError"}


@dataclass(frozen=True)
class Failure:
    """An exception in the learner's code.

    Attributes
    ----------
    type, kind : str
        Its class, and the built-in class that it is.
    says : str
    file, line, source : str, int, str
        The learner's last line that led to it.
    """

    type: str
    kind: str
    says: str
    file: str | None
    line: int | None
    source: str


@dataclass(frozen=True)
class Outcome:
    """What one probe gave: a value (arrays, tuples of arrays) or a failure; what it changed; what was seen of it."""

    value: Any = None
    failure: Failure | None = None
    changed: tuple[int, ...] = ()
    seen: tuple[tuple[str, str, int, Array], ...] = ()

    @classmethod
    def read(cls, data: dict[str, Any]) -> Outcome:
        """From the JSON of `run_probe`, in which nothing is taken on trust."""
        changed = tuple(int(n) for n in data.get("changed", ()))
        if "error" in data:
            return cls(None, failure(data["error"]), changed, _sights(data))
        return cls(plain(decode(data.get("value"))), None, changed, _sights(data))


def failure(data: dict[str, Any]) -> Failure:
    """An exception from its JSON."""
    line = data.get("line")
    file = data.get("file")
    return Failure(
        str(data.get("type")), str(data.get("kind")), str(data.get("says")), None if file is None else str(file),
        line if isinstance(line, int) else None, str(data.get("source")),
    )  # fmt: skip


def _sights(data: dict[str, Any]) -> tuple[tuple[str, str, int, Array], ...]:
    found = [(str(f), str(n), int(line), decode(value)) for f, n, line, value in data.get("seen", ())]
    return tuple((f, n, line, value) for f, n, line, value in found if isinstance(value, np.ndarray))


def plain(value: Any) -> Any:
    """A result in its one form: arrays, and tuples for several. A nested list of numbers is an array too."""
    if value is None or isinstance(value, np.ndarray | Unreadable):
        return value
    if isinstance(value, bool | int | float):
        array = np.asarray(value)
        return array if array.dtype.kind in "biuf" else Unreadable("int")
    if isinstance(value, list) and (numbers := _as_array(value)) is not None:
        return numbers
    if isinstance(value, list | tuple):
        return tuple(plain(item) for item in value)
    return Unreadable("iterator" if isinstance(value, Stream) else type(value).__name__)


def _as_array(value: list[Any]) -> Array | None:
    def numbers(item: Any) -> bool:
        return type(item) in (bool, int, float) or (isinstance(item, list) and all(map(numbers, item)))

    try:
        array = np.asarray(value) if value and numbers(value) else None
    except (ValueError, OverflowError):
        return None
    return array if array is not None and array.dtype.kind in "biuf" else None


def same(expected: Outcome, got: Outcome) -> bool:
    """Whether two outcomes agree; what was done to the arguments is another question."""
    if expected.failure or got.failure:
        kinds = {SAME_ERROR.get(f.kind, f.kind) if f else "" for f in (expected.failure, got.failure)}
        return len(kinds) == 1
    return same_value(expected.value, got.value)


def same_value(expected: Any, got: Any) -> bool:
    """Whether two values agree as numbers.

    Examples
    --------
    >>> same_value(np.array([0.5, np.nan]), np.array([0.5, np.nan], np.float32))
    True
    >>> same_value(np.array([True]), np.array([1.0]))
    False
    """
    got = arranged(expected, got)
    if isinstance(expected, tuple):
        return isinstance(got, tuple) and len(got) == len(expected) and all(map(same_value, expected, got))
    if not isinstance(expected, np.ndarray) or not isinstance(got, np.ndarray):
        return False
    return expected.shape == got.shape and fits_kind(expected, got) and close(expected, got)


def arranged(expected: Any, got: Any) -> Any:
    """What came, in the form that is expected: one array for several results, or several arrays for one, are as good.

    Examples
    --------
    >>> arranged((np.array(3.0), np.array(1.5)), np.array([3.0, 1.5]))
    (array(3.), array(1.5))
    >>> arranged(np.eye(2), (np.array([1.0, 0.0]), np.array([0.0, 1.0])))
    array([[1., 0.],
           [0., 1.]])
    """
    if isinstance(expected, tuple):
        if isinstance(got, np.ndarray) and got.ndim and len(got) == len(expected):
            got = tuple(got[i, ...] for i in range(len(got)))
        whole = isinstance(got, tuple) and len(got) == len(expected)
        return tuple(map(arranged, expected, got)) if whole else got
    stacked = _stacked(got) if isinstance(got, tuple) else None
    return got if stacked is None else stacked


def _stacked(value: Any) -> Array | None:
    """Arrays of one shape, put on each other."""
    if not isinstance(value, tuple):
        return value if isinstance(value, np.ndarray) else None
    parts = [part for item in value if (part := _stacked(item)) is not None]
    alike = parts and len(parts) == len(value) and len({part.shape for part in parts}) == 1
    return np.stack(parts) if alike else None


def fits_kind(expected: Array, got: Array) -> bool:
    """Whether a kind of number will do: truth for truth, whole for whole, any real number for a float."""
    allowed = {"b": "b", "i": "iu", "u": "iu", "f": "iuf"}[expected.dtype.kind]
    return got.dtype.kind in allowed


def close(expected: Array, got: Array) -> bool:
    """Whether values of one shape are the same but for rounding; NaN where NaN, infinite where infinite."""
    if expected.dtype.kind == "b" or got.dtype.kind == "b":
        return bool((expected == got).all())
    rtol, atol = TOLERANCES.get(got.dtype.itemsize if got.dtype.kind == "f" else 8, TOLERANCES[8])
    with np.errstate(all="ignore"):
        return bool(np.allclose(got.astype(np.float64), expected.astype(np.float64), rtol, atol, equal_nan=True))
