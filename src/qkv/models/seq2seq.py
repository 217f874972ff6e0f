"""An encoder-decoder: one side reads a source, the other writes an answer and looks at the source while it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..io.config import Config
from ..io.families.seq2seq import Seq2SeqSettings
from ..io.target import Target, read_target
from ..io.tokens.endings import read_end_ids
from ..io.tokens.tokenizer import Tokenizer, tokenizer_file
from ..layers import ContextCache, KVCache
from ..ops import masks
from ..ops.precision import Array
from .generation.asked import Asked
from .generation.run import Caches
from .generation.writing import write, write_on
from .inputs import is_text, padded, read_ids
from .log_mel import Hearing, read_hearing
from .sides import SourceEncoder, TargetDecoder
from .sound import read_sound
from .source import Source, read_written
from .transcribing import prompts
from .vocabulary import Head


@dataclass(eq=False)
class EncoderDecoder:
    """An encoder and a decoder with its head, tokenizer and rules of writing.

    Attributes
    ----------
    encoder : SourceEncoder
    decoder : TargetDecoder
        Without layers where the model only reads, as `T5EncoderModel` does.
    head : Head
    settings : Seq2SeqSettings
    directory : Path or None
        Where it was loaded from.
    tokenizer : Tokenizer or None
        `model.tokenizer.encode`, `.decode`, `.tokens`.
    end_ids : frozenset of int
        The tokens that end an answer.
    target : Target
        How it begins to write, and what it never writes.
    hearing : Hearing or None
        How sound becomes features; None: it reads tokens.

    Notes
    -----
    Vaswani et al., arXiv 1706.03762, section 3.1. What the model is given is its source: text, token ids, or for a
    speech model a WAV file, samples (n,) or features (n_mels, frames); a list of such is computed together; or what
    `encode_source` made of it.
    """

    encoder: SourceEncoder
    decoder: TargetDecoder
    head: Head
    settings: Seq2SeqSettings
    directory: Path | None = None
    tokenizer: Tokenizer | None = None
    end_ids: frozenset[int] = field(default_factory=frozenset)
    target: Target = field(default_factory=Target)
    hearing: Hearing | None = None

    def __repr__(self) -> str:
        sides = f"{self.settings.n_encoder_layers} + {self.settings.n_decoder_layers} layers"
        heads = sorted({self.settings.encoder_heads, self.settings.decoder_heads})
        shape = f"{sides}, {' and '.join(map(str, heads))} heads, d_model {self.settings.d_model}"
        return f"<{type(self).__name__}: {shape}>"

    def read_beside(self, directory: Path, config: Config) -> None:
        """What files beside the weights say: how an answer begins and ends, and how sound becomes features."""
        self.end_ids = read_end_ids(directory, config, self.tokenizer)
        self.target = read_target(directory, config, self.settings.vocab_size)
        if self.settings.n_mels is not None:
            self.hearing = read_hearing(directory, self.settings.n_mels, 2 * self.settings.source_rows)

    def encode_source(self, given: Any) -> Source:
        """What the encoder makes of a source, to use in several calls; `.states` are its hidden states.

        Parameters
        ----------
        given : str, (Tk,) array_like of int, sound, or a list of such

        Returns
        -------
        Source
            To be given in the place of what it was made of: nothing of it is computed twice.

        Raises
        ------
        ArgumentError, ShapeError, FileError
            For a source that cannot be read, is empty, or is longer than the model takes: nothing is cut.
        """
        if isinstance(given, Source):
            if given.encoder is not self.encoder:
                raise ArgumentError("other_source")
            return given
        kept = [ContextCache() for _ in self.decoder.layers]
        if self.settings.n_mels is not None:
            hearing = self.hearing or Hearing(self.settings.n_mels)
            sounds, single = read_sound(given, hearing, 2 * self.settings.source_rows)
            hidden = self.encoder(sounds[0] if single else np.stack(sounds))
            return Source(hidden, None, kept, self._has_words(), None, self.encoder)
        sequences, single = read_ids(self, given, self.settings.vocab_size, self.settings.n_source)
        if single:
            return Source(self.encoder(sequences[0]), None, kept, is_text(given), sequences, self.encoder)
        ids, lengths = padded(sequences)
        same = bool((lengths == lengths[0]).all())
        hidden = self.encoder(ids, None if same else masks.padding(lengths))
        return Source(hidden, None if same else lengths, kept, is_text(given), sequences, self.encoder)

    def new_caches(self) -> Caches:
        """Empty caches of what is written, one per layer of the decoder."""
        return Caches(KVCache() for _ in self.decoder.layers)

    def __call__(self, given: Any, *, decoder_ids: Any = None, caches: Sequence[KVCache] | None = None) -> Any:
        """The decoder's hidden states after its last layer and norm.

        Parameters
        ----------
        given : str, (Tk,) array_like of int, sound, a list of such, or Source
        decoder_ids : (T,) array_like of int, or a list of such
            What has been written so far, from the token on that begins every answer (`target.start`).
        caches : sequence of KVCache, optional
            From `new_caches`, for one source: `decoder_ids` continue what was given with them before. In any chunks
            the result is that of one pass.

        Returns
        -------
        (T, d_model) ndarray, or a list of them
            For one, or for a list.
        """
        source = self.encode_source(given)
        written = read_written(self, decoder_ids, source, caches)
        if source.single:
            return self.decoder(written[0], source, caches)
        ids, lengths = padded(written)
        return [hidden[:length] for hidden, length in zip(self.decoder(ids, source), lengths)]

    def logits(self, given: Any, *, decoder_ids: Any = None, caches: Sequence[KVCache] | None = None) -> Any:
        """For each token that was written, a number for every token that may follow it; arguments as in a call.

        Returns
        -------
        (T, vocab_size) ndarray, or a list of them
        """
        if self.settings.n_decoder_layers:
            self.head.matrix()
        hidden = self(given, decoder_ids=decoder_ids, caches=caches)
        return [self.head(each) for each in hidden] if isinstance(hidden, list) else self.head(hidden)

    def generate(self, given: Any, *, decoder_ids: Any = None, **how: Any) -> Any:
        """Write the answer to a source.

        Parameters
        ----------
        given : str, (Tk,) array_like of int, sound, a list of such, or Source
        decoder_ids : (T,) array_like of int, or a list of such, optional
            How the answer begins; by default as the model's files say.
        **how
            max_new_tokens, temperature, top_k, top_p, min_p, repetition_penalty, stop, seed, n_beams,
            length_penalty, early_stopping: see `Asked`.

        Returns
        -------
        str, list of int, or a list of them
            Text for text, ids for ids; for sound, text where there is a tokenizer. Without what it begins with and
            without the token that ended it.
        """
        asked, source, begun = self._begin(given, decoder_ids, how)
        found = write(self, source, begun, asked)
        return found[0] if source.single else found

    def stream(self, given: Any, *, decoder_ids: Any = None, **how: Any) -> Iterator[Any]:
        """As `generate`, for one source, piece by piece: text in whole characters, or ids."""
        asked, source, begun = self._begin(given, decoder_ids, how)
        if not source.single:
            raise ArgumentError("model_input", name="the input", expected="one source", what="a list")
        return write_on(self, source, begun, asked)

    def transcribe(self, sound: Any, *, language: str | None = None, task: str = "transcribe", **how: Any) -> Any:
        """Write down what is said, without times.

        Parameters
        ----------
        sound : path_like, (n,) array_like of float, (n_mels, frames) ndarray, a list of such, or Source
            At most as long as the model hears (30 seconds); cut longer sound into pieces.
        language : str, optional
            As the model's files name it, such as "en" or "zh"; by default the one that the model finds likeliest.
        task : {"transcribe", "translate"}
            Translations are into English.
        **how
            As in `generate`.

        Returns
        -------
        str or list of int, or a list of them
            Text where there is a tokenizer.
        """
        source = self.encode_source(sound)
        return self.generate(source, decoder_ids=self.transcription_prompt(source, language, task), **how)

    def transcription_prompt(self, source: Source, language: str | None = None, task: str = "transcribe") -> Any:
        """The tokens with which `transcribe` begins: `decoder_ids` for `generate` and `stream`."""
        found = prompts(self, source, language, task)
        return found[0] if source.single else found

    def _has_words(self) -> bool:
        """Whether there is a tokenizer, or would be if its library was installed."""
        return self.tokenizer is not None or (self.directory is not None and tokenizer_file(self.directory) is not None)

    def _begin(self, given: Any, decoder_ids: Any, how: dict[str, Any]) -> tuple[Asked, Source, list[Array]]:
        asked = Asked(**how)
        if not self.settings.n_decoder_layers:
            raise ArgumentError("no_decoder")
        self.head.matrix()
        if decoder_ids is None and not self.target.start:
            raise ArgumentError("no_start", path=self.directory)
        source = self.encode_source(given)
        if decoder_ids is None:
            n = 1 if source.single else len(source.hidden)
            return asked, source, [np.array(self.target.start, np.intp)] * n
        return asked, source, read_written(self, decoder_ids, source, None)
