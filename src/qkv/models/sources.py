"""What an encoder-decoder is given to read or to hear, and what it has written so far, checked once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ArgumentError, DtypeError, ShapeError
from ..io.audio import read_wav
from ..layers import KVCache
from ..ops.precision import Array
from .inputs import check_ids, is_text, read_given
from .log_mel import Hearing
from .sides import Source

if TYPE_CHECKING:
    from .seq2seq import EncoderDecoder

EXPECTED = "a WAV file, samples, features, or a list of such"


def read_sound(given: Any, hearing: Hearing, n_frames: int) -> tuple[list[Array], bool]:
    """Features (frames, n_mels) of each sound, and whether it was a single one, not a list.

    Parameters
    ----------
    given : path_like, (n,) array_like of float, (n_mels, frames) ndarray, or a list of such
    hearing : Hearing
    n_frames : int
        How many frames the model takes, no more and no fewer.
    """
    several = isinstance(given, list | tuple) and len(given) > 0 and not isinstance(given[0], int | float | np.number)
    several = several or (isinstance(given, np.ndarray) and given.ndim == 3)
    sounds = [_features(sound, hearing, n_frames) for sound in (given if several else [given])]
    if not sounds:
        raise ArgumentError("empty_audio")
    return sounds, not several


def _features(given: Any, hearing: Hearing, n_frames: int) -> Array:
    if isinstance(given, str | os.PathLike):
        given = read_wav(Path(given), hearing.rate)
    if not isinstance(given, list | tuple | np.ndarray):
        raise ArgumentError("model_input", name="the input", expected=EXPECTED, what=type(given).__name__)
    try:
        array = np.asarray(given)
    except ValueError:
        raise ArgumentError("model_input", name="the input", expected=EXPECTED, what="a nested list") from None
    if array.size == 0:
        raise ArgumentError("empty_audio")
    if array.dtype.kind != "f":  # integers would be samples of a scale that nobody said
        raise DtypeError("dtype", name="samples", expected="floating-point, from -1 to 1", dtype=array.dtype)
    features = hearing.features(array) if array.ndim == 1 else array
    if features.shape != (hearing.n_mels, n_frames):
        raise ShapeError("shape", name="features", expected=(hearing.n_mels, n_frames), shape=features.shape)
    return features.T.astype(np.float64 if features.dtype == np.float64 else np.float32)


def read_source_ids(model: EncoderDecoder, given: Any) -> tuple[list[Array], bool]:
    """The tokens of each source, and whether it was a single one, not a list."""
    n_special = 0

    def encode(text: str) -> list[int]:
        nonlocal n_special
        n_special = model.words().n_special_tokens
        return model.words().encode(text)

    sequences, single = read_given(given, encode)
    check_ids(sequences, model.settings.vocab_size, model.settings.n_source, n_special)
    return sequences, single


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
