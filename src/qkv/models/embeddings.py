"""Where an encoder begins: a vector for each token, of its word, its position and its segment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..contract import op
from ..layers.linear import linear
from ..layers.narrow import wide
from ..layers.parts import Norm
from ..ops.precision import Array


@dataclass(eq=False)
class Embeddings:
    """A vector for each token: which word it is, where it stands, to which segment it belongs.

    Attributes
    ----------
    W_word : (vocab_size, d_embedding) ndarray
    W_position : (n_rows, d_embedding) ndarray or None
        None: the layers turn queries and keys by their positions instead.
    W_type : (n_types, d_embedding) ndarray or None
    norm : LayerNorm or None
    W_project, b_project : (d_embedding, d_model), (d_model,) ndarray or None
        Makes the vectors as wide as the layers, where they are not (ELECTRA).
    padding_id : int or None
        Positions are counted from the row after this one, without the tokens of this id (RoBERTa). None: from row 0.

    Examples
    --------
    >>> Embeddings(np.eye(7), np.zeros((6, 7)), padding_id=1).rows(np.array([0, 5, 1, 6]))
    array([2, 3, 1, 4])
    """

    W_word: Array
    W_position: Array | None = None
    W_type: Array | None = None
    norm: Norm | None = None
    W_project: Array | None = None
    b_project: Array | None = None
    padding_id: int | None = None

    @op(
        name="embeddings",
        word="*B T d_embedding", position="*A T d_embedding", segment="*B T d_embedding", summed="*B T d_embedding",
        out="*B T d_model",
    )  # fmt: skip
    def __call__(self, ids: Array, types: Array | None = None) -> Array:
        """Vectors (..., T, d_model) of `ids` (..., T); `types` (..., T) are the segments, 0 by default."""
        word = wide(self.W_word[ids])
        position = None if self.W_position is None else wide(self.W_position[self.rows(ids)])
        kinds = np.zeros_like(ids) if types is None else types
        segment = None if self.W_type is None else wide(self.W_type[kinds])
        placed = word if segment is None else word + segment
        summed = placed if position is None else placed + position
        normed = summed if self.norm is None else self.norm(summed)
        out = normed if self.W_project is None else linear(normed, self.W_project, self.b_project)
        return out

    def rows(self, ids: Array) -> Array:
        """The row of the table of positions for each of `ids` (..., T)."""
        if self.padding_id is None:
            return np.arange(ids.shape[-1])
        counted = ids != self.padding_id
        return np.where(counted, counted.cumsum(axis=-1), 0) + self.padding_id
