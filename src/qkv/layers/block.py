"""A layer of a transformer: attention, then a feed-forward layer, each with a way around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..contract import op
from ..errors import ArgumentError
from ..ops.precision import Array
from .attention import MultiHeadAttention
from .context import ContextCache
from .experts import Experts
from .latent import LatentAttention
from .parts import FeedForward, GatedFeedForward, LayerNorm, Norm, Seed, generator, normed, rows

ORDERS = ("pre", "post")


@dataclass(eq=False)
class Block:
    """Self-attention and feed-forward around a residual stream.

    Attributes
    ----------
    attention : MultiHeadAttention or LatentAttention
    feed_forward : FeedForward, GatedFeedForward or Experts
    norm_1, norm_2 : LayerNorm or RMSNorm, or None
    order : {"pre", "post"}
        Normalise what enters each part ("pre", as GPT-2 does), or each sum ("post", as in the first transformer).
    norm_1_out, norm_2_out : LayerNorm or RMSNorm, or None
        Of what each part gives, before it is added (Gemma 2 has both kinds, OLMo 2 this one alone).
    parallel : bool
        Both parts read what enters the layer, instead of the second what the first has added to.

    Notes
    -----
    post: x = norm(x + part(x)) (Vaswani et al., arXiv 1706.03762, section 3.1); pre: x = x + part(norm(x))
    (Xiong et al., "On Layer Normalization in the Transformer Architecture", arXiv 2002.04745, section 3).
    parallel: x = x + attention(norm_1(x)) + feed_forward(norm_2(x)) (Black et al., arXiv 2204.06745, section 2.1).

    Examples
    --------
    >>> import numpy as np
    >>> Block.init(d_model=12, n_heads=3, d_ff=17)(np.ones((5, 12)), causal=True).shape
    (5, 12)
    """

    attention: MultiHeadAttention | LatentAttention
    feed_forward: FeedForward | GatedFeedForward | Experts
    norm_1: Norm | None
    norm_2: Norm | None
    order: str = "pre"
    norm_1_out: Norm | None = None
    norm_2_out: Norm | None = None
    parallel: bool = False

    def __post_init__(self) -> None:
        _known_order(self.order)

    @classmethod
    def init(cls, d_model: int, n_heads: int, d_ff: int, *, order: str = "pre", seed: Seed = 0) -> Block:
        """Xavier weights for attention and feed-forward, norms that change nothing yet."""
        rng = generator(seed)
        return cls(
            MultiHeadAttention.init(d_model, n_heads, seed=rng), FeedForward.init(d_model, d_ff, rng),
            LayerNorm.init(d_model), LayerNorm.init(d_model), order,
        )  # fmt: skip

    @op(name="block", x="*B T d_model", resid_mid="*B T d_model", resid_post="*B T d_model")
    def __call__(self, x: Array, **rules: Any) -> Array:
        """`x` (..., T, d_model) after this layer; `rules` go to the attention."""
        x = rows("x", x)
        before_1, before_2 = (self.norm_1, self.norm_2) if self.order == "pre" else (None, None)
        after_1, after_2 = (self.norm_1, self.norm_2) if self.order == "post" else (None, None)
        attended = normed(self.norm_1_out, self.attention(normed(before_1, x), **rules))
        resid_mid = normed(after_1, x + attended)
        entering = x if self.parallel else resid_mid
        fed = normed(self.norm_2_out, self.feed_forward(normed(before_2, entering)))
        resid_post = normed(after_2, resid_mid + fed)
        return resid_post

    def join(self) -> None:
        """Move matrices that read the same rows side by side: fewer products. What is computed stays, to rounding."""
        for part in (self.attention, self.feed_forward):
            if isinstance(part, MultiHeadAttention | GatedFeedForward):
                part.join()


@dataclass(eq=False)
class DecoderBlock:
    """A decoder's layer beside an encoder: it also looks at what the encoder made of the other sequence.

    Attributes
    ----------
    self_attention, cross_attention : MultiHeadAttention
    feed_forward : FeedForward or GatedFeedForward
    norm_1, norm_2, norm_3 : LayerNorm or RMSNorm
    order : {"pre", "post"}

    Notes
    -----
    Vaswani et al., arXiv 1706.03762, section 3.1 and figure 1 (there "post").

    Examples
    --------
    >>> import numpy as np
    >>> block = DecoderBlock.init(d_model=12, n_heads=3, d_ff=17)
    >>> block(np.ones((5, 12)), np.ones((7, 12)), causal=True).shape
    (5, 12)
    """

    self_attention: MultiHeadAttention
    cross_attention: MultiHeadAttention
    feed_forward: FeedForward | GatedFeedForward
    norm_1: Norm
    norm_2: Norm
    norm_3: Norm
    order: str = "pre"

    def __post_init__(self) -> None:
        _known_order(self.order)

    @classmethod
    def init(cls, d_model: int, n_heads: int, d_ff: int, *, order: str = "pre", seed: Seed = 0) -> DecoderBlock:
        """Xavier weights, norms that change nothing yet."""
        rng = generator(seed)
        return cls(
            MultiHeadAttention.init(d_model, n_heads, seed=rng), MultiHeadAttention.init(d_model, n_heads, seed=rng),
            FeedForward.init(d_model, d_ff, rng),
            LayerNorm.init(d_model), LayerNorm.init(d_model), LayerNorm.init(d_model), order,
        )  # fmt: skip

    @op(
        name="decoder_block",
        x="*B T d_model", context="*B Tk d_context",
        resid_attended="*B T d_model", resid_crossed="*B T d_model", resid_post="*B T d_model",
    )  # fmt: skip
    def __call__(
        self, x: Array, context: Array, *, context_mask: Any = None, context_cache: ContextCache | None = None,
        **rules: Any,
    ) -> Array:  # fmt: skip
        """`x` (..., T, d_model) after this layer.

        Parameters
        ----------
        x : (..., T, d_model) ndarray
        context : (..., Tk, d_context) ndarray
            What the encoder made of the other sequence.
        context_mask : bool array_like or Rule, optional
            Which rows of the context may be looked at.
        context_cache : ContextCache, optional
            Keeps the keys and values of the context for later calls.
        **rules
            Go to the self-attention: causal, mask, cache, ...
        """
        x, context = rows("x", x), rows("context", context, "(..., Tk, d_context)")
        pre = self.order == "pre"
        attended = self.self_attention(self.norm_1(x) if pre else x, **rules)
        resid_attended = x + attended if pre else self.norm_1(x + attended)
        entering = self.norm_2(resid_attended) if pre else resid_attended
        crossed = self.cross_attention(entering, context, mask=context_mask, context_cache=context_cache)
        resid_crossed = resid_attended + crossed if pre else self.norm_2(resid_attended + crossed)
        fed = self.feed_forward(self.norm_3(resid_crossed) if pre else resid_crossed)
        resid_post = resid_crossed + fed if pre else self.norm_3(resid_crossed + fed)
        return resid_post


def _known_order(order: str) -> None:
    if order not in ORDERS:
        raise ArgumentError("choice", name="order", choices=", ".join(ORDERS), value=order)
