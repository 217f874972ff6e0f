"""The source of an encoder-decoder, as its encoder left it, and what has been written of the answer to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError
from ..layers import ContextCache, KVCache
from ..ops import masks
from ..ops.masks import Rule
from ..ops.precision import Array
from .inputs import check_ids, is_text, read_given

if TYPE_CHECKING:
    from .seq2seq import EncoderDecoder
    from .sides import SourceEncoder


@dataclass(eq=False)
class Source:
    """What the encoder made of a source, or of a batch of them, and the keys and values that the decoder reads off it.

    Attributes
    ----------
    hidden : (Tk, d_model) or (B, Tk, d_model) ndarray
        Of a batch, shorter sources are filled up behind their end.
    lengths : (B,) ndarray of int, or None
        How much of each row is source; None: all of it.
    kept : list of ContextCache
        One per layer of the decoder; filled the first time that it looks.
    as_text : bool
        Whether the source was text, so that the answer is too.
    ids : list of (Tk,) ndarray, or None
        The tokens; None for sound.
    encoder : SourceEncoder or None
        Who made it.
    """

    hidden: Array
    lengths: Array | None
    kept: list[ContextCache] = field(repr=False)
    as_text: bool = False
    ids: list[Array] | None = field(default=None, repr=False)
    encoder: SourceEncoder | None = field(default=None, repr=False)
    _batch: Source | None = field(default=None, repr=False)

    @property
    def single(self) -> bool:
        """Whether it is one source, not a list of them."""
        return self.hidden.ndim == 2

    @property
    def states(self) -> Array | list[Array]:
        """The hidden states (Tk, d_model) of the one, or of each in a list."""
        if self.single:
            return self.hidden
        lengths = [None] * len(self.hidden) if self.lengths is None else self.lengths
        return [hidden[:length] for hidden, length in zip(self.hidden, lengths)]

    def batched(self) -> Source:
        """The same as a list of sources, if it is one alone."""
        if not self.single:
            return self
        if self._batch is None:
            self._batch = replace(self, hidden=self.hidden[None], kept=[ContextCache() for _ in self.kept])
        return self._batch

    def select(self, members: Array) -> Source:
        """These sources of a list, in this order; one may come several times."""
        hidden = self.hidden[members]
        lengths = None if self.lengths is None else self.lengths[members]
        return replace(
            self, hidden=hidden, lengths=lengths, kept=[cache.select(hidden, members) for cache in self.kept]
        )

    @property
    def mask(self) -> Rule | None:
        """What of it may be looked at."""
        return None if self.lengths is None else masks.padding(self.lengths)


def read_written(
    model: EncoderDecoder, decoder_ids: Any, source: Source, caches: Sequence[KVCache] | None
) -> list[Array]:
    """The tokens written so far: one sequence for each source."""
    if not model.settings.n_decoder_layers:
        raise ArgumentError("no_decoder")
    if decoder_ids is None:
        raise ArgumentError("decoder_ids_needed", start=list(model.target.start))
    if is_text(decoder_ids):
        raise ArgumentError("model_input", name="decoder_ids", expected="token ids", what="text")
    sequences, single = read_given(decoder_ids, lambda text: [])
    n = len(source.hidden)
    if single is not source.single or (not single and len(sequences) != n):
        expected = "one sequence" if source.single else f"a list of {n}, one per source"
        what = "one sequence" if single else f"a list of {len(sequences)}"
        raise ArgumentError("model_input", name="decoder_ids", expected=expected, what=what)
    if caches is not None and not single:
        expected = "one sequence, for it has caches"
        raise ArgumentError("model_input", name="the input", expected=expected, what="a list")
    seen = caches[0].n_seen if caches else 0
    limit = None if model.settings.n_target is None else model.settings.n_target - seen
    check_ids(sequences, model.settings.vocab_size, limit)
    return sequences
