"""Speculative decoding: somebody quick proposes tokens, and the model checks them all in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ...errors import ArgumentError
from ...io.tokens.tokenizer import Tokenizer
from ...ops.precision import Array
from . import sampling
from .asked import Asked, odds
from .prefix import PrefixCache

if TYPE_CHECKING:
    from ..decoder import Decoder

Proposal = tuple[int, Array]  # a token, and how likely each was to be proposed (vocab_size,)


class Drafter(Protocol):
    """Somebody who proposes tokens."""

    n_draft: int
    n_proposed: int
    n_accepted: int
    n_rounds: int

    def check(self, model: Decoder) -> None: ...

    def begin(self) -> Drafter: ...

    def propose(self, context: list[int], n: int, asked: Asked, rng: np.random.Generator) -> list[Proposal]: ...


@dataclass(eq=False)
class _Counts:
    """What all who draft have: how many tokens they propose at once, and what became of them."""

    n_draft: int = 4
    n_proposed: int = 0
    n_accepted: int = 0
    n_rounds: int = 0

    def __post_init__(self) -> None:
        whole = isinstance(self.n_draft, int | np.integer) and not isinstance(self.n_draft, bool) and self.n_draft >= 1
        if not whole:
            raise ArgumentError("number", name="n_draft", expected="an integer of at least 1", value=self.n_draft)

    @property
    def acceptance(self) -> float:
        """The share of the proposed tokens that were accepted; NaN before any was."""
        return self.n_accepted / self.n_proposed if self.n_proposed else float("nan")


class Draft(_Counts):
    """A smaller model that proposes.

    Parameters
    ----------
    model : Decoder
        With the vocabulary of the model that it proposes to.
    n_draft : int
        How many tokens at once.

    Attributes
    ----------
    n_proposed, n_accepted : int
        Counted over all calls.
    n_rounds : int
        How many passes of the model there were.
    acceptance : float

    Examples
    --------
    >>> import qkv
    >>> model = qkv.load("tests/data/tiny/llama")
    >>> draft = Draft(model, n_draft=3)  # of itself, it accepts all
    >>> model.generate([3, 1, 4, 1, 5], max_new_tokens=8, draft=draft)
    [40, 25, 60, 25, 60, 54, 60, 40]
    >>> draft.n_proposed, draft.acceptance
    (6, 1.0)
    """

    def __init__(self, model: Decoder, n_draft: int = 4) -> None:
        super().__init__(n_draft)
        self.model = model
        self._fits: Decoder | None = None

    def check(self, model: Decoder) -> None:
        """The vocabulary must be one and the same."""
        if self._fits is model:
            return
        size, other = model.settings.vocab_size, self.model.settings.vocab_size
        if size != other:
            raise ArgumentError("other_vocabulary", size=size, other_size=other)
        a, b = model.tokenizer, self.model.tokenizer
        if a is not None and b is not None and a is not b:
            for i, (token, other_token) in enumerate(zip(_spelled(a, size), _spelled(b, size))):
                if token != other_token:
                    raise ArgumentError("other_token", id=i)
        self._fits = model

    def begin(self) -> Draft:
        """A new sequence."""
        self._cache = PrefixCache(self.model).begin("draft")
        return self

    def propose(self, context: list[int], n: int, asked: Asked, rng: np.random.Generator) -> list[Proposal]:
        """The next tokens, each drawn as it would be if this model wrote alone; fewer where its positions end."""
        limit, ids, found = self.model.settings.n_positions, list(context), []
        for _ in range(n if limit is None else min(n, limit - len(context))):
            chances = odds(self._cache.logits(ids)[0], ids, asked)
            ids.append(sampling.drawn_from(chances, rng))
            found.append((ids[-1], chances))
        return found


class Lookup(_Counts):
    """Proposes what came after the last tokens when they stood in the text before: for texts that repeat themselves.

    Parameters
    ----------
    n_draft : int
        How many tokens at once.
    n_gram : int
        How many of the last tokens must have stood together before; fewer, down to one, where these did not.

    Attributes
    ----------
    n_proposed, n_accepted, n_rounds : int
    acceptance : float

    Examples
    --------
    >>> [token for token, _ in Lookup(n_draft=2).propose([7, 8, 9, 5, 7, 8], 2, Asked(), np.random.default_rng(0))]
    [9, 5]
    """

    def __init__(self, n_draft: int = 8, n_gram: int = 3) -> None:
        super().__init__(n_draft)
        self.n_gram = n_gram
        self._vocab_size = 0

    def check(self, model: Decoder) -> None:
        """Any vocabulary will do."""
        self._vocab_size = model.settings.vocab_size

    def begin(self) -> Lookup:
        """A new sequence."""
        return self

    def propose(self, context: list[int], n: int, asked: Asked, rng: np.random.Generator) -> list[Proposal]:
        """What followed the latest place of the longest of the last n-grams."""
        ids = np.array(context, np.intp)
        for length in range(min(self.n_gram, len(ids) - 1), 0, -1):
            earlier = np.lib.stride_tricks.sliding_window_view(ids[:-1], length)
            places = np.flatnonzero((earlier == ids[len(ids) - length :]).all(axis=1))
            if len(places):
                start = int(places[-1]) + length
                size = max(self._vocab_size, int(ids.max()) + 1)
                return [(token, np.eye(1, size, token)[0]) for token in context[start : start + n]]
        return []


def _spelled(tokenizer: Tokenizer, size: int) -> list[str | None]:
    """The tokens of a vocabulary; None for what only fills up a model's table."""
    return [tokenizer.tokens([i])[0] if tokenizer.knows(i) else None for i in range(size)]


def tokens(
    cache: PrefixCache, drafter: Drafter, context: list[int], asked: Asked, rng: np.random.Generator
) -> Iterator[int]:
    """The tokens of a model without end, by the proposals of another; distributed as the model's own.

    Notes
    -----
    Leviathan et al., arXiv 2211.17192, algorithm 1. At temperature 0 all probabilities are 0 or 1, and what comes out
    is the likeliest token each time.
    """
    ids, n_left = list(context), asked.max_new_tokens
    while True:
        n = max(0, min(drafter.n_draft, n_left - 1))  # the last token of a round is the model's own
        proposals = drafter.propose(ids, _alike(cache.model, len(ids), n), asked, rng)
        logits = cache.logits([*ids, *(token for token, _ in proposals)], len(proposals) + 1)
        found = _accepted(logits, ids, proposals, asked, rng)
        drafter.n_rounds += 1
        drafter.n_proposed += len(proposals)
        drafter.n_accepted += len(found) - 1
        ids, n_left = ids + found, n_left - len(found)
        yield from found


def _accepted(
    logits: Array, ids: list[int], proposals: Sequence[Proposal], asked: Asked, rng: np.random.Generator
) -> list[int]:
    """The proposals up to the first that is refused, and one token more, drawn so that none gains or loses by it."""
    found: list[int] = []
    for row, (token, q) in zip(logits, proposals):
        p = odds(row, [*ids, *found], asked)
        if rng.random() * q[token] >= p[token]:
            rest = np.maximum(p - q, 0)
            return [*found, sampling.drawn_from(rest if rest.any() else p, rng)]
        found.append(token)
    return [*found, sampling.drawn_from(odds(logits[-1], [*ids, *found], asked), rng)]


def _alike(model: Decoder, length: int, n: int) -> int:
    """How many more tokens are turned as those before them: only these can be checked in one pass."""
    while n and model.regime(length + n) != model.regime(length):
        n -= 1
    return n
