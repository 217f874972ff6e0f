"""A decoder's two ends: from token ids to vectors, and from a vector to a number for each token."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..contract import op
from ..errors import ArgumentError
from ..layers.linear import linear
from ..layers.narrow import wide
from ..layers.parts import Norm
from ..ops.precision import Array


@dataclass(eq=False)
class TokenEmbeddings:
    """A vector for each token, and for its position where that is learnt.

    Attributes
    ----------
    W_word : (vocab_size, d_model) ndarray
    W_position : (n_positions, d_model) ndarray or None
    norm : LayerNorm, RMSNorm or None
    scale : float or None
        What the vectors of the tokens are multiplied with.
    """

    W_word: Array
    W_position: Array | None = None
    norm: Norm | None = None
    scale: float | None = None

    @op(
        name="token_embeddings", path="embeddings",
        word="*B T d_model", position="*A T d_model", summed="*B T d_model", out="*B T d_model",
    )  # fmt: skip
    def __call__(self, ids: Array, positions: Array) -> Array:
        """Vectors (..., T, d_model) of `ids` (..., T) at `positions` (T,) or (..., T)."""
        found = wide(self.W_word[ids])
        word = found if self.scale is None else found * found.dtype.type(self.scale)
        position = None if self.W_position is None else wide(self.W_position[np.maximum(positions, 0)])
        summed = word if position is None else word + position
        out = summed if self.norm is None else self.norm(summed)
        return out


@dataclass(eq=False)
class Head:
    """From the last vector of a token to a number for each token that may follow.

    Attributes
    ----------
    W : (d_model, vocab_size) ndarray or None
        None: the model came without one, and gives hidden states alone.
    softcap : float or None
    b : (vocab_size,) ndarray or None
    scale : float or None
        What the vectors are multiplied with before.
    """

    W: Array | None
    softcap: float | None = None
    b: Array | None = None
    scale: float | None = None

    @op(name="head", hidden="*B d_model", logits="*B vocab_size")
    def __call__(self, hidden: Array) -> Array:
        entering = hidden if self.scale is None else hidden * hidden.dtype.type(self.scale)
        raw = linear(entering, self.matrix(), self.b)
        c = raw.dtype.type(self.softcap or 1)
        logits = raw if self.softcap is None else c * np.tanh(raw / c)
        return logits

    def matrix(self) -> Array:
        """W, where there is one."""
        if self.W is None:
            raise ArgumentError("no_head")
        return self.W
