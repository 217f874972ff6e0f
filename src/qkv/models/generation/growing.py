"""Sequences that grow beside each other, and what of them is given out: whole, or piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...io.tokens.tokenizer import Tokenizer
from ...ops.precision import Array
from .asked import Asked, pick
from .beams import Beam
from .text import Writer


@dataclass(eq=False)
class Growing:
    """One sequence of a batch.

    Attributes
    ----------
    ids : list of int
        All tokens: those that it began with, and what came.
    rng : Generator
        In a batch, each is drawn as it would be alone.
    as_text : bool
        Whether text is given out, not ids.
    writer : Writer or None
        Where it is to be text, or to stop at some.
    new : list of int
        What came.
    pieces : list of str
        The text of it, as far as it is certain.
    done : bool
    """

    ids: list[int]
    rng: np.random.Generator
    as_text: bool
    writer: Writer | None
    new: list[int] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    done: bool = False

    @classmethod
    def begin(cls, ids: Array, asked: Asked, as_text: bool, tokenizer: Tokenizer | None) -> Growing:
        """A sequence that begins with `ids`; without a `tokenizer` there is no text to give out or to stop at."""
        begun: list[int] = ids.tolist()
        writer = None if tokenizer is None else Writer(tokenizer, begun, asked.stop)
        return cls(begun, np.random.default_rng(asked.seed), as_text, writer)

    @property
    def given_out(self) -> Sequence[Any]:
        return self.pieces if self.as_text else self.new

    def take(self, token: int, is_end: bool) -> None:
        """One more token; a sequence that is done takes none."""
        if self.done or is_end:
            self.done = True
            return
        self.ids.append(token)
        self.new.append(token)
        if self.writer is not None:
            self.pieces.append(self.writer.add(token))
            self.done = self.writer.stopped

    def finish(self) -> None:
        """Nothing will come any more: the text that was held back is certain now."""
        if self.writer is not None:
            self.pieces.append(self.writer.finish())


def whole(sequences: Sequence[Growing], steps: Iterator[None]) -> list[Any]:
    """What came of each, once all steps are done."""
    for _ in steps:
        pass
    for one in sequences:
        one.finish()
    return ["".join(one.pieces) if one.as_text else one.new for one in sequences]


def piece_by_piece(one: Growing, steps: Iterator[None]) -> Iterator[Any]:
    """What comes of one sequence, after each step."""
    given = 0
    for _ in steps:
        yield from (piece for piece in one.given_out[given:] if piece != "")
        given = len(one.given_out)
    one.finish()
    if one.as_text and one.pieces[-1]:
        yield one.pieces[-1]


def one_by_one(
    logits: Callable[[list[list[int]]], Array], sequences: Sequence[Growing], asked: Asked, end_ids: Collection[int],
    limit: int | None = None,
) -> Iterator[None]:  # fmt: skip
    """One token for each at every step, from the `logits` of what is read; one that is done goes along until all are.

    Where they become longer than `limit`, only the newer half of it is read.
    """
    contexts = [list(one.ids) for one in sequences]
    for _ in range(asked.max_new_tokens):
        contexts = [_fitted(context, limit) for context in contexts]
        for one, context, last in zip(sequences, contexts, logits(contexts)):
            context.append(pick(last, one.ids, asked, one.rng))
            one.take(context[-1], context[-1] in end_ids)
        yield
        if all(one.done for one in sequences):
            return


def best(sequences: Sequence[Growing], found: Sequence[list[Beam]]) -> Iterator[None]:
    """The best of the beams of each, all at once."""
    for one, beams in zip(sequences, found):
        for token in beams[0].ids:
            one.take(token, is_end=False)
    yield


def _fitted(ids: list[int], limit: int | None) -> list[int]:
    return ids if limit is None or len(ids) <= limit else ids[-max(1, limit - limit // 2) :]
