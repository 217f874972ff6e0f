"""Sound from a file: the samples of a WAV file as numbers from -1 to 1."""

from __future__ import annotations

import wave
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FileError
from ..ops.precision import Array
from .files import existing

LONGEST = 600  # seconds that are read of a file; no model hears more at once
MOST_CHANNELS = 16
WIDTHS: dict[int, np.dtype[Any]] = {1: np.dtype("u1"), 2: np.dtype("<i2"), 4: np.dtype("<i4")}


def read_wav(path: Path, rate: int) -> Array:
    """The samples of a WAV file, its channels mixed.

    Parameters
    ----------
    path : Path
        PCM of 8, 16, 24 or 32 bits.
    rate : int
        Samples a second that the file must have: nothing is converted.

    Returns
    -------
    (n,) float32 ndarray
        From -1 to 1.

    Raises
    ------
    FileError
        For what is no such file, has another rate, is longer than ten minutes or holds no sample.
    """
    try:
        with wave.open(str(existing(path)), "rb") as file:
            channels, width, found = file.getnchannels(), file.getsampwidth(), file.getframerate()
            if width not in (1, 2, 3, 4):
                raise FileError("damaged", path=path, reason=f"samples of {8 * width} bits")
            if channels > MOST_CHANNELS:
                raise FileError("damaged", path=path, reason=f"{channels} channels")
            if found != rate:
                raise FileError("wav_rate", path=path, rate=found, expected=rate)
            if file.getnframes() > LONGEST * rate:
                raise FileError("wav_long", path=path, seconds=file.getnframes() / rate, limit=LONGEST)
            data = file.readframes(file.getnframes())
    except (wave.Error, EOFError, OSError, RuntimeError) as error:
        reason = " ".join(str(error).split()) or "it ends within its header"
        raise FileError("damaged", path=path, reason=reason) from None
    samples = _numbers(data[: len(data) - len(data) % (width * channels)], width)
    if samples.size == 0:
        raise FileError("damaged", path=path, reason="no samples")
    return samples.reshape(-1, channels).mean(axis=1).astype(np.float32)


def _numbers(data: bytes, width: int) -> Array:
    """Samples from -1 to 1, in float64; those of 8 bits are stored from 0 to 255, for those of 24 there is no dtype."""
    if width == 3:
        bits = np.frombuffer(data, np.uint8).reshape(-1, 3)
        wide = np.zeros((len(bits), 4), np.uint8)
        wide[:, 1:] = bits
        return wide.view("<i4")[:, 0] / 2.0**31
    numbers = np.frombuffer(data, WIDTHS[width]).astype(np.float64)
    return (numbers - 128) / 128 if width == 1 else numbers / 2.0 ** (8 * width - 1)
