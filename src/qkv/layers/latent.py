"""Latent attention with weights: what is cached is one small vector per token."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..contract import op, watcher
from ..errors import ArgumentError
from ..ops import attention, latent_attention
from ..ops.precision import Array
from ..ops.valid import integer
from .attention import Rotary, Tables, merge_heads, split_heads
from .cache import KVCache
from .linear import linear
from .parts import Norm, RMSNorm, Seed, generator, normed, rows, sizes, xavier


@dataclass(eq=False)
class LatentAttention:
    """Multi-head latent attention.

    Attributes
    ----------
    W_Q : (d_model, n_heads * d_k) ndarray, or (d_q, n_heads * d_k) behind W_DQ
    W_DKV : (d_model, d_latent) ndarray
        Down to the latent that keys and values are read from.
    W_UK : (d_latent, n_heads * d_k) ndarray
    W_UV : (d_latent, n_heads * d_v) ndarray
    W_O : (n_heads * d_v, d_model) ndarray
    n_heads : int
    W_QR : (d_model or d_q, n_heads * d_rope) ndarray or None
    W_KR : (d_model, d_rope) ndarray or None
        The part of queries and keys that carries the position; keys share it.
    rotary : Rotary
        How that part is turned.
    W_DQ : (d_model, d_q) ndarray or None
        Down to a small vector that the queries are read from.
    q_norm, latent_norm : LayerNorm or RMSNorm, or None
        Of that vector, and of the latent.
    b_DQ, b_DKV, b_KR, b_O : ndarray or None
    rules : dict
        What belongs to this layer of the arguments of `latent_attention`: scale, window, ...

    Notes
    -----
    DeepSeek-V2, arXiv 2405.04434, section 2.1 and appendix C. A cache holds the latent, normed, and the turned part of
    the key: d_latent + d_rope numbers for each token, whatever the number of heads. From there are two ways that give
    the same. Few queries, as in generating, go over into the space of the latents (`latent_attention`). For many it is
    less work to write out every head's keys and values, and whoever watches sees these.

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
    W_DQ: Array | None = None
    q_norm: Norm | None = None
    latent_norm: Norm | None = None
    b_DQ: Array | None = None
    b_DKV: Array | None = None
    b_KR: Array | None = None
    b_O: Array | None = None
    rules: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def init(
        cls,
        d_model: int,
        n_heads: int,
        d_latent: int,
        *,
        d_k: int | None = None,
        d_v: int | None = None,
        d_q: int | None = None,
        d_rope: int = 0,
        normed: bool = False,
        seed: Seed = 0,
    ) -> LatentAttention:
        """Xavier weights.

        d_rope = 0 leaves out the part that carries the position, d_q = None the vector between tokens and queries;
        d_v is d_k by default. `normed` puts a norm behind each way down, as DeepSeek does.
        """
        sizes(d_model=d_model, n_heads=n_heads, d_latent=d_latent, d_k=d_k, d_v=d_v, d_q=d_q)
        integer("d_rope", d_rope, 0)
        if d_k is None:
            if d_model % n_heads:
                raise ArgumentError("divides", name="d_model", size=d_model, by="n_heads", by_size=n_heads)
            d_k = d_model // n_heads
        rng = generator(seed)
        wide, wide_v, read = n_heads * d_k, n_heads * (d_v or d_k), d_q or d_model
        return cls(
            xavier(rng, read, wide), xavier(rng, d_model, d_latent), xavier(rng, d_latent, wide),
            xavier(rng, d_latent, wide_v), xavier(rng, wide_v, d_model), n_heads,
            xavier(rng, read, n_heads * d_rope) if d_rope else None,
            xavier(rng, d_model, d_rope) if d_rope else None,
            W_DQ=xavier(rng, d_model, d_q) if d_q else None,
            q_norm=RMSNorm.init(d_q) if d_q and normed else None,
            latent_norm=RMSNorm.init(d_latent) if normed else None,
        )  # fmt: skip

    @op(
        name="latent_attention_part", kernel="attention", path="attention",
        x="*B T d_model", compressed="*B T d_q", q="*B H T d_k", latent="*B T d_latent",
        q_rope="*B H T d_rope", k_rope="*B T d_rope", k="*B H Tk d_k", v="*B H Tk d_v",
        q_rot="*B H T d_joined", k_rot="*B H Tk d_joined", joined="*B T H*d_v", output="*B T d_model",
    )  # fmt: skip
    def __call__(
        self, x: Array, *, cache: KVCache | None = None, positions: Array | Tables | None = None, **rules: Any
    ) -> Array:
        """Attend from each row of `x` (..., T, d_model) to all of them; arguments as in `MultiHeadAttention`."""
        x = rows("x", x)
        compressed = None if self.W_DQ is None else normed(self.q_norm, linear(x, self.W_DQ, self.b_DQ))
        source = x if compressed is None else compressed
        q = split_heads(linear(source, self.W_Q), self.n_heads)
        latent = normed(self.latent_norm, linear(x, self.W_DKV, self.b_DKV))
        if positions is None:
            positions = np.arange(x.shape[-2]) + (cache.n_seen if cache is not None else 0)
        if self.W_QR is None or self.W_KR is None:
            q_rope = k_rope = None
        else:
            q_rope = self.rotary(split_heads(linear(source, self.W_QR), self.n_heads), positions)
            k_rope = self.rotary(linear(x, self.W_KR, self.b_KR)[..., None, :, :], positions)[..., 0, :, :]
        latents, turned = latent, k_rope
        if cache is not None:
            kept = np.empty((*latent.shape[:-1], 0), latent.dtype) if k_rope is None else k_rope
            latents, kept, rules["offset"] = cache.append(latent, kept)
            turned = None if k_rope is None else kept
        rules = {**self.rules, **rules}
        if self._unfolds(q.shape[-2], latents.shape[-2]):
            k, v = (split_heads(linear(latents, W), self.n_heads) for W in (self.W_UK, self.W_UV))
            q_rot = q if q_rope is None else np.concatenate([q, q_rope], axis=-1)
            k_rot = k if turned is None else np.concatenate([k, _for_all(turned, k)], axis=-1)
            heads = attention(q_rot, k_rot, v, **rules)
        else:
            W_UK, W_UV = (split_heads(W, self.n_heads) for W in (self.W_UK, self.W_UV))
            heads = latent_attention(q, latents, W_UK, W_UV, q_rope=q_rope, k_rope=turned, **rules)
        joined = merge_heads(heads)
        output = linear(joined, self.W_O, self.b_O)
        return output

    def _unfolds(self, Tq: int, Tk: int) -> bool:
        """Whether to write out each head's keys and values: where somebody watches, or where that is less work."""
        d_latent, wide = self.W_UK.shape[0], (self.W_UK.shape[1] + self.W_UV.shape[1]) // self.n_heads
        unfolded = Tk * d_latent * wide + Tq * Tk * wide
        folded = Tq * d_latent * wide + Tq * Tk * 2 * d_latent
        return watcher.get() is not None or unfolded < folded


def _for_all(turned: Array, k: Array) -> Array:
    """The turned part (..., Tk, d_rope) beside the keys (..., H, Tk, d_k) of every head."""
    return np.broadcast_to(turned[..., None, :, :], (*k.shape[:-1], turned.shape[-1]))
