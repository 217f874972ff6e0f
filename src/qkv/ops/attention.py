"""Attention: the face, and the choice between its paths: the definition (`dense`), the fast one (`tiled`), and the
definition without its questions for a single query (`one_query`).

The rules of the edges (masks, empty rows, NaN, precision) are written in the documentation, page "edges".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..contract import watcher
from .arguments import Call, Window, read_call
from .biases import Bias
from .dense import dense, row_logsumexp
from .masks import Rule
from .one_query import one_query
from .settings import settings
from .tiled import tiled

TINY = 1 << 22  # multiply-adds


def attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    *,
    mask: ArrayLike | Rule | None = None,
    bias: ArrayLike | Bias | None = None,
    causal: bool = False,
    window: Window | None = None,
    offset: ArrayLike | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: ArrayLike | None = None,
    return_weights: bool = False,
    return_lse: bool = False,
) -> Any:
    """Let each query look at the keys, and mix the values by how well they match.

    Parameters
    ----------
    q : (..., H, Tq, d_k) array_like
        Queries. A plain matrix (Tq, d_k) is one head.
    k : (..., Hkv, Tk, d_k) array_like
        Keys. H must be a multiple of Hkv: query head h uses head h // (H / Hkv) of k and v.
    v : (..., Hkv, Tk, d_v) array_like
        Values. Axes in front of the heads broadcast.
    mask : bool array_like or Rule, optional
        True = may look. Broadcasts to (..., H, Tq, Tk); rules on positions come from `qkv.masks`.
    bias : array_like or Bias, optional
        Added to the scaled scores. Broadcasts to (..., H, Tq, Tk); -inf hides a key like a mask.
    causal : bool
        Key j may be looked at only if j <= offset + i.
    window : int or (left, right), optional
        That many keys up to and including the query's own, or so many neighbours on each side (None: all).
    offset : int or (*B,) array_like of int, optional
        The position of the first query. Must be given where positions count and Tq != Tk.
    scale : float, optional
        What the products are multiplied with; 1 / sqrt(d_k) by default.
    softcap : float, optional
        c: scores s become c tanh(s / c), before bias and mask.
    sinks : (H,) array_like, optional
        A further logit per head that takes weight and gives no value.
    return_weights, return_lse : bool
        Also return the weights, and the log-sum-exp of each row.

    Returns
    -------
    out : (..., H, Tq, d_v) ndarray
        In the dtype of the inputs; computed in float32, or in float64 for float64 and integers.
    weights : (..., H, Tq, Tk) ndarray
        If asked for. Rows sum to 1, to 0 where nothing may be looked at, to 1 less the sink's share with sinks.
    lse : (..., H, Tq) ndarray
        If asked for, float32 or float64, natural logarithm; -inf where nothing may be looked at.

    Raises
    ------
    ShapeError, DtypeError, ArgumentError
        One line that names the argument, what was expected and what came.

    Notes
    -----
    Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V (Vaswani et al., arXiv 1706.03762, equation 1), in the order
    scale, softcap, bias, mask, softmax. A key that may not be looked at influences nothing, be it NaN; a NaN that may
    be looked at always shows. Grouped queries: Ainslie et al., arXiv 2305.13245. Soft cap: Gemma 2, arXiv 2408.00118,
    section 2. Sinks: Xiao et al., arXiv 2309.17453, section 3.3.

    Examples
    --------
    >>> q = k = [[4.0, 0.0], [0.0, 4.0]]
    >>> v = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    >>> attention(q, k, v, causal=True).round(4)
    array([[1., 2., 3.],
           [4., 5., 6.]])
    """
    nothing_more = mask is bias is window is softcap is sinks is None
    if nothing_more and causal is return_weights is return_lse is False and _nobody_asks_how(offset):
        row = one_query(q, k, v, scale, TINY)
        if row is not None:
            return row
    call = read_call(
        q, k, v, mask=mask, bias=bias, causal=causal, window=window, offset=offset, scale=scale, softcap=softcap,
        sinks=sinks,
    )  # fmt: skip
    if takes_tiles(call, return_weights):
        out, lse = tiled(call)
        return (out, lse) if return_lse else out
    with np.errstate(all="ignore"):  # NaN and infinity are answers here, not accidents
        out, masked, weights = dense(
            call.q, call.k, call.v, call.visible, call.bias, call.scale, call.softcap, call.sinks, call.dtype
        )
        results = [out]
        if return_weights:
            results.append(weights.astype(call.dtype, copy=False))
        if return_lse:
            results.append(np.array(np.broadcast_to(row_logsumexp(masked, call.sinks), call.scores[:-1])))
    return out if len(results) == 1 else tuple(results)


def _nobody_asks_how(offset: object) -> bool:
    """Whether nobody watches or has chosen a path, and the offset is right, which counts for nothing without a rule."""
    return watcher.get() is None and settings().force is None and (offset is None or type(offset) is int)


def takes_tiles(call: Call, return_weights: bool) -> bool:
    """The one choice between the paths, which give the same result beyond rounding.

    Whoever watches, or asks for the weights, sees every score: the definition. It is also the faster one for few
    scores, where planning tiles and calling a product for each costs more than the formula. All else goes by tiles.
    """
    if return_weights or watcher.get() is not None:
        return False
    forced = settings().force
    return forced == "tiled" if forced else call.work > TINY
