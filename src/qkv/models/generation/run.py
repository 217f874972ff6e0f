"""Sequences in a model: their caches, which only read what is new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...contract import step
from ...layers import KVCache
from ...ops.precision import Array
from ..inputs import left_padded
from .sampling import finite

if TYPE_CHECKING:
    from ..decoder import Decoder


class Caches(list[KVCache]):
    """The caches of all layers of a model, from `model.new_caches()`.

    Examples
    --------
    >>> caches = Caches([KVCache(), KVCache()])
    >>> _ = [cache.append(np.ones((1, 5, 4)), np.ones((1, 5, 4))) for cache in caches]
    >>> caches.n_seen, caches.nbytes
    (5, 640)
    """

    @property
    def n_seen(self) -> int:
        """How many positions have passed through."""
        return self[0].n_seen if self else 0

    @property
    def nbytes(self) -> int:
        """The memory that they take together, in bytes."""
        return sum(cache.nbytes for cache in self)

    def truncate(self, length: int) -> None:
        """Forget the newest positions, so that `length` are left: see `KVCache.truncate`."""
        for cache in self:
            cache.truncate(length)

    def select(self, members: Array) -> None:
        """Go on with these members of the batch: see `KVCache.select`."""
        for cache in self:
            cache.select(members)


class Run:
    """A batch in the model: its caches, and the padding before each row.

    Parameters
    ----------
    model : Decoder
    kv_dtype : {"float16", "int8"} or None
        See `KVCache`.
    """

    def __init__(self, model: Decoder, kv_dtype: str | None = None) -> None:
        self._model, self._kv_dtype = model, kv_dtype
        self._caches = Caches()
        self._starts: Array | None = None
        self._lengths: list[int] = []
        self._id, self._n_steps = object(), 0

    def logits(self, contexts: Sequence[Sequence[int]]) -> Array:
        """The logits (B, vocab_size) after the last token of each row; rows that only grew go on where they were."""
        with step(self._id, self._n_steps):
            self._n_steps += 1
            if self._can_go_on([len(context) for context in contexts]):
                return self._last(np.array([context[-1] for context in contexts], np.intp)[:, None])
            ids, starts = left_padded([np.array(context, np.intp) for context in contexts])
            self._caches, self._starts = self._model.new_caches(self._kv_dtype), starts if starts.any() else None
            self._lengths = [len(context) for context in contexts]
            return self._last(ids)

    def select(self, members: Sequence[int]) -> None:
        """Go on with these rows, in this order; one may come several times."""
        if list(members) == list(range(len(self._lengths))):
            return
        places = np.array(members, np.intp)
        self._caches.select(places)
        self._starts = None if self._starts is None else self._starts[places]
        self._lengths = [self._lengths[i] for i in members]

    def _can_go_on(self, lengths: Sequence[int]) -> bool:
        """Whether each row only grew by one token, which is turned as those before it were."""
        grown, regime = [length + 1 for length in self._lengths], self._model.regime
        if list(lengths) != grown or not all(regime(length - 1) == regime(length) for length in lengths):
            return False
        self._lengths = grown
        return True

    def _last(self, ids: Array) -> Array:
        hidden = self._model.forward(ids, self._caches, self._starts)
        return finite(self._model.head(hidden[:, -1]))
