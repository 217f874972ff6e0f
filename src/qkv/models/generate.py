"""Continuing a text: one token after the other, each from the logits of the last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ArgumentError
from ..io.gguf_tokenizer import tokenizer_of
from ..layers import KVCache
from ..ops.precision import Array
from . import sampling
from .inputs import left_padded
from .text import Writer

if TYPE_CHECKING:
    from .decoder import Decoder


@dataclass(frozen=True)
class Asked:
    """How to continue.

    Attributes
    ----------
    max_new_tokens : int
    temperature : float
        0: always the likeliest token. Otherwise one is drawn.
    top_k : int or None
    top_p, min_p : float or None
        Which tokens may be drawn, in this order after the temperature: see `qkv.models.sampling`.
    repetition_penalty : float
        1: none. Counts before everything else.
    stop : str or sequence of str
        Texts at which to stop. They are not given out; of ids, the one that completed the text is.
    seed : int or None
        None: another result each time. In a batch each sequence is drawn as it would be alone.
    slide : bool
        Once the model's positions are used up, forget the older half and go on; by default that is refused beforehand.
    """

    max_new_tokens: int = 128
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0
    stop: str | Sequence[str] = ()
    seed: int | None = None
    slide: bool = False

    def __post_init__(self) -> None:
        for name, least in (("max_new_tokens", 0), ("top_k", 1), ("seed", 0)):
            value = getattr(self, name)
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= least
            if not whole and (value is not None or name == "max_new_tokens"):
                raise ArgumentError("number", name=name, expected=f"an integer of at least {least}", value=value)
        for name in ("top_p", "min_p"):
            if (value := getattr(self, name)) is not None and not (_is_number(value) and 0 <= value <= 1):
                raise ArgumentError("number", name=name, expected="from 0 to 1", value=value)
        if not (_is_number(self.temperature) and self.temperature >= 0):
            raise ArgumentError("number", name="temperature", expected="a number of at least 0", value=self.temperature)
        if not (_is_number(self.repetition_penalty) and self.repetition_penalty > 0):
            value = self.repetition_penalty
            raise ArgumentError("number", name="repetition_penalty", expected="a number above 0", value=value)
        words = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)
        if not all(isinstance(word, str) and word for word in words):
            raise ArgumentError("model_input", name="stop", expected="text, or a list of texts", what=repr(self.stop))
        object.__setattr__(self, "stop", words)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.floating) and not isinstance(value, bool) and bool(np.isfinite(value))


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


def generate(model: Decoder, sequences: Sequence[Array], asked: Asked, as_text: bool) -> list[Any]:
    """The continuation of each sequence, computed together."""
    rows = _rows(model, sequences, asked, as_text)
    for _ in _steps(model, rows, asked):
        pass
    for row in rows:
        row.finish()
    return ["".join(row.pieces) if as_text else row.new for row in rows]


def stream(model: Decoder, sequence: Array, asked: Asked, as_text: bool) -> Iterator[Any]:
    """The continuation of one sequence, piece by piece."""
    rows = _rows(model, [sequence], asked, as_text)  # what is wrong is said before the first piece is asked for
    return _pieces(model, rows, asked, as_text)


def _pieces(model: Decoder, rows: list[_Row], asked: Asked, as_text: bool) -> Iterator[Any]:
    row, given = rows[0], 0
    for _ in _steps(model, rows, asked):
        found: Sequence[Any] = row.pieces if as_text else row.new
        yield from (piece for piece in found[given:] if piece != "")
        given = len(found)
    row.finish()
    if as_text and row.pieces[-1]:
        yield row.pieces[-1]


def _rows(model: Decoder, sequences: Sequence[Array], asked: Asked, as_text: bool) -> list[_Row]:
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


def _steps(model: Decoder, rows: list[_Row], asked: Asked) -> Iterator[None]:
    """Give every row its next token, again and again; a row that has ended goes along until all have."""
    limit, run = model.settings.n_positions, _Run(model)
    for step in range(asked.max_new_tokens):
        for row in rows:
            row.context = _fitted(row.context, limit)
        if step == 0 or not run.can_go_on([len(row.context) for row in rows]):
            logits = run.start([row.context for row in rows])
        else:
            logits = run.go_on([row.context[-1] for row in rows])
        for row, last in zip(rows, logits):
            token = pick(last, row.prompt + row.new, asked, row.rng)
            if not row.done:
                row.take(token, token in model.end_ids)
            row.context.append(token)
        yield
        if all(row.done for row in rows):
            return


def _fitted(ids: list[int], limit: int | None) -> list[int]:
    """The newer half, where they are more than the model has positions."""
    return ids if limit is None or len(ids) <= limit else ids[-max(1, limit - limit // 2) :]


class _Run:
    """A batch in the model: its caches, and the padding before each row."""

    def __init__(self, model: Decoder) -> None:
        self._model = model
        self._caches: list[KVCache] = []
        self._starts: Array | None = None
        self._lengths: list[int] = []

    def can_go_on(self, lengths: Sequence[int]) -> bool:
        """Whether each row only grew by one token, which is turned as those before it were."""
        grown, regime = [length + 1 for length in self._lengths], self._model.regime
        return list(lengths) == grown and all(regime(length - 1) == regime(length) for length in lengths)

    def start(self, contexts: Sequence[Sequence[int]]) -> Array:
        """The logits (B, vocab_size) after the last token of each row, from the beginning."""
        ids, starts = left_padded([np.array(context, np.intp) for context in contexts])
        self._caches, self._starts = self._model.new_caches(), starts if starts.any() else None
        self._lengths = [len(context) for context in contexts]
        return self._last(ids)

    def go_on(self, tokens: Sequence[int]) -> Array:
        self._lengths = [length + 1 for length in self._lengths]
        return self._last(np.array(tokens, np.intp)[:, None])

    def _last(self, ids: Array) -> Array:
        hidden = self._model.forward(ids, self._caches, self._starts)
        return self._model.head(hidden[:, -1])


def pick(logits: Array, seen: Sequence[int], asked: Asked, rng: np.random.Generator) -> int:
    """The next token: the likeliest, or one that is drawn."""
    if asked.repetition_penalty != 1:
        logits = sampling.repetition_penalty(logits, set(seen), asked.repetition_penalty)
    if asked.temperature == 0:
        return int(logits.argmax())
    logits = logits.astype(np.float64)
    logits = sampling.temperature(logits - logits.max(), asked.temperature)  # the likeliest stays finite: it is 0
    if asked.top_k is not None:
        logits = sampling.top_k(logits, asked.top_k)
    if asked.top_p is not None:
        logits = sampling.top_p(logits, asked.top_p)
    if asked.min_p is not None:
        logits = sampling.min_p(logits, asked.min_p)
    return sampling.drawn(logits, rng)
