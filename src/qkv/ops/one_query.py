"""The next token of a text: one query that may look at every key. The formula of `dense`, with nothing left to ask.

In a small model a token spends as long on questions that have one answer here (which keys are hidden, what is added,
which dtype) as on the formula.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .dense import grouped, matches, ungrouped
from .precision import Array

DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


def one_query(q: Any, k: Any, v: Any, scale: Any, most: int) -> Array | None:
    """Attention of a single query per head to all keys.

    Parameters
    ----------
    q : (..., H, 1, d_k) ndarray
    k : (..., Hkv, Tk, d_k) ndarray
    v : (..., Hkv, Tk, d_v) ndarray
    scale : float or None
    most : int
        Multiply-adds above which another way is faster.

    Returns
    -------
    (..., H, 1, d_v) ndarray or None
        None when the call is not of this form, or is wrong: the general way reads it then.

    Examples
    --------
    >>> x = np.ones((1, 1, 2))
    >>> one_query(x, np.ones((1, 3, 2)), np.arange(6.0).reshape(1, 3, 2), None, most=100)
    array([[[2., 3.]]])
    """
    if not _is_plain(q, k, v, scale) or q.shape[-3] * k.shape[-2] * (k.shape[-1] + v.shape[-1]) > most:
        return None
    chosen = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    with np.errstate(all="ignore"):
        scores = matches(grouped(q, k), k) * q.dtype.type(chosen)
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = powers / powers.sum(axis=-1, keepdims=True)
        return ungrouped(weights @ v + 0, q, k)


def _is_plain(q: Any, k: Any, v: Any, scale: Any) -> bool:
    """Whether these are arrays of one dtype and of shapes that fit without broadcasting, none of them empty."""
    if not type(q) is type(k) is type(v) is np.ndarray or not (q.dtype == k.dtype == v.dtype and q.dtype in DTYPES):
        return False
    if not 3 <= q.ndim == k.ndim == v.ndim or q.shape[-2] != 1 or not (scale is None or type(scale) is float):
        return False
    fits = q.shape[:-3] == k.shape[:-3] and k.shape[:-1] == v.shape[:-1] and q.shape[-1] == k.shape[-1]
    sizes = k.shape[-3] and q.shape[-3] % k.shape[-3] == 0 and q.size and k.size and v.size
    return bool(fits and sizes and (scale is None or math.isfinite(scale)))
