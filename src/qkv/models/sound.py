"""The sound that a speech model is given, as features."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentError, DtypeError, ShapeError
from ..io.audio import read_wav
from ..ops.precision import Array
from .log_mel import Hearing

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
