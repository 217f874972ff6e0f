"""Latent attention (MLA): keys and values of every head are read from one small vector per token."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..contract import op
from ..errors import ShapeError
from .arguments import output_alone
from .attention import attention
from .precision import Array, answer_dtype, number, working_dtype


@op(
    q="*B H Tq d_k", latent="*B Tk d_latent", W_UK="H d_latent d_k", W_UV="H d_latent d_v",
    q_rope="*B H Tq d_rope", k_rope="*B Tk d_rope",
    q_latent="*B H Tq d_latent", q_joined="*B H Tq d_joined", k_joined="*B 1 Tk d_joined",
    mixed="*B H Tq d_latent", out="*B H Tq d_v",
)  # fmt: skip
def latent_attention(
    q: ArrayLike,
    latent: ArrayLike,
    W_UK: ArrayLike,
    W_UV: ArrayLike,
    *,
    q_rope: ArrayLike | None = None,
    k_rope: ArrayLike | None = None,
    scale: float | None = None,
    **rules: Any,
) -> Array:
    """Attention over a latent per token, without ever unfolding it into keys and values of each head.

    Parameters
    ----------
    q : (..., H, Tq, d_k) array_like
        The part of the queries that carries no position.
    latent : (..., Tk, d_latent) array_like
        One small vector per key token: this is all that a cache has to keep, beside `k_rope`.
    W_UK : (H, d_latent, d_k) array_like
        Unfolds the latent into the keys of each head.
    W_UV : (H, d_latent, d_v) array_like
        Unfolds it into the values of each head.
    q_rope : (..., H, Tq, d_rope) array_like, optional
        The turned part of the queries.
    k_rope : (..., Tk, d_rope) array_like, optional
        The turned part of the keys, shared by all heads.
    scale : float, optional
        1 / sqrt(d_k + d_rope) by default.
    **rules
        mask, bias, causal, window, offset, softcap, sinks: as in `attention`.

    Returns
    -------
    (..., H, Tq, d_v) ndarray

    Raises
    ------
    ShapeError, DtypeError, ArgumentError

    Notes
    -----
    q (latent W_UK)^T = (q W_UK^T) latent^T: the unfolding moves to the query, and what is left is attention with one
    key head whose values are the latents themselves (DeepSeek-V2, arXiv 2405.04434, section 2.1 and appendix C).

    Examples
    --------
    >>> one = np.ones((1, 2, 3))
    >>> latent_attention(np.ones((1, 1, 3)), [[1.0, 3.0]], one, one)
    array([[[4., 4., 4.]]])
    """
    q, latent, W_UK, W_UV = number("q", q), number("latent", latent), number("W_UK", W_UK), number("W_UV", W_UV)
    dtype = answer_dtype(q, latent, W_UK, W_UV)
    working = working_dtype(dtype)
    output_alone(rules)
    _fits(q, latent, W_UK, W_UV)
    q_latent = q.astype(working, copy=False) @ W_UK.astype(working, copy=False).mT
    values = latent.astype(working, copy=False)[..., None, :, :]
    if q_rope is None and k_rope is None:
        d_rope, q_joined, k_joined = 0, q_latent, values
    else:
        q_turned, k_turned = number("q_rope", q_rope), number("k_rope", k_rope)  # type: ignore[arg-type]
        d_rope = q_turned.shape[-1]
        q_joined = _joined("q_rope", q_latent, q_turned)
        k_joined = _joined("k_rope", values, k_turned[..., None, :, :])
    chosen = 1 / math.sqrt(q.shape[-1] + d_rope) if scale is None else scale
    mixed = attention(q_joined, k_joined, values, scale=chosen, **rules)
    out = mixed @ W_UV.astype(working, copy=False)
    return out.astype(dtype, copy=False)


def _joined(name: str, still: Array, turned: Array) -> Array:
    if turned.ndim < 2 or turned.shape[-2] != still.shape[-2]:
        size = turned.shape[-2] if turned.ndim > 1 else 0
        raise ShapeError("same_size", name=name, axis="T", size=size, other=name[0], other_size=still.shape[-2])
    lead = np.broadcast_shapes(still.shape[:-1], turned.shape[:-1])
    parts = [np.broadcast_to(part, (*lead, part.shape[-1])) for part in (still, turned)]
    return np.concatenate(parts, axis=-1).astype(still.dtype, copy=False)


def _fits(q: Array, latent: Array, W_UK: Array, W_UV: Array) -> None:
    if q.ndim < 3:
        raise ShapeError("axes", name="q", expected=3, axes="(..., H, Tq, d_k)", shape=q.shape)
    if latent.ndim < 2:
        raise ShapeError("axes", name="latent", expected=2, axes="(..., Tk, d_latent)", shape=latent.shape)
    H, d_k, d_latent = q.shape[-3], q.shape[-1], latent.shape[-1]
    if W_UK.shape != (H, d_latent, d_k):
        raise ShapeError("shape", name="W_UK", expected=(H, d_latent, d_k), shape=W_UK.shape)
    if W_UV.shape[:2] != (H, d_latent) or W_UV.ndim != 3:
        raise ShapeError("shape", name="W_UV", expected=f"({H}, {d_latent}, d_v)", shape=W_UV.shape)
