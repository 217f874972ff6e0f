"""Continuing a text: one token after the other, each from the logits of the last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import ArgumentError
from ...layers.cached_rows import PACKINGS
from ...ops.precision import Array
from ..inputs import tokenizer_of
from . import beams, drafting
from .asked import Asked
from .growing import Growing, best, one_by_one, piece_by_piece, whole
from .prefix import PrefixCache
from .run import Run

if TYPE_CHECKING:
    from ..decoder import Decoder


@dataclass
class Shortcuts:
    """What makes it sooner or smaller: none of it changes the result, but for the rounding of `kv_dtype`.

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

    @classmethod
    def of(
        cls, model: Decoder, draft: Decoder | drafting.Drafter | None, n_draft: int | None,
        cache: PrefixCache | None, kv_dtype: str | None,
    ) -> Shortcuts:  # fmt: skip
        """As they are given to `model.generate`."""
        drafter: Any = draft
        if isinstance(draft, type(model)):
            drafter = drafting.Draft(draft, 4 if n_draft is None else n_draft)
        elif n_draft is not None:
            raise ArgumentError("unused", name="n_draft", reason="no draft model is given")
        if drafter is not None and not hasattr(drafter, "propose"):
            expected = "a decoder, a Draft or a Lookup"
            raise ArgumentError("model_input", name="draft", expected=expected, what=type(drafter).__name__)
        if cache is not None and not isinstance(cache, PrefixCache):
            expected = "a PrefixCache of this model"
            raise ArgumentError("model_input", name="cache", expected=expected, what=type(cache).__name__)
        return cls(drafter, cache, kv_dtype)

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


def generate(
    model: Decoder, sequences: Sequence[Array], asked: Asked, as_text: bool, shortcuts: Shortcuts
) -> list[Any]:
    """The continuation of each sequence, computed together."""
    growing = _begun(model, sequences, asked, as_text, shortcuts)
    return whole(growing, _steps(model, growing, asked, shortcuts))


def stream(model: Decoder, sequence: Array, asked: Asked, as_text: bool, shortcuts: Shortcuts) -> Iterator[Any]:
    """The continuation of one sequence, piece by piece."""
    growing = _begun(
        model, [sequence], asked, as_text, shortcuts
    )  # what is wrong is said before the first piece is due
    return piece_by_piece(growing[0], _steps(model, growing, asked, shortcuts))


def _begun(
    model: Decoder, sequences: Sequence[Array], asked: Asked, as_text: bool, shortcuts: Shortcuts
) -> list[Growing]:
    shortcuts.check(model, len(sequences), asked)
    limit = model.settings.n_positions
    for ids in sequences:
        if limit is not None and not asked.slide and len(ids) + asked.max_new_tokens > limit:
            raise ArgumentError("too_long_to_go_on", size=len(ids), new=asked.max_new_tokens, limit=limit)
    tokenizer = tokenizer_of(model) if as_text or asked.stop else None
    return [Growing.begin(ids, asked, as_text, tokenizer) for ids in sequences]


def _steps(model: Decoder, growing: list[Growing], asked: Asked, shortcuts: Shortcuts) -> Iterator[None]:
    """Give each its next tokens, again and again."""
    limit = model.settings.n_positions
    if asked.n_beams > 1:
        yield from best(growing, beams.search(model, [one.ids for one in growing], asked, shortcuts.kv_dtype))
    elif shortcuts.draft is not None:
        yield from _drafted(model, growing, asked, shortcuts)
    elif shortcuts.cache is not None:
        cache = shortcuts.cache.begin()
        yield from one_by_one(lambda contexts: cache.logits(contexts[0]), growing, asked, model.end_ids, limit)
    else:
        yield from one_by_one(Run(model, shortcuts.kv_dtype).logits, growing, asked, model.end_ids, limit)


def _drafted(model: Decoder, growing: list[Growing], asked: Asked, shortcuts: Shortcuts) -> Iterator[None]:
    """One after the other, for in each another number of proposals is accepted."""
    assert shortcuts.draft is not None
    for one in growing:
        cache = (PrefixCache(model, shortcuts.kv_dtype) if shortcuts.cache is None else shortcuts.cache).begin()
        tokens = drafting.tokens(cache, shortcuts.draft.begin(), one.ids, asked, one.rng)
        for _, token in zip(range(asked.max_new_tokens), tokens):
            one.take(token, token in model.end_ids)
            yield
            if one.done:
                break
