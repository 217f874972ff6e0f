"""Writing the answer to a source: one token after the other, as a decoder continues a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import ArgumentError
from ...ops.precision import Array
from ..inputs import tokenizer_of
from ..source import Source
from . import beams
from .answer_run import AnswerRun
from .asked import Asked
from .growing import Growing, best, one_by_one, piece_by_piece, whole

if TYPE_CHECKING:
    from ..seq2seq import EncoderDecoder


def write(model: EncoderDecoder, source: Source, begun: Sequence[Array], asked: Asked) -> list[Any]:
    """The answers to all sources, computed together."""
    growing = _begun(model, source, begun, asked)
    return whole(growing, _steps(model, source, growing, asked))


def write_on(model: EncoderDecoder, source: Source, begun: Sequence[Array], asked: Asked) -> Iterator[Any]:
    """The answer to one source, piece by piece."""
    growing = _begun(model, source, begun, asked)  # what is wrong is said before the first piece is due
    return piece_by_piece(growing[0], _steps(model, source, growing, asked))


def _begun(model: EncoderDecoder, source: Source, begun: Sequence[Array], asked: Asked) -> list[Growing]:
    limit = model.settings.n_target
    if asked.slide:
        raise ArgumentError("unused", name="slide", reason="the model reads a source")
    for ids in begun:
        if limit is not None and len(ids) + asked.max_new_tokens > limit:
            raise ArgumentError("answer_long", size=len(ids), new=asked.max_new_tokens, limit=limit)
    tokenizer = tokenizer_of(model) if source.as_text or asked.stop else None
    return [Growing.begin(ids, asked, source.as_text, tokenizer) for ids in begun]


def _steps(model: EncoderDecoder, source: Source, growing: list[Growing], asked: Asked) -> Iterator[None]:
    """Give each its next tokens, again and again."""
    run = AnswerRun(model, source)
    if asked.n_beams > 1:
        yield from best(growing, beams.search_in(run, [one.ids for one in growing], asked, model.end_ids))
    else:
        yield from one_by_one(run.logits, growing, asked, model.end_ids)
