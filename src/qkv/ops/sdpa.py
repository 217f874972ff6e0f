"""PyTorch's function under its own name, signature and meaning, for porting."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..errors import ArgumentError, DtypeError, ShapeError
from .arguments import read_call
from .attention import attention
from .dense import dense, repeated, visible_product
from .precision import FLOATS, Array, array, number
from .valid import finite, truth


def scaled_dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    attn_mask: ArrayLike | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Array:
    """What `torch.nn.functional.scaled_dot_product_attention` computes.

    Parameters
    ----------
    query : (..., Hq, L, E) array_like
    key : (..., H, S, E) array_like
    value : (..., H, S, Ev) array_like
    attn_mask : array_like, optional
        Broadcasts to (..., Hq, L, S). Boolean: True = takes part. Floats: added to the scores. Nothing else.
    dropout_p : float
        The chance that a weight is dropped, 0 to 1; the others grow by 1 / (1 - p). Drawn afresh at each call.
    is_causal : bool
        Query i sees keys 0 to i: aligned at the top left, also when L != S. Holds beside `attn_mask`.
    scale : float, optional
        1 / sqrt(E) by default.
    enable_gqa : bool
        Allow Hq to be a multiple of H.

    Returns
    -------
    (..., Hq, L, Ev) ndarray

    Raises
    ------
    ShapeError, DtypeError, ArgumentError

    Notes
    -----
    At the edges the rules of `qkv.attention` hold: a query that sees nothing gives 0, and a NaN under a mask does
    not leak.

    Examples
    --------
    >>> scaled_dot_product_attention([[[1.0]]], [[[0.0], [0.0]]], [[[2.0], [4.0]]])
    array([[[3.]]])
    """
    q, k, v = number("query", query), number("key", key), number("value", value)
    heads = [x.shape[-3] if x.ndim > 2 else 1 for x in (q, k)]
    if not truth("enable_gqa", enable_gqa) and heads[0] != heads[1]:
        raise ShapeError(
            "same_size", name="key (enable_gqa=False)", axis="H", size=heads[1], other="query", other_size=heads[0]
        )
    if not 0 <= finite("dropout_p", dropout_p) <= 1:
        raise ArgumentError("number", name="dropout_p", expected="from 0 to 1", value=dropout_p)
    mask = None if attn_mask is None else array("attn_mask", attn_mask)
    boolean = mask is not None and mask.dtype == bool
    if mask is not None and not boolean and mask.dtype not in FLOATS:
        raise DtypeError("attn_mask_dtype", dtype=mask.dtype)
    allowed, added = (mask, None) if boolean else (None, mask)
    offset = 0 if truth("is_causal", is_causal) else None
    if dropout_p == 0:
        out: Array = attention(q, k, v, mask=allowed, bias=added, causal=is_causal, offset=offset, scale=scale)
        return out
    call = read_call(
        q, k, v, mask=allowed, bias=added, causal=is_causal, window=None, offset=offset, scale=scale, softcap=None,
        sinks=None,
    )  # fmt: skip
    with np.errstate(all="ignore"):
        _, masked, weights = dense(
            call.q, call.k, call.v, call.visible, call.bias, call.scale, call.softcap, call.sinks, call.dtype
        )
        kept = np.random.default_rng().random(weights.shape) >= dropout_p
        rescaled = np.where(kept, weights / (1 - dropout_p), 0).astype(weights.dtype, copy=False)
        return visible_product(rescaled, repeated(call.v, rescaled), masked).astype(call.dtype, copy=False)
