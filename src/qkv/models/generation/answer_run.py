"""Answers that grow beside each other, each to its own source: what a loop or a search over tokens asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...contract import step
from ...io.target import Target
from ...ops.precision import Array
from ..inputs import left_padded
from ..source import Source
from .sampling import finite

if TYPE_CHECKING:
    from ..seq2seq import EncoderDecoder


class AnswerRun:
    """A batch of answers in the decoder, with the caches of what they have written.

    Parameters
    ----------
    model : EncoderDecoder
    source : Source
    """

    def __init__(self, model: EncoderDecoder, source: Source) -> None:
        self._model, self._all = model, source.batched()
        self._source, self._origin = self._all, np.arange(len(self._all.hidden))
        self._caches = model.new_caches()
        self._starts: Array | None = None
        self._id, self._n_steps = object(), 0

    def logits(self, contexts: Sequence[Sequence[int]]) -> Array:
        """The logits (B, vocab_size) after the last token of each answer; each has grown by one token since last time.

        What the model's files say is never written, or not as the first token, is -inf.
        """
        if self._n_steps == 0:
            ids, starts = left_padded([np.array(context, np.intp) for context in contexts])
            self._starts = starts if starts.any() else None
        else:
            ids = np.array([context[-1] for context in contexts], np.intp)[:, None]
        with step(self._id, self._n_steps):
            hidden = self._model.decoder(ids, self._source, self._caches, self._starts)
            logits = self._model.head(hidden[:, -1])
        self._n_steps += 1
        return finite(allowed(logits, self._model.target, first=self._n_steps == 1))

    def select(self, members: Sequence[int]) -> None:
        """Go on with these answers, in this order; one may come several times."""
        places = np.array(members, np.intp)
        self._caches.select(places)
        self._starts = None if self._starts is None else self._starts[places]
        origin = self._origin[places]
        if origin.tolist() != self._origin.tolist():
            self._source, self._origin = self._all.select(origin), origin


def allowed(logits: Array, target: Target, first: bool) -> Array:
    """Logits (B, vocab_size) with -inf for what is not to be written here.

    Examples
    --------
    >>> allowed(np.array([[3.0, 2.0, 1.0]]), Target(never=frozenset([0]), first=2), first=False)
    array([[-inf,   2.,   1.]])
    >>> allowed(np.array([[3.0, 2.0, 1.0]]), Target(never=frozenset([0]), first=2), first=True)
    array([[-inf, -inf,   1.]])
    """
    if first and target.first is not None:
        hidden = np.arange(logits.shape[1]) != target.first
    else:
        never = target.never | (target.never_first if first else frozenset())
        hidden = np.isin(np.arange(logits.shape[1]), list(never))
    return np.where(hidden, logits.dtype.type(-np.inf), logits)
