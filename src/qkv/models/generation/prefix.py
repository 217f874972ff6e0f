"""What a model has read, kept for the next call: only what is new is computed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...contract import is_edited, step
from ...errors import ArgumentError
from ...ops.precision import Array
from .sampling import finite

if TYPE_CHECKING:
    from ..decoder import Decoder


class PrefixCache:
    """The keys and values of the last sequence, from which the next call takes the tokens that both begin with.

    Parameters
    ----------
    model : Decoder
    kv_dtype : {"float16", "int8"} or None
        Keep them in fewer bits: see `KVCache`.

    Attributes
    ----------
    n_reused : int
        How many tokens of the last prompt were not computed again.
    n_computed : int
        How many were.

    Notes
    -----
    Layers with a window keep all here, for a later call may go back to any place. Nothing that was computed under
    `qkv.edit` is reused, and under one nothing is reused either: there the whole prompt is computed.

    Examples
    --------
    >>> import qkv
    >>> model = qkv.load("tests/data/tiny/llama")
    >>> cache = PrefixCache(model)
    >>> model.generate([3, 1, 4, 1, 5], max_new_tokens=4, cache=cache)
    [40, 25, 60, 25]
    >>> model.generate([3, 1, 4, 1, 5, 40, 25, 7], max_new_tokens=2, cache=cache)
    [28, 47]
    >>> cache.n_reused, cache.n_computed
    (7, 1)
    """

    def __init__(self, model: Decoder, kv_dtype: str | None = None) -> None:
        self.model, self.kv_dtype, self._one = model, kv_dtype, threading.Lock()
        self.clear()
        self.begin()

    @property
    def ids(self) -> list[int]:
        """The tokens that it holds. The last token of an answer is not among them: nothing was read after it."""
        return list(self._ids)

    @property
    def length(self) -> int:
        """How many tokens it holds."""
        return len(self._ids)

    @property
    def nbytes(self) -> int:
        """The memory that it takes, in bytes."""
        return self._caches.nbytes

    def clear(self) -> None:
        """Forget all."""
        self._ids: list[int] = []
        self._caches = self.model.new_caches(self.kv_dtype, forget=False)
        self._is_edited = False

    def begin(self, name: str = "step") -> PrefixCache:
        """A new sequence: what is counted, and the paths `<name>.0`, `<name>.1`, ... start again."""
        self._name, self._run, self._n_steps = name, object(), 0
        self.n_reused = self.n_computed = 0
        return self

    def logits(self, ids: Sequence[int], n: int = 1) -> Array:
        """The logits (n, vocab_size) after each of the last `n` tokens of `ids`, with what is held already."""
        with self._one:  # threads that share it take turns
            return self._logits(ids, n)

    def _logits(self, ids: Sequence[int], n: int) -> Array:
        if self._n_steps == 0 and (self._is_edited or is_edited()):
            self.clear()
        n_reused = min(_common(self._ids, ids), len(ids) - n)
        if not self._fits(n_reused, len(ids)):
            n_reused = 0
        if self._n_steps == 0:
            self.n_reused, self.n_computed = n_reused, len(ids) - n_reused
        if n_reused == 0:
            self.clear()
        self._caches.truncate(n_reused)
        self._ids, self._is_edited = list(ids[:n_reused]), self._is_edited or is_edited()
        with step(self._run, self._n_steps, self._name):
            self._n_steps += 1
            hidden = self.model.forward(np.array(ids[n_reused:], np.intp), self._caches)
            self._ids = list(ids)  # an error on the way leaves fewer than the caches hold, never more
            return finite(self.model.head(hidden[-n:]))

    def _fits(self, n_reused: int, length: int) -> bool:
        """Whether all that is held was turned as a sequence of that length is."""
        regime = self.model.regime
        return regime(len(self._ids)) == regime(n_reused) == regime(length)

    def check(self, model: object) -> None:
        """It belongs to one model."""
        if model is not self.model:
            what = "one of another model"
            raise ArgumentError("model_input", name="cache", expected="a PrefixCache of this model", what=what)


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    """How many items two sequences begin with alike.

    Examples
    --------
    >>> _common([1, 2, 3], [1, 2, 4, 3])
    2
    """
    least = min(len(a), len(b))
    if a[:least] == b[:least]:  # a sequence that only grew, as at each step: not token by token
        return least
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), least)
