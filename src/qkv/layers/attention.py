"""Attention with weights: one head, many heads, grouped heads, heads over another sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..contract import op
from ..errors import ArgumentError, ShapeError
from ..ops import attention, rope, rope_tables
from ..ops.arguments import output_alone
from ..ops.precision import Array
from ..ops.scaling import DynamicNTK, LongRoPE, Scaling
from .cache import KVCache
from .context import ContextCache
from .linear import Joined, can_join, linear, plus, products
from .parts import Norm, Seed, generator, rows, sizes, xavier

Tables = tuple[Array, Array]


@dataclass(frozen=True)
class Rotary:
    """How queries and keys are turned by their positions: the settings of `rope` as one value.

    Attributes
    ----------
    base, layout, rotary_dim, scaling
        As in `rope`.
    """

    base: float = 10000.0
    layout: str = "half"
    rotary_dim: int | None = None
    scaling: Scaling | None = None

    @property
    def by_length(self) -> bool:
        """Whether it turns by the length of the whole sequence too."""
        return isinstance(self.scaling, DynamicNTK | LongRoPE)

    def regime(self, length: int) -> int:
        """Sequences of two lengths are turned alike if this is the same: some scalings depend on the length."""
        if isinstance(self.scaling, DynamicNTK):
            return max(length, self.scaling.original_length)
        return int(isinstance(self.scaling, LongRoPE) and length > self.scaling.original_length)

    def tables(self, positions: Array, d_k: int) -> Tables:
        """cos and sin for heads of that width, to turn the queries and keys of many layers by."""
        width = d_k if self.rotary_dim is None else self.rotary_dim
        if not (self.by_length and positions.ndim > 1):
            return rope_tables(positions, width, self.base, self.scaling)
        cos, sin = zip(*(rope_tables(row, width, self.base, self.scaling) for row in positions))
        return np.stack(cos), np.stack(sin)  # the length is that of each sequence, not of the longest

    def __call__(self, x: Array, positions: Array | Tables) -> Array:
        turning = positions if isinstance(positions, tuple) else self.tables(positions, x.shape[-1])
        return rope(x, turning, self.base, self.layout, self.rotary_dim, self.scaling)


@dataclass(eq=False)
class SelfAttention:
    """A single head: each token asks (q), offers (k) and gives (v), all three read from the token itself.

    Attributes
    ----------
    W_Q, W_K : (d_model, d_k) ndarray
    W_V : (d_model, d_v) ndarray

    Examples
    --------
    >>> head = SelfAttention.init(d_model=5, d_k=3, d_v=2, seed=42)
    >>> head(np.ones((7, 5))).shape
    (7, 2)
    """

    W_Q: Array
    W_K: Array
    W_V: Array

    @classmethod
    def init(cls, d_model: int, d_k: int, d_v: int | None = None, seed: Seed = 0) -> SelfAttention:
        """Xavier weights, drawn in the order W_Q, W_K, W_V."""
        sizes(d_model=d_model, d_k=d_k, d_v=d_v)
        rng = generator(seed)
        widths = (d_k, d_k, d_k if d_v is None else d_v)
        return cls(*(xavier(rng, d_model, width) for width in widths))

    @op(
        name="self_attention", kernel="attention",
        x="*B T d_model", Q="*B T d_k", K="*B T d_k", V="*B T d_v", output="*B T d_v",
    )  # fmt: skip
    def __call__(self, x: Array, **rules: Any) -> Array:
        """Attend from each row of `x` (..., T, d_model) to all of them; `rules` as in `attention`."""
        output_alone(rules)
        x = rows("x", x)
        Q = linear(x, self.W_Q)
        K = linear(x, self.W_K)
        V = linear(x, self.W_V)
        output = without_head(attention(one_head(Q), one_head(K), one_head(V), **rules))
        return output


@dataclass(eq=False)
class MultiHeadAttention:
    """Several heads beside each other, each in its own small space, then joined by W_O.

    Attributes
    ----------
    W_Q : (d_model, n_heads * d_k) ndarray
    W_K : (d_context, n_kv_heads * d_k) ndarray
    W_V : (d_context, n_kv_heads * d_v) ndarray
    W_O : (n_heads * d_v, d_model) ndarray
    n_heads : int
    n_kv_heads : int or None
        Fewer heads for keys and values: 1 is multi-query, anything between is grouped-query attention. None: n_heads.
    b_Q, b_K, b_V, b_O : ndarray or None
    rotary : Rotary or None
        Turns queries and keys by their positions.
    q_norm, k_norm : LayerNorm or RMSNorm, or None
        Norms of queries and keys before they are turned: of each head, or of all heads at once, as wide as they are.
    rules : dict
        What belongs to this layer of the arguments of `attention`: window, scale, softcap, bias, ...
    joined : Joined or None
        After `join`: W_Q, W_K and W_V as parts of one matrix.

    Notes
    -----
    MultiHead = Concat(head_1, ..., head_h) W_O (Vaswani et al., arXiv 1706.03762, section 3.2.2; grouped heads:
    Ainslie et al., arXiv 2305.13245). Heads are consecutive slices of the columns.

    Examples
    --------
    >>> layer = MultiHeadAttention.init(d_model=12, n_heads=3, seed=1)
    >>> layer(np.ones((2, 5, 12)), causal=True).shape
    (2, 5, 12)
    """

    W_Q: Array
    W_K: Array
    W_V: Array
    W_O: Array
    n_heads: int
    n_kv_heads: int | None = None
    b_Q: Array | None = None
    b_K: Array | None = None
    b_V: Array | None = None
    b_O: Array | None = None
    rotary: Rotary | None = None
    q_norm: Norm | None = None
    k_norm: Norm | None = None
    rules: dict[str, Any] = field(default_factory=dict)
    joined: Joined | None = field(default=None, init=False, repr=False)

    @classmethod
    def init(
        cls,
        d_model: int,
        n_heads: int,
        *,
        n_kv_heads: int | None = None,
        d_k: int | None = None,
        d_v: int | None = None,
        d_context: int | None = None,
        rotary: Rotary | None = None,
        seed: Seed = 0,
    ) -> MultiHeadAttention:
        """Xavier weights, drawn in the order W_Q, W_K, W_V, W_O; heads are d_model / n_heads wide by default."""
        sizes(d_model=d_model, n_heads=n_heads, n_kv_heads=n_kv_heads, d_k=d_k, d_v=d_v, d_context=d_context)
        if d_k is None:
            if d_model % n_heads:
                raise ArgumentError("divides", name="d_model", size=d_model, by="n_heads", by_size=n_heads)
            d_k = d_model // n_heads
        d_v = d_k if d_v is None else d_v
        n_kv = n_heads if n_kv_heads is None else n_kv_heads
        d_context = d_model if d_context is None else d_context
        rng = generator(seed)
        return cls(
            xavier(rng, d_model, n_heads * d_k), xavier(rng, d_context, n_kv * d_k),
            xavier(rng, d_context, n_kv * d_v), xavier(rng, n_heads * d_v, d_model),
            n_heads, n_kv_heads, rotary=rotary,
        )  # fmt: skip

    @classmethod
    def from_heads(cls, heads: Sequence[SelfAttention], W_O: Array) -> MultiHeadAttention:
        """The layer that computes what these single heads compute, joined by `W_O` (n_heads * d_v, d_model)."""
        sizes(heads=len(heads))
        W_Q, W_K, W_V = (np.concatenate([getattr(h, name) for h in heads], axis=1) for name in ("W_Q", "W_K", "W_V"))
        return cls(W_Q, W_K, W_V, W_O, len(heads))

    @op(
        name="multi_head_attention", kernel="attention",
        x="*B T d_model", context="*B Tk d_context", q="*B H T d_k", k="*B Hkv Tk d_k", v="*B Hkv Tk d_v",
        q_rot="*B H T d_k", k_rot="*B Hkv Tk d_k", joined="*B T H*d_v", output="*B T d_model",
    )  # fmt: skip
    def __call__(
        self,
        x: Array,
        context: Array | None = None,
        *,
        cache: KVCache | None = None,
        positions: Array | Tables | None = None,
        context_cache: ContextCache | None = None,
        **rules: Any,
    ) -> Array:
        """Attend from each row of `x` to the rows of `context`, or of `x` itself.

        Parameters
        ----------
        x : (..., T, d_model) ndarray
        context : (..., Tk, d_context) ndarray, optional
            The other sequence, in cross attention.
        cache : KVCache, optional
            Remembers the keys and values of earlier calls; `x` continues where they ended.
        positions : (T,) or (*B, T) ndarray, optional
            Where the rows stand, for `rotary`; by default 0, 1, ... or on from the cache. Or ready tables of it.
        context_cache : ContextCache, optional
            Keeps the keys and values of `context` for later calls with the same.
        **rules
            mask, bias, causal, window, offset, ...: as in `attention`; they come before the layer's own. With a cache
            the offset follows from it.

        Returns
        -------
        (..., T, d_model) ndarray
        """
        output_alone(rules)
        x = rows("x", x)
        source = x if context is None else rows("context", context, "(..., Tk, d_context)")
        q, k, v = self._own(x) if context is None else self._across(x, source, context_cache)
        if positions is None:
            positions = np.arange(x.shape[-2]) + (cache.n_seen if cache is not None else 0)
        q_rot = q if self.rotary is None else self.rotary(q, positions)
        k_rot = k if self.rotary is None else self.rotary(k, positions)
        keys, values = k_rot, v
        if cache is not None:
            keys, values, rules["offset"] = cache.append(k_rot, v)
        heads = attention(q_rot, keys, values, **{**self.rules, **rules})
        joined = merge_heads(heads)
        output = linear(joined, self.W_O, self.b_O)
        return output

    def join(self) -> None:
        """Keep W_Q, W_K and W_V side by side in memory, so that one product gives queries, keys and values."""
        if can_join(self.W_Q, self.W_K, self.W_V):
            self.joined = Joined(self.W_Q, self.W_K, self.W_V)
            self.W_Q, self.W_K, self.W_V = self.joined.parts

    def keys_values(self, source: Array) -> tuple[Array, Array]:
        """Keys (..., Hkv, Tk, d_k), not turned yet, and values (..., Hkv, Tk, d_v) of the rows (..., Tk, d_context)."""
        return self._keys(linear(source, self.W_K)), self._values(linear(source, self.W_V))

    def _own(self, x: Array) -> tuple[Array, Array, Array]:
        """Queries, keys and values of the same rows."""
        q, k, v = products(self.joined, x, self.W_Q, self.W_K, self.W_V)
        return self._queries(q), self._keys(k), self._values(v)

    def _across(self, x: Array, source: Array, cache: ContextCache | None) -> tuple[Array, Array, Array]:
        """Queries of the rows of one sequence, keys and values of another's."""
        keys_values = self.keys_values(source) if cache is None else cache.of(source, self.keys_values)
        return self._queries(linear(x, self.W_Q)), *keys_values

    def _queries(self, flat: Array) -> Array:
        return normed_heads(plus(flat, self.b_Q), self.n_heads, self.q_norm)

    def _keys(self, flat: Array) -> Array:
        return normed_heads(plus(flat, self.b_K), self.n_kv_heads or self.n_heads, self.k_norm)

    def _values(self, flat: Array) -> Array:
        return split_heads(plus(flat, self.b_V), self.n_kv_heads or self.n_heads)


