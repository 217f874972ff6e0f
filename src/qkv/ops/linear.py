"""Linear attention: a softmax replaced by a feature map, so that the cost grows with the length, not its square."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..contract import op
from ..errors import ShapeError
from .precision import Array, answer_dtype, number, working_dtype
from .valid import truth


def elu_plus_one(x: Array) -> Array:
    """x + 1 for positive x, exp(x) otherwise: the feature map of the paper, positive everywhere."""
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


@op(
    q="*B Tq d_k", k="*B Tk d_k", v="*B Tk d_v", q_features="*B Tq d_k", k_features="*B Tk d_k",
    state="*B d_k d_v", normaliser="*B Tq", out="*B Tq d_v",
)  # fmt: skip
def linear_attention(q: ArrayLike, k: ArrayLike, v: ArrayLike, *, causal: bool = False) -> Array:
    """Attention with weights phi(q) phi(k)^T instead of a softmax.

    Parameters
    ----------
    q : (..., Tq, d_k) array_like
    k : (..., Tk, d_k) array_like
    v : (..., Tk, d_v) array_like
        Leading axes broadcast.
    causal : bool
        Each query sees itself and what came before; Tq must equal Tk.

    Returns
    -------
    (..., Tq, d_v) ndarray

    Raises
    ------
    ShapeError
        When widths or lengths do not fit.

    Notes
    -----
    out_i = phi(q_i) sum_j phi(k_j)^T v_j / (phi(q_i) sum_j phi(k_j)), phi = elu + 1, the sums over j <= i when causal
    (Katharopoulos et al., "Transformers are RNNs", arXiv 2006.16236, equations 5, 7 and 9). With no key, out is 0.

    Examples
    --------
    >>> linear_attention([[1.0]], [[0.0], [0.0]], [[1.0], [3.0]])
    array([[2.]])
    """
    q, k, v = number("q", q), number("k", k), number("v", v)
    for name, x, axes in (("q", q, "(Tq, d_k)"), ("k", k, "(Tk, d_k)"), ("v", v, "(Tk, d_v)")):
        if x.ndim < 2:
            raise ShapeError("axes", name=name, expected=2, axes=axes, shape=x.shape)
    _same("k", k.shape[-1], "q", q.shape[-1], "d_k")
    _same("v", v.shape[-2], "k", k.shape[-2], "Tk")
    if truth("causal", causal):
        _same("k", k.shape[-2], "q", q.shape[-2], "T (causal)")
    try:
        np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    except ValueError:
        shapes = ", ".join(str(x.shape) for x in (q, k, v))
        raise ShapeError("batch", names="q, k, v", shapes=shapes) from None
    dtype = answer_dtype(q, k, v)
    working = working_dtype(dtype)
    q_features, k_features = elu_plus_one(q.astype(working)), elu_plus_one(k.astype(working))
    values = v.astype(working, copy=False)
    if causal:
        out = _running(q_features, k_features, values)
    else:
        state = k_features.mT @ values
        normaliser = (q_features * k_features.sum(axis=-2, keepdims=True)).sum(axis=-1)
        out = _divided(q_features @ state, normaliser)
    return out.astype(dtype, copy=False)


def _running(q_features: Array, k_features: Array, v: Array) -> Array:
    """The causal form as a recurrence over positions: the state is all that is remembered."""
    lead = np.broadcast_shapes(q_features.shape[:-2], k_features.shape[:-2], v.shape[:-2])
    out = np.empty((*lead, q_features.shape[-2], v.shape[-1]), v.dtype)
    state = np.zeros((*lead, k_features.shape[-1], v.shape[-1]), v.dtype)
    key_sum = np.zeros((*lead, k_features.shape[-1]), v.dtype)
    for i in range(q_features.shape[-2]):
        state = state + k_features[..., i, :, None] * v[..., i, None, :]
        key_sum = key_sum + k_features[..., i, :]
        query = q_features[..., i, :]
        out[..., i, :] = _divided((query[..., None, :] @ state)[..., 0, :], (query * key_sum).sum(axis=-1))
    return out


def _divided(total: Array, normaliser: Array) -> Array:
    return np.divide(total, normaliser[..., None], out=np.zeros_like(total), where=normaliser[..., None] != 0)


def _same(name: str, size: int, other: str, other_size: int, axis: str) -> None:
    if size != other_size:
        raise ShapeError("same_size", name=name, axis=axis, size=size, other=other, other_size=other_size)
