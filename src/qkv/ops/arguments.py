"""Reading a call of attention: every argument checked once, so that the formulas need not look again.

Whatever is wrong becomes one line that names the argument, what was expected and what came.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..errors import ArgumentError, DtypeError, ShapeError
from . import masks
from .biases import Bias
from .masks import Rule
from .precision import Array, answer_dtype, array, number, working_dtype
from .valid import finite, truth

Window = int | tuple[int | None, int | None]


@dataclass(frozen=True)
class Call:
    """A call of attention, understood. What a whole array of scores would need is made only when asked for.

    Attributes
    ----------
    given : tuple of ndarray
        q, k, v as they came, integers as float64.
    mask : (..., Tq, Tk) bool ndarray or None
        Broadcasts to the scores.
    rule : Rule or None
        All rules on positions that must hold beside `mask`.
    added : (..., Tq, Tk) ndarray or Bias or None
    i, j : int ndarray
        Query positions (Tq,), or (*B, 1, Tq) for an offset per member of the batch, and key positions (Tk,).
    scores : tuple of int
        The shape of the scores (..., H, Tq, Tk), or (Tq, Tk) when q, k and v are matrices.
    scale : float
    softcap : float or None
    sinks : (H, 1) ndarray or None
        In the working dtype.
    dtype : dtype
        Of the answer.
    """

    given: tuple[Array, Array, Array]
    mask: Array | None
    rule: Rule | None
    added: Array | Bias | None
    i: Array
    j: Array
    scores: tuple[int, ...]
    scale: float
    softcap: float | None
    sinks: Array | None
    dtype: np.dtype[Any]

    @property
    def working(self) -> np.dtype[Any]:
        """The dtype in which it is computed."""
        return working_dtype(self.dtype)

    @property
    def work(self) -> int:
        """How many multiply-adds the two products take when nothing is hidden."""
        return math.prod(self.scores) * (self.given[0].shape[-1] + self.given[2].shape[-1])

    @property
    def q(self) -> Array:
        """(..., H, Tq, d_k), in the working dtype."""
        return self.given[0].astype(self.working, copy=False)

    @property
    def k(self) -> Array:
        """(..., Hkv, Tk, d_k), in the working dtype."""
        return self.given[1].astype(self.working, copy=False)

    @property
    def v(self) -> Array:
        """(..., Hkv, Tk, d_v), in the working dtype."""
        return self.given[2].astype(self.working, copy=False)

    @cached_property
    def bias(self) -> Array | None:
        """What is added, for all scores; in the working dtype."""
        if self.everything_added is None:
            return None
        with np.errstate(over="ignore"):
            return self.everything_added.astype(self.working, copy=False)

    @cached_property
    def everything_added(self) -> Array | None:
        """The bias for all scores, as it came: what overflows on the way to the working dtype is no mask."""
        return self.added(self.i, self.j) if isinstance(self.added, Bias) else self.added

    @cached_property
    def visible(self) -> Array | None:
        """Which scores count, for all of them; None: every key may be looked at."""
        allowed = None if self.rule is None else self.rule(self.i, self.j)
        hiding = None if self.everything_added is None else np.isneginf(self.everything_added)
        parts = [self.mask, allowed, ~hiding if hiding is not None and hiding.any() else None]
        return both(parts)


def output_alone(rules: Mapping[str, Any]) -> None:
    """Refuse what asks for more than the output, where a caller could not hand it on."""
    for name in ("return_weights", "return_lse"):
        if rules.get(name):
            raise ArgumentError("watched", name=name)


def both(parts: Iterable[Array | None]) -> Array | None:
    """The conditions that are there, all of which must hold."""
    given = [part for part in parts if part is not None]
    return functools.reduce(np.logical_and, given) if given else None


def read_call(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    *,
    mask: ArrayLike | Rule | None,
    bias: ArrayLike | Bias | None,
    causal: bool,
    window: Window | None,
    offset: ArrayLike | None,
    scale: float | None,
    softcap: float | None,
    sinks: ArrayLike | None,
) -> Call:
    """Check the arguments of `attention` and bring them into one form.

    Raises
    ------
    ShapeError, DtypeError, ArgumentError
        One line each: see `qkv.errors`.
    """
    q, k, v = number("q", q), number("k", k), number("v", v)
    scores = _shapes(q, k, v)
    dtype = answer_dtype(q, k, v)
    rule = _rule(mask, causal, window)
    i, j = _positions(offset, scores, rule, bias)
    seen = None if mask is None or isinstance(mask, Rule) else _mask_array(mask, scores)
    if rule is not None:
        table = _whole_table("mask", rule, i, j, scores)
        if table is not None:
            rule, seen = None, table if seen is None else seen & table
    added: Array | Bias | None = None
    if isinstance(bias, Bias):
        table = _whole_table("bias", bias, i, j, scores)
        added = bias if table is None else np.atleast_2d(_summand(table))
    elif bias is not None:
        added = np.atleast_2d(_bias_array(bias, scores))
    return Call(
        given=(q, k, v),
        mask=None if seen is None else np.atleast_2d(seen),
        rule=rule,
        added=added,
        i=i,
        j=j,
        scores=scores,
        scale=_scale(scale, q.shape[-1]),
        softcap=None if softcap is None else _positive("softcap", softcap),
        sinks=None if sinks is None else _sinks(sinks, q).astype(working_dtype(dtype), copy=False),
        dtype=dtype,
    )


def _shapes(q: Array, k: Array, v: Array) -> tuple[int, ...]:
    """The shape of the scores (..., H, Tq, Tk), or (Tq, Tk) when all three are matrices."""
    for name, x, axes in (
        ("q", q, "(..., H, Tq, d_k)"),
        ("k", k, "(..., Hkv, Tk, d_k)"),
        ("v", v, "(..., Hkv, Tk, d_v)"),
    ):
        if x.ndim < 2:
            raise ShapeError("axes", name=name, expected=2, axes=axes, shape=x.shape)
    _same("k", k.shape[-1], "q", q.shape[-1], "d_k")
    _same("v", v.shape[-2], "k", k.shape[-2], "Tk")
    H, Hkv, Hv = (x.shape[-3] if x.ndim > 2 else 1 for x in (q, k, v))
    _same("v", Hv, "k", Hkv, "Hkv")
    if Hkv != H and (Hkv == 0 or H % Hkv):
        raise ShapeError("groups", n_heads=H, n_kv_heads=Hkv)
    try:
        lead = np.broadcast_shapes(q.shape[:-3], k.shape[:-3], v.shape[:-3])
    except ValueError:
        shapes = ", ".join(str(x.shape) for x in (q, k, v))
        raise ShapeError("batch", names="q, k, v", shapes=shapes) from None
    heads = (H,) if max(q.ndim, k.ndim, v.ndim) > 2 else ()
    return (*lead, *heads, q.shape[-2], k.shape[-2])


def _same(name: str, size: int, other: str, other_size: int, axis: str) -> None:
    if size != other_size:
        raise ShapeError("same_size", name=name, axis=axis, size=size, other=other, other_size=other_size)


def _rule(mask: ArrayLike | Rule | None, causal: bool, window: Window | None) -> Rule | None:
    """The rules on positions that were asked for, all of which must hold."""
    rules = [mask] if isinstance(mask, Rule) else []
    if truth("causal", causal):
        rules.append(masks.causal())
    if isinstance(window, tuple) and len(window) == 2:
        rules.append(masks.window(*window))
    elif window is not None:
        if not isinstance(window, int | np.integer) or isinstance(window, bool) or window < 1:
            expected = "a number of keys of at least 1, or (left, right) neighbours"
            raise ArgumentError("number", name="window", expected=expected, value=window)
        rules.append(masks.window(int(window) - 1, 0))
    if not rules:
        return None
    joined = rules[0]
    for rule in rules[1:]:
        joined = joined & rule
    return joined


def _positions(
    offset: ArrayLike | None, scores: tuple[int, ...], rule: Rule | None, bias: object
) -> tuple[Array, Array]:
    """Query positions (Tq,), or (*B, 1, Tq) for an offset per member of the batch, and key positions (Tk,)."""
    Tq, Tk = scores[-2:]
    asks = rule.name if rule is not None and rule.uses_query else bias.name if isinstance(bias, Bias) else None
    if offset is None:
        if asks and Tq != Tk and Tq and Tk:
            raise ArgumentError("offset_needed", Tq=Tq, Tk=Tk, rule=asks, continued=Tk - Tq)
        offset = 0
    start = array("offset", offset)
    if start.dtype.kind not in "iu":
        raise DtypeError("dtype", name="offset", expected="integer", dtype=start.dtype)
    start = start.astype(np.int64)
    if start.ndim:
        lead = scores[:-3]
        if start.ndim > len(lead) or any(a not in (1, b) for a, b in zip(start.shape[::-1], lead[::-1])):
            raise ShapeError("shape", name="offset", expected=f"() or {lead}, one per batch member", shape=start.shape)
        start = start[..., None, None]
    return start + np.arange(Tq), np.arange(Tk)


def _whole_table(name: str, rule: Rule | Bias, i: Array, j: Array, scores: tuple[int, ...]) -> Array | None:
    """None if the rule can be asked for one tile at a time; else its answer for all positions.

    It is tried at the corners, so that what it cannot answer shows here and not halfway through.
    """
    Tq, Tk = scores[-2:]
    corners = np.asarray(rule(i[..., [0, -1]], j[[0, -1]])) if Tq and Tk else np.empty(0)
    if corners.ndim < 2 or any(size not in (1, 2) for size in corners.shape[-2:]):
        return _fits(name, np.asarray(rule(i, j)), scores)
    if name == "bias":
        _summand(corners)
    sizes = (whole if size == 2 else 1 for size, whole in zip(corners.shape[-2:], (Tq, Tk)))
    _fits(name, np.broadcast_to(False, (*corners.shape[:-2], *sizes)), scores)
    return None


def _mask_array(mask: ArrayLike, scores: tuple[int, ...]) -> Array:
    given = array("mask", mask)
    if given.dtype != bool:
        raise DtypeError("mask_dtype", dtype=given.dtype)
    return _fits("mask", given, scores)


def _bias_array(bias: ArrayLike, scores: tuple[int, ...]) -> Array:
    return _fits("bias", _summand(array("bias", bias)), scores)


def _summand(added: Array) -> Array:
    if added.dtype == bool:
        raise DtypeError("bias_dtype", dtype=added.dtype)
    return number("bias", added)


def _fits(name: str, given: Array, scores: tuple[int, ...]) -> Array:
    """`given`, if it broadcasts to the scores without enlarging them."""
    if given.ndim > len(scores) or any(a not in (1, b) for a, b in zip(given.shape[::-1], scores[::-1])):
        raise ShapeError("broadcast", name=name, shape=given.shape, scores=scores)
    return given


def _scale(scale: float | None, d_k: int) -> float:
    if scale is None:
        return 1 / math.sqrt(d_k) if d_k else 1.0
    return finite("scale", scale)


def _positive(name: str, value: float) -> float:
    if finite(name, value) <= 0:
        raise ArgumentError("number", name=name, expected="positive, or None for none", value=value)
    return float(value)


def _sinks(sinks: ArrayLike, q: Array) -> Array:
    """(H, 1), to stand beside the scores' queries; a scalar for a single head given as a matrix."""
    given = number("sinks", sinks)
    expected: tuple[int, ...] = (q.shape[-3],) if q.ndim > 2 else ()
    if given.shape != expected and not (q.ndim == 2 and given.shape == (1,)):
        raise ShapeError("shape", name="sinks", expected=f"{expected}, one per head", shape=given.shape)
    return given.reshape(*expected, 1)
