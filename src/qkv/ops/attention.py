"""Attention, as it is defined: every score, every weight, one line of the formula at a time.

The rules of the edges (masks, empty rows, NaN, precision) are written in the documentation, page "edges".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..contract import op
from .arguments import Window, read_call
from .biases import Bias
from .masks import Rule
from .precision import Array


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
    call = read_call(
        q, k, v, mask=mask, bias=bias, causal=causal, window=window, offset=offset, scale=scale, softcap=softcap,
        sinks=sinks,
    )  # fmt: skip
    with np.errstate(all="ignore"):  # NaN and infinity are answers here, not accidents
        out, masked, weights = dense(
            call.q, call.k, call.v, call.visible, call.bias, call.scale, call.softcap, call.sinks, call.dtype
        )
        results = [out]
        if return_weights:
            results.append(weights.astype(call.dtype, copy=False))
        if return_lse:
            results.append(row_logsumexp(masked, call.sinks))
    return out if len(results) == 1 else tuple(results)


@op(
    name="attention",
    q="*B H Tq d_k", k="*B Hkv Tk d_k", v="*B Hkv Tk d_v",
    scores="*B H Tq Tk", capped="*B H Tq Tk", biased="*B H Tq Tk", masked="*B H Tq Tk", weights="*B H Tq Tk",
    out="*B H Tq d_v",
)  # fmt: skip
def dense(
    q: Array, k: Array, v: Array, visible: Array | None, bias: Array | None,
    scale: float, softcap: float | None, sinks: Array | None, dtype: np.dtype[Any],
) -> tuple[Array, Array, Array]:  # fmt: skip
    """The definition. Arguments as `read_call` leaves them; returns out, masked scores, weights."""
    scores = scaled_scores(q, k, scale)
    capped = scores if softcap is None else softcapped(scores, softcap)
    biased = capped if bias is None else capped + bias
    masked = hidden(biased, visible)
    weights = row_softmax(masked, sinks)
    out = weighted_sum(weights, v, masked, dtype)
    return out, masked, weights


@op(step="scores")
def scaled_scores(q: Array, k: Array, scale: float) -> Array:
    """Q K^T * scale: how well each query matches each key."""
    scores = q @ repeated(k, q).mT * q.dtype.type(scale)
    return scores


@op(step="capped")
def softcapped(scores: Array, c: float) -> Array:
    """c tanh(scores / c): no score leaves -c..c."""
    capped = np.tanh(scores / scores.dtype.type(c)) * scores.dtype.type(c)
    return capped


@op(step="masked")
def hidden(biased: Array, visible: Array | None) -> Array:
    """-inf where a key may not be looked at.

    A row whose visible scores all overflowed to -inf is not an empty row: nothing is known of it, so it is NaN.
    """
    masked = biased if visible is None else np.where(visible, biased, biased.dtype.type(-np.inf))
    lost = np.isneginf(masked).all(axis=-1, keepdims=True)
    if masked.size and lost.any():
        unknown = lost if visible is None else lost & visible
        masked = np.where(unknown, biased.dtype.type(np.nan), masked)
    return masked


@op(step="weights")
def row_softmax(masked: Array, sinks: Array | None) -> Array:
    """Each row of scores as weights that sum to 1; a hidden key weighs 0, and so does all of an empty row."""
    top, total = row_sum(masked, sinks)
    weights: Array = np.exp(masked - top) / np.where(total == 0, 1, total)
    return np.where(np.isneginf(masked), masked.dtype.type(0), weights)


def row_sum(masked: Array, sinks: Array | None) -> tuple[Array, Array]:
    """The largest logit of each row (0 if there is none) and the sum of exp(logit - largest), the sink's included."""
    top = masked.max(axis=-1, keepdims=True, initial=-np.inf)
    if sinks is not None:
        top = np.maximum(top, sinks[..., None])
    top = np.where(np.isneginf(top), masked.dtype.type(0), top)
    total = np.exp(masked - top).sum(axis=-1, keepdims=True)
    if sinks is not None:
        total = total + np.exp(sinks[..., None] - top)
    return top, total


def row_logsumexp(masked: Array, sinks: Array | None) -> Array:
    """log sum exp of each row of logits, the sink's included; -inf where there is none."""
    top, total = row_sum(masked, sinks)
    lse = (top + np.log(total))[..., 0]
    return lse


@op(step="out")
def weighted_sum(weights: Array, v: Array, masked: Array, dtype: np.dtype[Any]) -> Array:
    """weights V, rounded once. A value that may not be looked at does not take part, whatever it is."""
    out = visible_product(weights, repeated(v, weights), masked).astype(dtype, copy=False)
    return out


def visible_product(weights: Array, rows: Array, masked: Array) -> Array:
    """weights @ rows, in which 0 * NaN counts as 0 where `masked` is -inf.

    The last sum with 0 turns -0 into 0, so that a hidden row leaves no trace in a sign.
    """
    finite = np.isfinite(rows)
    total = weights @ (rows if finite.all() else np.where(finite, rows, 0)) + 0
    if finite.all():
        return total
    # What an infinite or unknown value does to the sum of the queries that see it, counted by products of 0 and 1.
    seen = ~np.isneginf(masked)
    lit, unlit = (seen & (weights > 0)).astype(rows.dtype), (seen & (weights == 0)).astype(rows.dtype)
    is_nan, is_up, is_down = (c.astype(rows.dtype) for c in (np.isnan(rows), rows == np.inf, rows == -np.inf))
    up, down = lit @ is_up > 0, lit @ is_down > 0
    unknown = ((lit + unlit) @ is_nan > 0) | (unlit @ (is_up + is_down) > 0) | (up & down) | np.isnan(total)
    total = np.where(up, np.inf, np.where(down, -np.inf, total))
    return np.where(unknown, np.nan, total).astype(rows.dtype, copy=False)


def repeated(rows: Array, q: Array) -> Array:
    """Keys or values (..., Hkv, Tk, d) for each query head: every head H / Hkv times in a row."""
    if rows.ndim < 3 or q.ndim < 3 or rows.shape[-3] in (1, q.shape[-3]):
        return rows
    return np.repeat(rows, q.shape[-3] // rows.shape[-3], axis=-3)
