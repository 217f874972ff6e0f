"""Writing the answer to a source: one token after the other, as a decoder continues a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ArgumentError
from ...ops.precision import Array
from ..answer_run import AnswerRun
from ..sides import Source
from . import beams
from .asked import Asked, pick
from .text import Writer

if TYPE_CHECKING:
    from ..seq2seq import EncoderDecoder


@dataclass
class _Line:
    """One answer of a batch."""

    begun: list[int]
    rng: np.random.Generator
    writer: Writer | None
    new: list[int] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    done: bool = False

    def take(self, token: int, is_end: bool) -> None:
        if self.done or is_end:
            self.done = True
            return
        self.new.append(token)
        if self.writer is not None:
            self.pieces.append(self.writer.add(token))
            self.done = self.writer.stopped

    def finish(self) -> None:
        if self.writer is not None:
            self.pieces.append(self.writer.finish())


def write(model: EncoderDecoder, source: Source, begun: Sequence[Array], asked: Asked) -> list[Any]:
    """The answers to all sources, computed together."""
    lines = _lines(model, source, begun, asked)
    for _ in _steps(model, source, lines, asked):
        pass
    for line in lines:
        line.finish()
    return ["".join(line.pieces) if source.as_text else line.new for line in lines]


def write_on(model: EncoderDecoder, source: Source, begun: Sequence[Array], asked: Asked) -> Iterator[Any]:
    """The answer to one source, piece by piece."""
    lines = _lines(model, source, begun, asked)  # what is wrong is said before the first piece is asked for
    return _pieces(model, source, lines, asked)


def _pieces(model: EncoderDecoder, source: Source, lines: list[_Line], asked: Asked) -> Iterator[Any]:
    line, given = lines[0], 0
    for _ in _steps(model, source, lines, asked):
        found: Sequence[Any] = line.pieces if source.as_text else line.new
        yield from (piece for piece in found[given:] if piece != "")
        given = len(found)
    line.finish()
    if source.as_text and line.pieces[-1]:
        yield line.pieces[-1]


def _lines(model: EncoderDecoder, source: Source, begun: Sequence[Array], asked: Asked) -> list[_Line]:
    limit = model.settings.n_target
    if asked.slide:
        raise ArgumentError("unused", name="slide", reason="the model reads a source")
    for ids in begun:
        if limit is not None and len(ids) + asked.max_new_tokens > limit:
            raise ArgumentError("answer_long", size=len(ids), new=asked.max_new_tokens, limit=limit)
    tokenizer = model.words() if source.as_text or asked.stop else None
    return [
        _Line(
            ids.tolist(), np.random.default_rng(asked.seed),
            None if tokenizer is None else Writer(tokenizer, ids.tolist(), asked.stop),
        )
        for ids in begun
    ]  # fmt: skip


def _steps(model: EncoderDecoder, source: Source, lines: list[_Line], asked: Asked) -> Iterator[None]:
    """Give every line its next token, again and again; a line that has ended goes along until all have."""
    run = AnswerRun(model, source)
    contexts = [list(line.begun) for line in lines]
    if asked.n_beams > 1:
        for line, best in zip(lines, beams.search_in(run, contexts, asked, model.end_ids)):
            for token in best[0].ids:
                line.take(token, is_end=False)
        yield
        return
    for _ in range(asked.max_new_tokens):
        for line, context, logits in zip(lines, contexts, run.logits(contexts)):
            context.append(pick(logits, context, asked, line.rng))
            line.take(context[-1], context[-1] in model.end_ids)
        yield
        if all(line.done for line in lines):
            return
