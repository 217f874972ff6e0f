"""Attention to some of the keys, and the rest of them later: parts, and how they become one."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .precision import Array, answer_dtype, number, working_dtype


def merge(out_a: ArrayLike, lse_a: ArrayLike, out_b: ArrayLike, lse_b: ArrayLike) -> tuple[Array, Array]:
    """What attention to all keys gives, from attention to some of them and to the others.

    Parameters
    ----------
    out_a, out_b : (..., Tq, d_v) array_like
        Outputs for the same queries and two sets of keys that share none.
    lse_a, lse_b : (..., Tq) array_like
        Their log-sum-exps; -inf where nothing was seen.

    Returns
    -------
    out : (..., Tq, d_v) ndarray
    lse : (..., Tq) ndarray

    Notes
    -----
    out = (e^lse_a out_a + e^lse_b out_b) / (e^lse_a + e^lse_b): the softmax of a union of keys. Exact, so that keys can
    be split over threads, chunks of a cache or machines, and parts merged in any order. A sink, if there is one,
    belongs to one part alone.

    Examples
    --------
    >>> out, lse = merge([[1.0]], [0.0], [[3.0]], [0.0])
    >>> out, lse.round(4)
    (array([[2.]]), array([0.6931]))
    """
    a, b = number("out_a", out_a), number("out_b", out_b)
    seen_a, seen_b = number("lse_a", lse_a), number("lse_b", lse_b)
    with np.errstate(all="ignore"):
        lse = np.logaddexp(seen_a, seen_b)
        out = _share(a, seen_a, lse) + _share(b, seen_b, lse)
    return out.astype(answer_dtype(a, b), copy=False), lse


def _share(out: Array, part: Array, whole: Array) -> Array:
    """What a part adds. One that saw nothing leaves no trace, whatever it holds."""
    wide = out.astype(working_dtype(out.dtype), copy=False)
    return np.where(np.isneginf(part)[..., None], wide.dtype.type(0), np.exp(part - whole)[..., None] * wide)
