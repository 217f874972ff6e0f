"""Two runs beside each other: where do they part?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import words
from ..errors import DtypeError
from ..ops.precision import Array
from ..ops.valid import not_negative
from .trace import Trace


@dataclass(frozen=True)
class Difference:
    """The first step at which two runs part.

    Attributes
    ----------
    path : str
    kind : {"values", "shape", "missing"}
        Other numbers, another shape, or computed by one run alone.
    size : float
        The largest absolute difference; NaN where numbers cannot be compared.
    index : tuple of int
        Where it is largest.
    a, b : float or tuple
        The two numbers there, or the two shapes; None for the run that has none.
    """

    path: str
    kind: str
    size: float = float("nan")
    index: tuple[int, ...] = ()
    a: object = None
    b: object = None

    def __str__(self) -> str:
        a, b = (f"{x:.6g}" if isinstance(x, float) else x for x in (self.a, self.b))
        facts = {"path": self.path, "size": f"{self.size:.6g}", "index": self.index, "a": a, "b": b}
        return words.say(f"difference.{self.kind}", words.language(), **facts)


def first_difference(a: Trace, b: Trace, *, rtol: float = 0.0, atol: float = 0.0) -> Difference | None:
    """The first step, in the order of computation, at which two runs part; None if they never do.

    Parameters
    ----------
    a, b : Trace
    rtol, atol : float
        Numbers count as equal when |a - b| <= atol + rtol |b|. NaN equals NaN.

    Returns
    -------
    Difference or None

    Raises
    ------
    DtypeError, ArgumentError
        For what is no trace, and a tolerance that is no number of at least 0.

    Examples
    --------
    >>> import qkv
    >>> with qkv.record() as a:
    ...     _ = qkv.attention([[1.0]], [[1.0], [2.0]], [[1.0], [2.0]])
    >>> with qkv.record() as b:
    ...     _ = qkv.attention([[1.0]], [[1.0], [2.0]], [[1.0], [2.0]], scale=0.5)
    >>> difference = qkv.first_difference(a, b)
    >>> difference.path, difference.size, difference.index
    ('attention.scores', 1.0, (0, 1))
    """
    for name, trace in (("a", a), ("b", b)):
        if not isinstance(trace, Trace):
            raise DtypeError("dtype", name=name, expected="a trace", dtype=type(trace).__name__)
    rtol, atol = not_negative("rtol", rtol), not_negative("atol", atol)
    rest = iter(b)
    for path in a:
        if path not in b:
            return Difference(path, "missing", a=a[path].shape)
        for other in rest:  # what `b` computed on its way to this step
            if other not in a:
                return Difference(other, "missing", b=b[other].shape)
            if other == path:
                break
        found = _parted(path, a[path], b[path], rtol, atol)
        if found is not None:
            return found
    extra = next((path for path in b if path not in a), None)
    return None if extra is None else Difference(extra, "missing", b=b[extra].shape)


def _parted(path: str, x: Array, y: Array, rtol: float, atol: float) -> Difference | None:
    if x.shape != y.shape:
        return Difference(path, "shape", a=x.shape, b=y.shape)
    x, y = x.astype(np.float64), y.astype(np.float64)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    with np.errstate(invalid="ignore"):
        gap = np.where(same, 0, np.abs(x - y))
        far = ~same & ~((gap <= atol + rtol * np.abs(y)) & np.isfinite(gap))
    if not far.any():
        return None
    worst = np.unravel_index(np.argmax(np.where(far, np.nan_to_num(gap, nan=np.inf), -1)), gap.shape)
    index = tuple(int(i) for i in worst)
    return Difference(path, "values", float(gap[index]), index, float(x[index]), float(y[index]))
