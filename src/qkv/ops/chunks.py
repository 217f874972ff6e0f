"""Attention to keys that come in chunks: from a memory-mapped cache, a file, another machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..errors import ArgumentError, DtypeError
from .arguments import Window
from .attention import attention
from .biases import Bias
from .masks import Rule
from .merge import merge
from .precision import Array, answer_dtype, number, working_dtype


def attention_chunks(
    q: ArrayLike,
    chunks: Iterable[tuple[ArrayLike, ArrayLike]],
    *,
    mask: Rule | None = None,
    bias: Bias | None = None,
    causal: bool = False,
    window: Window | None = None,
    offset: ArrayLike | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: ArrayLike | None = None,
    return_lse: bool = False,
) -> Any:
    """`attention` to all keys of all chunks, of which one at a time is in memory.

    Parameters
    ----------
    q : (..., H, Tq, d_k) array_like
    chunks : iterable of (k, v)
        (..., Hkv, n, d_k) and (..., Hkv, n, d_v), n keys each, in the order of their positions.
    mask : Rule, optional
        On the positions among all keys.
    bias : Bias, optional
    causal, window, scale, softcap, sinks
        As in `attention`.
    offset : int or (*B,) array_like of int, optional
        Where the first query stands among all keys. Must be given where positions count: nobody knows yet how many
        keys will come.
    return_lse : bool

    Returns
    -------
    out : (..., H, Tq, d_v) ndarray
    lse : (..., H, Tq) ndarray
        If asked for.

    Raises
    ------
    ShapeError, DtypeError, ArgumentError

    Examples
    --------
    >>> chunks = [([[0.0]], [[2.0]]), ([[0.0], [0.0]], [[4.0], [6.0]])]
    >>> attention_chunks([[1.0]], chunks)
    array([[4.]])
    """
    for name, rule, kind in (("mask", mask, Rule), ("bias", bias, Bias)):
        if rule is not None and not isinstance(rule, kind):
            raise DtypeError("dtype", name=name, expected="a rule on positions", dtype=type(rule).__name__)
    if offset is None and (causal or window is not None or bias is not None or (mask is not None and mask.uses_query)):
        expected = "given: the position of the first query among all keys"
        raise ArgumentError("number", name="offset", expected=expected, value=None)
    queries, first = number("q", q), np.asarray(0 if offset is None else offset)
    start, whole, dtype = 0, None, queries.dtype
    for k, v in chunks:
        keys, values = number("k", k), number("v", v)
        dtype = answer_dtype(queries, keys, values)
        part = attention(
            queries.astype(working_dtype(dtype), copy=False), keys, values, causal=causal, window=window, scale=scale,
            softcap=softcap, mask=_moved(mask, start), bias=_moved(bias, start), offset=first - start,
            sinks=sinks if whole is None else None, return_lse=True,
        )  # fmt: skip
        whole = part if whole is None else merge(*whole, *part)
        start += keys.shape[-2]
    if whole is None:
        raise ArgumentError("number", name="chunks", expected="at least one pair (k, v)", value="empty")
    out: Array = whole[0].astype(dtype, copy=False)
    return (out, whole[1]) if return_lse else out


def _moved(rule: Any, start: int) -> Any:
    """A rule or bias, asked for positions that are counted from `start`."""
    if rule is None or start == 0:
        return rule
    if isinstance(rule, Bias):
        return replace(rule, added=lambda i, j: rule.added(i + start, j + start))

    def moved(keys: tuple[int, int]) -> tuple[int, int]:
        return keys[0] - start, keys[1] - start

    return replace(
        rule,
        visible=lambda i, j: rule.visible(i + start, j + start),
        range=lambda first, last, n: moved(rule.key_range(first + start, last + start, n + start)),
        full=lambda first, last, n: moved(rule.full_range(first + start, last + start, n + start)),
    )
