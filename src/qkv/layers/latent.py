"""Latent attention with weights: what is cached is one small vector per token."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..contract import op
from ..errors import ArgumentError
from ..ops import latent_attention
from ..ops.precision import Array
from ..ops.valid import integer
from .attention import Rotary, merge_heads, split_heads
from .cache import KVCache
from .parts import Seed, generator, linear, rows, sizes, xavier


@dataclass(eq=False)
class LatentAttention:
    """Multi-head latent attention.

    Attributes
    ----------
    W_Q : (d_model, n_heads * d_k) ndarray
    W_DKV : (d_model, d_latent) ndarray
        Down to the latent that keys and values are read from.
    W_UK : (d_latent, n_heads * d_k) ndarray
    W_UV : (d_latent, n_heads * d_v) ndarray
    W_O : (n_heads * d_v, d_model) ndarray
    n_heads : int
    W_QR : (d_model, n_heads * d_rope) ndarray or None
    W_KR : (d_model, d_rope) ndarray or None
        The part of queries and keys that carries the position; keys share it.
    rotary : Rotary
        How that part is turned.

    Notes
    -----
    DeepSeek-V2, arXiv 2405.04434, section 2.1, without the compression of the queries and the norm of the latent.

    Examples
    --------
    >>> layer = LatentAttention.init(d_model=12, n_heads=3, d_latent=5, d_rope=2, seed=1)
    >>> layer(np.ones((2, 7, 12)), causal=True).shape
    (2, 7, 12)
    """

    W_Q: Array
    W_DKV: Array
    W_UK: Array
    W_UV: Array
    W_O: Array
    n_heads: int
    W_QR: Array | None = None
    W_KR: Array | None = None
    rotary: Rotary = field(default_factory=Rotary)

    @classmethod
    def init(
        cls, d_model: int, n_heads: int, d_latent: int, *, d_k: int | None = None, d_rope: int = 0, seed: Seed = 0
    ) -> LatentAttention:
        """Xavier weights; d_rope = 0 leaves out the part that carries the position."""
        sizes(d_model=d_model, n_heads=n_heads, d_latent=d_latent, d_k=d_k)
        integer("d_rope", d_rope, 0)
        if d_k is None:
            if d_model % n_heads:
                raise ArgumentError("divides", name="d_model", size=d_model, by="n_heads", by_size=n_heads)
            d_k = d_model // n_heads
        rng = generator(seed)
        wide = n_heads * d_k
        return cls(
            xavier(rng, d_model, wide), xavier(rng, d_model, d_latent), xavier(rng, d_latent, wide),
            xavier(rng, d_latent, wide), xavier(rng, wide, d_model), n_heads,
            xavier(rng, d_model, n_heads * d_rope) if d_rope else None,
            xavier(rng, d_model, d_rope) if d_rope else None,
        )  # fmt: skip

    @op(
        name="latent_attention_part", kernel="latent_attention", path="attention",
        x="*B T d_model", q="*B H T d_k", latent="*B T d_latent", q_rot="*B H T d_rope", k_rot="*B T d_rope",
        joined="*B T H*d_v", output="*B T d_model",
    )  # fmt: skip
    def __call__(
        self, x: Array, *, cache: KVCache | None = None, positions: Array | None = None, **rules: Any
    ) -> Array:
        """Attend from each row of `x` (..., T, d_model) to all of them; arguments as in `MultiHeadAttention`."""
        x = rows("x", x)
        q = split_heads(linear(x, self.W_Q), self.n_heads)
        latent = linear(x, self.W_DKV)
        if positions is None:
            positions = np.arange(x.shape[-2]) + (cache.n_seen if cache is not None else 0)
        if self.W_QR is None or self.W_KR is None:
            q_rot = k_rot = None
        else:
            q_rot = self.rotary(split_heads(linear(x, self.W_QR), self.n_heads), positions)
            k_rot = self.rotary(linear(x, self.W_KR)[..., None, :, :], positions)[..., 0, :, :]
        latents, turned = latent, k_rot
        if cache is not None:
            kept = np.empty((*latent.shape[:-1], 0), latent.dtype) if k_rot is None else k_rot
            latents, kept, rules["offset"] = cache.append(latent, kept)
            turned = None if k_rot is None else kept
        W_UK, W_UV = (split_heads(W, self.n_heads) for W in (self.W_UK, self.W_UV))
        heads = latent_attention(q, latents, W_UK, W_UV, q_rope=q_rot, k_rope=turned, **rules)
        joined = merge_heads(heads)
        output = linear(joined, self.W_O)
        return output
