"""Telling a speech model what it hears and what to do: the tokens with which its answer begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..errors import ArgumentError
from .source import Source

if TYPE_CHECKING:
    from .seq2seq import EncoderDecoder


def prompts(model: EncoderDecoder, source: Source, language: str | None, task: str) -> list[list[int]]:
    """For each sound the tokens of start, language, task and no timestamps, as far as the model has them.

    Radford et al., arXiv 2212.04356, section 2.3.
    """
    rules = model.target
    if model.settings.n_mels is None:
        raise ArgumentError("cannot_hear", path=model.directory)
    if not rules.start:
        raise ArgumentError("no_start", path=model.directory)
    if not rules.languages and (language is not None or task != "transcribe"):
        name = "task" if language is None else "language"
        raise ArgumentError("unused", name=name, reason="the model knows one language")
    for name, asked, known in (("language", language, rules.languages), ("task", task, rules.tasks)):
        if asked is not None and known and asked not in known:
            raise ArgumentError("choice", name=name, choices=", ".join(known), value=asked)
    begun = [[rules.start[0]] for _ in range(1 if source.single else len(source.hidden))]
    last = [] if rules.no_timestamps is None else [rules.no_timestamps]
    if not rules.languages:
        return [[*one, *last] for one in begun]
    spoken = [rules.languages[language]] * len(begun) if language else _likeliest_languages(model, source, begun)
    tasks = [rules.tasks[task]] if task in rules.tasks else []
    return [[*one, heard, *tasks, *last] for one, heard in zip(begun, spoken)]


def _likeliest_languages(model: EncoderDecoder, source: Source, begun: list[list[int]]) -> list[int]:
    """The token of a language that is likeliest behind the start, for each sound."""
    logits = model.logits(source, decoder_ids=begun[0] if source.single else begun)
    ids = np.array(list(model.target.languages.values()))
    return [int(ids[each[-1, ids].argmax()]) for each in ([logits] if source.single else logits)]
