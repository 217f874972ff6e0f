"""Continuing a text: one token after the other, each from the logits of the last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ArgumentError
from ...io.gguf.tokenizer import tokenizer_of
from ...layers.kept import PACKINGS
from ...ops.precision import Array
from . import beams, drafting
from .asked import Asked, pick
from .prefix import PrefixCache
from .run import Run
from .text import Writer

if TYPE_CHECKING:
    from ..decoder import Decoder

__all__ = ["Asked", "Means", "generate", "pick", "stream"]


@dataclass
class Means:
    """With what to continue: none of it changes the result, but for the rounding of `kv_dtype`.

    Attributes
    ----------
    draft : Draft, Lookup or None
        Who proposes tokens for the model to check several at once.
    cache : PrefixCache or None
        What the model has read before.
    kv_dtype : {"float16", "int8"} or None
        How keys and values are kept: see `KVCache`.
    """

    draft: drafting.Drafter | None = None
    cache: PrefixCache | None = None
    kv_dtype: str | None = None

    def __post_init__(self) -> None:
        if self.kv_dtype is not None and self.kv_dtype not in PACKINGS:
            raise ArgumentError("choice", name="kv_dtype", choices=", ".join((*PACKINGS, "None")), value=self.kv_dtype)

    def check(self, model: Decoder, n_sequences: int, asked: Asked) -> None:
        """All of it fits the model, what is asked for, and each other."""
        for name, other, given in (
            ("draft", "slide", asked.slide), ("draft", "n_beams", asked.n_beams > 1),
            ("cache", "kv_dtype", self.kv_dtype is not None), ("cache", "n_beams", asked.n_beams > 1),
        ):  # fmt: skip
            if given and getattr(self, name) is not None:
                raise ArgumentError("together", one=name, other=other)
        if self.cache is not None:
            self.cache.check(model)
            if n_sequences > 1:
                raise ArgumentError("model_input", name="the input", expected="one prompt, for it has a cache",
                                    what="a list")  # fmt: skip
        if self.draft is not None:
            self.draft.check(model)


@dataclass
class _Row:
    """One sequence of a batch: what it was given, what came, what is left of it in the caches."""

    prompt: list[int]
    rng: np.random.Generator
    writer: Writer | None
    new: list[int] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    context: list[int] = field(default_factory=list)
    done: bool = False

    def take(self, token: int, is_end: bool) -> None:
        if is_end:
            self.done = True
            return
        self.new.append(token)
        if self.writer is not None:
            self.pieces.append(self.writer.add(token))
            self.done = self.writer.stopped

    def finish(self) -> None:
        if self.writer is not None:
            self.pieces.append(self.writer.finish())


def generate(model: Decoder, sequences: Sequence[Array], asked: Asked, as_text: bool, means: Means) -> list[Any]:
    """The continuation of each sequence, computed together."""
    rows = _rows(model, sequences, asked, as_text, means)
    for _ in _steps(model, rows, asked, means):
        pass
    for row in rows:
        row.finish()
    return ["".join(row.pieces) if as_text else row.new for row in rows]


def stream(model: Decoder, sequence: Array, asked: Asked, as_text: bool, means: Means) -> Iterator[Any]:
    """The continuation of one sequence, piece by piece."""
    rows = _rows(model, [sequence], asked, as_text, means)  # what is wrong is said before the first piece is asked for
    return _pieces(model, rows, asked, as_text, means)


def _pieces(model: Decoder, rows: list[_Row], asked: Asked, as_text: bool, means: Means) -> Iterator[Any]:
    row, given = rows[0], 0
    for _ in _steps(model, rows, asked, means):
        found: Sequence[Any] = row.pieces if as_text else row.new
        yield from (piece for piece in found[given:] if piece != "")
        given = len(found)
    row.finish()
    if as_text and row.pieces[-1]:
        yield row.pieces[-1]


def _rows(model: Decoder, sequences: Sequence[Array], asked: Asked, as_text: bool, means: Means) -> list[_Row]:
    means.check(model, len(sequences), asked)
    limit = model.settings.n_positions
    for ids in sequences:
        if limit is not None and not asked.slide and len(ids) + asked.max_new_tokens > limit:
            raise ArgumentError("too_long_to_go_on", size=len(ids), new=asked.max_new_tokens, limit=limit)
    tokenizer = model.tokenizer
    if tokenizer is None and (as_text or asked.stop):
        tokenizer = tokenizer_of(model.directory or Path())
    return [
        _Row(
            ids.tolist(), np.random.default_rng(asked.seed),
            Writer(tokenizer, ids.tolist(), asked.stop) if tokenizer and (as_text or asked.stop) else None,
            context=_fitted(ids.tolist(), limit),
        )
        for ids in sequences
    ]  # fmt: skip


def _steps(model: Decoder, rows: list[_Row], asked: Asked, means: Means) -> Iterator[None]:
    """Give every row its next tokens, again and again."""
    if asked.n_beams > 1:
        return _best(model, rows, asked, means)
    if means.draft is not None:
        return _drafted(model, rows, asked, means)
    return _one_by_one(model, rows, asked, means)


def _one_by_one(model: Decoder, rows: list[_Row], asked: Asked, means: Means) -> Iterator[None]:
    """One token for every row at each step; a row that has ended goes along until all have."""
    limit, run = model.settings.n_positions, Run(model, means.kv_dtype)
    cache = None if means.cache is None else means.cache.begin()
    for _ in range(asked.max_new_tokens):
        for row in rows:
            row.context = _fitted(row.context, limit)
        logits = run.logits([row.context for row in rows]) if cache is None else cache.logits(rows[0].context)
        for row, last in zip(rows, logits):
            token = pick(last, row.prompt + row.new, asked, row.rng)
            if not row.done:
                row.take(token, token in model.end_ids)
            row.context.append(token)
        yield
        if all(row.done for row in rows):
            return


def _drafted(model: Decoder, rows: list[_Row], asked: Asked, means: Means) -> Iterator[None]:
    """One row after the other, for in each another number of proposals is accepted."""
    assert means.draft is not None
    for row in rows:
        cache = (PrefixCache(model, means.kv_dtype) if means.cache is None else means.cache).begin()
        tokens = drafting.tokens(cache, means.draft.begin(), row.context, asked, row.rng)
        for _, token in zip(range(asked.max_new_tokens), tokens):
            row.take(token, token in model.end_ids)
            yield
            if row.done:
                break


def _best(model: Decoder, rows: list[_Row], asked: Asked, means: Means) -> Iterator[None]:
    """All that beams have found, at once."""
    found = beams.search(model, [row.context for row in rows], asked, means.kv_dtype)
    for row, best in zip(rows, found):
        for token in best[0].ids:
            row.take(token, is_end=False)
    yield


def _fitted(ids: list[int], limit: int | None) -> list[int]:
    """The newer half, where they are more than the model has positions."""
    return ids if limit is None or len(ids) <= limit else ids[-max(1, limit - limit // 2) :]