def split_heads(x: Array, n_heads: int) -> Array:
    """(..., T, n_heads * d) -> (..., n_heads, T, d): each head is a run of columns.

    Examples
    --------
    >>> split_heads(np.arange(8).reshape(2, 4), 2)[1]
    array([[2, 3],
           [6, 7]])
    """
    if n_heads < 1 or x.shape[-1] % n_heads:
        raise ShapeError("divides", name="the width", size=x.shape[-1], by="n_heads", by_size=n_heads)
    return x.reshape(*x.shape[:-1], n_heads, x.shape[-1] // n_heads).swapaxes(-3, -2)


def normed_heads(x: Array, n_heads: int, norm: Norm | None) -> Array:
    """The heads of `x` (..., T, n_heads * d), through a norm of one head's width or of all heads' together."""
    if norm is None:
        return split_heads(x, n_heads)
    if norm.gamma.shape[-1] == x.shape[-1]:
        return split_heads(norm(x), n_heads)
    return norm(split_heads(x, n_heads))


def merge_heads(x: Array) -> Array:
    """(..., H, T, d) -> (..., T, H * d): the way back from `split_heads`.

    Examples
    --------
    >>> x = np.arange(8).reshape(2, 4)
    >>> (merge_heads(split_heads(x, 2)) == x).all()
    np.True_
    """
    swapped = x.swapaxes(-3, -2)
    return swapped.reshape(*swapped.shape[:-2], swapped.shape[-2] * swapped.shape[-1])


def one_head(x: Array) -> Array:
    """(..., T, d) with an axis for its single head; a matrix stays a matrix."""
    return x if x.ndim == 2 else x[..., None, :, :]


def without_head(x: Array) -> Array:
    """The way back from `one_head`."""
    return x if x.ndim == 2 else x[..., 0, :, :]
