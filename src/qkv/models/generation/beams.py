"""Beam search: the likeliest continuations beside each other, for the likeliest token may lead to an unlikely text."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ...ops import log_softmax
from ...ops.precision import Array
from . import sampling
from .asked import Asked
from .run import Run

if TYPE_CHECKING:
    from ..decoder import Decoder
    from .answer_run import AnswerRun


@dataclass(frozen=True)
class Beam:
    """A continuation.

    Attributes
    ----------
    ids : list of int
        Without the token that ended it.
    score : float
        The sum of the log-probabilities of its tokens; once it is finished, divided by length ** length_penalty.
    """

    ids: list[int]
    score: float


def search(model: Decoder, prompts: Sequence[list[int]], asked: Asked, kv_dtype: str | None = None) -> list[list[Beam]]:
    """The best continuations of each prompt, best first: see `search_in`."""
    return search_in(Run(model, kv_dtype), prompts, asked, model.end_ids)


def search_in(
    run: Run | AnswerRun, prompts: Sequence[list[int]], asked: Asked, end_ids: Collection[int]
) -> list[list[Beam]]:
    """The best continuations of each prompt, best first.

    Notes
    -----
    A finished continuation of n tokens, end included, has the score (log p_1 + ... + log p_n) / n ** length_penalty.
    That power alone is what transformers has; Wu et al., arXiv 1609.08144, section 7, divide by ((5 + n) / 6) ** alpha.
    Of the n_beams * max(2, 1 + number of ends) best candidates of a step, those among the first n_beams that end are
    finished, and the first n_beams of the others go on. `early_stopping` says when it is over, once n_beams are
    finished: True, at once; False, when the best that goes on, divided by the power of its own length, is no better
    than the worst finished; "never", when it is not even if divided by that of max_new_tokens (length_penalty above 0).
    """
    searches = [_Search(prompt) for prompt in prompts]
    for n in range(1, asked.max_new_tokens + 1):
        going = [search for search in searches if search.live]
        if not going:
            break
        contexts = [search.prompt + beam.ids for search in going for beam in search.live]
        scores = log_softmax(run.logits(contexts).astype(np.float64))
        members, first = [], 0
        for search in going:
            own = scores[first : first + len(search.live)]
            came_from = search.grow(own, asked, end_ids, n)
            members += [first + i for i in came_from]
            first += len(own)
        if members:
            run.select(members)
    return [search.finished or search.live for search in searches]


@dataclass
class _Search:
    """The search for the continuation of one prompt."""

    prompt: list[int]
    live: list[Beam] = field(default_factory=lambda: [Beam([], 0.0)])
    finished: list[Beam] = field(default_factory=list)

    def grow(self, scores: Array, asked: Asked, end_ids: Collection[int], n: int) -> list[int]:
        """Add the n-th token, given the log-probabilities (n_live, vocab_size); which beam each one goes on from."""
        rows = [self._penalised(row, beam, asked) + beam.score for row, beam in zip(scores, self.live)]
        totals = np.concatenate(rows)
        live: list[Beam] = []
        came_from: list[int] = []
        for place, index in enumerate(_largest(totals, max(2, 1 + len(end_ids)) * asked.n_beams)):
            parent, token = divmod(index, scores.shape[1])
            ids, total = self.live[parent].ids, float(totals[index])
            if token in end_ids or n == asked.max_new_tokens:
                if place < asked.n_beams:
                    ended = ids if token in end_ids else [*ids, token]
                    self.finished.append(Beam(ended, total / n**asked.length_penalty))
            elif len(live) < asked.n_beams:
                live.append(Beam([*ids, token], total))
                came_from.append(parent)
        self.finished = sorted(self.finished, key=lambda beam: -beam.score)[: asked.n_beams]
        self.live = live
        if self._is_over(asked, n):
            self.live, came_from = [], []
        return came_from

    def _penalised(self, scores: Array, beam: Beam, asked: Asked) -> Array:
        if asked.repetition_penalty == 1:
            return scores
        return sampling.repetition_penalty(scores, {*self.prompt, *beam.ids}, asked.repetition_penalty)

    def _is_over(self, asked: Asked, n: int) -> bool:
        if len(self.finished) < asked.n_beams:
            return False
        longest = asked.early_stopping == "never" and asked.length_penalty > 0
        hoped_for = max((beam.score for beam in self.live), default=-np.inf)
        hoped_for /= (asked.max_new_tokens if longest else n) ** asked.length_penalty
        return asked.early_stopping is True or hoped_for <= self.finished[-1].score


def _largest(x: Array, n: int) -> list[int]:
    """The places of the n largest, largest first."""
    places = np.arange(len(x)) if n >= len(x) else np.argpartition(-x, n - 1)[:n]
    found: list[int] = places[np.argsort(-x[places], kind="stable")].tolist()
    return found
