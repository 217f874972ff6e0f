"""Attention, as it is defined: every score, every weight, one line of the formula at a time.

The rules of the edges (masks, empty rows, NaN, precision) are written in the documentation, page "edges".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..contract import op
from .precision import Array

# Measured: up to so many queries for a key head, and from so many multiply-adds (below, a BLAS packs nothing).
FEW, SMALL = 6, 1 << 16


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
    scores = ungrouped(matches(grouped(q, k), k), q, k) * q.dtype.type(scale)
    return scores


def matches(q: Array, k: Array) -> Array:
    """Q K^T. For a few queries a product of each with the keys as they lie is faster than one that packs the keys."""
    if not 1 < q.shape[-2] <= FEW or q.shape[-2] * k.shape[-2] * k.shape[-1] < SMALL:
        return q @ k.mT
    return (k[..., None, :, :] @ q[..., None])[..., 0]


@op(step="capped")
def softcapped(scores: Array, c: float) -> Array:
    """c tanh(scores / c): no score leaves -c..c."""
    capped = np.tanh(scores / scores.dtype.type(c)) * scores.dtype.type(c)
    return capped


@op(step="masked")
def hidden(biased: Array, visible: Array | None) -> Array:
    """-inf where a key may not be looked at, and there alone.

    A visible score that overflowed to -inf becomes the lowest finite number: no weight, but still visible. A row that
    has nothing else is not an empty row: nothing is known of it, so it is NaN.
    """
    masked = biased if visible is None else np.where(visible, biased, biased.dtype.type(-np.inf))
    overflowed = np.isneginf(biased) if visible is None else np.isneginf(biased) & visible
    if overflowed.any():
        lost = np.isneginf(masked).all(axis=-1, keepdims=True)
        masked = np.where(overflowed, np.where(lost, np.nan, np.finfo(biased.dtype).min), masked)
    return masked


@op(step="weights")
def row_softmax(masked: Array, sinks: Array | None) -> Array:
    """Each row of scores as weights that sum to 1; a hidden key weighs 0, and so does all of an empty row."""
    _, powers, total = row_powers(masked, sinks)
    if ((total > 0) & (total < np.inf)).all():
        return powers / total
    weights: Array = powers / np.where(total == 0, 1, total)
    return np.where(np.isneginf(masked), masked.dtype.type(0), weights)


def row_powers(masked: Array, sinks: Array | None) -> tuple[Array, Array, Array]:
    """The largest logit of each row (at least what is finite), exp(logit - largest), and their sum with the sink's."""
    top = masked.max(axis=-1, keepdims=True, initial=np.finfo(masked.dtype).min)
    if sinks is not None:
        top = np.maximum(top, sinks[..., None])
    powers = np.exp(masked - top)
    total = powers.sum(axis=-1, keepdims=True)
    if sinks is not None:
        total = total + np.exp(sinks[..., None] - top)
    return top, powers, total


def row_logsumexp(masked: Array, sinks: Array | None) -> Array:
    """log sum exp of each row of logits, the sink's included; -inf where there is none."""
    top, _, total = row_powers(masked, sinks)
    lse = (top + np.log(total))[..., 0]
    return lse


@op(step="out")
def weighted_sum(weights: Array, v: Array, masked: Array, dtype: np.dtype[Any]) -> Array:
    """weights V, rounded once. A value that may not be looked at does not take part, whatever it is."""
    total = visible_product(grouped(weights, v), v, grouped(masked, v))
    out = ungrouped(total, weights, v).astype(dtype, copy=False)
    return out


def visible_product(weights: Array, rows: Array, masked: Array) -> Array:
    """weights @ rows, in which 0 * NaN counts as 0 where `masked` is -inf.

    The last sum with 0 turns -0 into 0, so that a hidden row leaves no trace in a sign.
    """
    if weights.all():  # none is 0: nothing is hidden
        return weights @ rows + 0
    finite = np.isfinite(rows)
    if finite.all():
        return weights @ rows + 0
    total = weights @ np.where(finite, rows, 0) + 0
    # What an infinite or unknown value does to the sum of the queries that see it, counted by products of 0 and 1.
    seen = ~np.isneginf(masked)
    lit, unlit = (seen & (weights > 0)).astype(rows.dtype), (seen & (weights == 0)).astype(rows.dtype)
    is_nan, is_up, is_down = (c.astype(rows.dtype) for c in (np.isnan(rows), rows == np.inf, rows == -np.inf))
    up, down = lit @ is_up > 0, lit @ is_down > 0
    unknown = ((lit + unlit) @ is_nan > 0) | (unlit @ (is_up + is_down) > 0) | (up & down) | np.isnan(total)
    total = np.where(up, np.inf, np.where(down, -np.inf, total))
    return np.where(unknown, np.nan, total).astype(rows.dtype, copy=False)


def grouped(x: Array, rows: Array) -> Array:
    """(..., H, Tq, n) as (..., Hkv, H / Hkv * Tq, n), to be multiplied with k or v, which are the `rows`.

    The queries of the heads that share a key head are stacked instead of the key head being repeated: one product for
    each, and no copy of what may be a long cache.
    """
    if not shares_heads(rows, x):
        return x
    *lead, n_heads, Tq, n = x.shape
    return x.reshape(*lead, rows.shape[-3], n_heads // rows.shape[-3] * Tq, n)


def ungrouped(product: Array, x: Array, rows: Array) -> Array:
    """The way back, to the heads and queries of `x`."""
    if not shares_heads(rows, x):
        return product
    return product.reshape(*product.shape[:-3], *x.shape[-3:-1], product.shape[-1])


def shares_heads(rows: Array, q: Array) -> bool:
    """Whether a head of `rows` serves several heads of `q`."""
    return rows.ndim >= 3 and q.ndim >= 3 and rows.shape[-3] != q.shape[-3]


def repeated(rows: Array, q: Array) -> Array:
    """Keys or values (..., Hkv, Tk, d) for each query head: every head H / Hkv times in a row."""
    if not shares_heads(rows, q) or rows.shape[-3] == 1:
        return rows
    return np.repeat(rows, q.shape[-3] // rows.shape[-3], axis=-3)
