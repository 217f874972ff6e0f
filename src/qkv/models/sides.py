"""The two sides of an encoder-decoder: one reads or hears the source, the other writes and looks at it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..contract import op
from ..layers import Block, Convolution, DecoderBlock, KVCache
from ..layers.parts import Norm
from ..ops import gelu, masks
from ..ops.masks import Rule
from ..ops.precision import Array
from .source import Source
from .vocabulary import TokenEmbeddings


@dataclass(eq=False)
class AudioEmbeddings:
    """A vector for every second frame of sound, and for its position.

    Attributes
    ----------
    convolution_1, convolution_2 : Convolution
        The second has stride 2.
    W_position : (n_positions, d_model) ndarray

    Notes
    -----
    Radford et al., arXiv 2212.04356, section 2.2.
    """

    convolution_1: Convolution
    convolution_2: Convolution
    W_position: Array

    @op(
        name="audio_embeddings", path="embeddings",
        heard="*B frames d_model", halved="*B T d_model", out="*B T d_model",
    )  # fmt: skip
    def __call__(self, features: Array, positions: Array) -> Array:
        """Vectors (..., T, d_model) of features (..., frames, n_mels); the positions follow from their number."""
        heard = gelu(self.convolution_1(features))
        halved = gelu(self.convolution_2(heard))
        out = halved + self.W_position[: halved.shape[-2]]
        return out


@dataclass(eq=False)
class SourceEncoder:
    """The side that reads the source, in both directions.

    Attributes
    ----------
    embeddings : TokenEmbeddings or AudioEmbeddings
    layers : list of Block
    norm : LayerNorm, RMSNorm or None
    """

    embeddings: TokenEmbeddings | AudioEmbeddings
    layers: list[Block]
    norm: Norm | None

    @op(name="source_encoder", path="encoder", out="*B Tk d_model")
    def __call__(self, given: Array, mask: Rule | None = None) -> Array:
        """Hidden states (..., Tk, d_model) of ids (..., Tk), or of features (..., frames, n_mels); unchecked."""
        x = self.embeddings(given, np.arange(given.shape[-1]))
        for layer in self.layers:
            x = layer(x, mask=mask)
        out = x if self.norm is None else self.norm(x)
        return out


@dataclass(eq=False)
class TargetDecoder:
    """The side that writes: each token looks back at those before it, and at the whole source.

    Attributes
    ----------
    embeddings : TokenEmbeddings
    layers : list of DecoderBlock
    norm : LayerNorm, RMSNorm or None
    """

    embeddings: TokenEmbeddings
    layers: list[DecoderBlock]
    norm: Norm | None

    @op(name="target_decoder", path="decoder", ids="*B T", out="*B T d_model")
    def __call__(
        self, ids: Array, source: Source, caches: Sequence[KVCache] | None = None, starts: Array | None = None
    ) -> Array:
        """Hidden states after the last norm, unchecked.

        Parameters
        ----------
        ids : (..., T) ndarray of int
        source : Source
        caches : sequence of KVCache, optional
            One per layer: `ids` continue what they remember.
        starts : (...) ndarray of int, optional
            How much padding stands on the left of each sequence.

        Returns
        -------
        (..., T, d_model) ndarray
        """
        seen = caches[0].n_seen if caches else 0
        positions = np.arange(seen, seen + ids.shape[-1])
        padding = None if starts is None else ~masks.padding(starts)
        x = self.embeddings(ids, positions if starts is None else positions - starts[..., None])
        for i, layer in enumerate(self.layers):
            x = layer(
                x, source.hidden, context_mask=source.mask, context_cache=source.kept[i],
                causal=ids.shape[-1] > 1, cache=caches[i] if caches else None, mask=padding,
            )  # fmt: skip
        out = x if self.norm is None else self.norm(x)
        return out
