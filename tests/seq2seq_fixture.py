"""Encoder-decoders for tests: the tiny random ones in git, held to transformers."""

from __future__ import annotations

import functools
import wave
from pathlib import Path

import numpy as np
from tests.models_fixture import DATA, ModelCopy, goldens

from qkv.models import EncoderDecoder, load

TINY = DATA / "tiny_seq2seq"
FAMILIES = sorted(path.name for path in TINY.iterdir())
TEXT = [family for family in FAMILIES if family != "whisper"]
LENGTHS = (7, 23)
CLOSE: dict[str, float] = {"rtol": 0, "atol": 1e-4}
EXACT: dict[str, float] = {"rtol": 0, "atol": 1e-11}  # float64 throughout
VOCAB_SIZE = 67


@functools.cache
def tiny(family: str, dtype: str | None = None) -> EncoderDecoder:
    return load(TINY / family, dtype=dtype)


@functools.cache
def known(family: str) -> dict[str, np.ndarray]:
    return goldens(TINY / family / "goldens.npz")


def given(family: str, length: int) -> np.ndarray:
    """The source: ids, or samples for the model that hears."""
    arrays = known(family)
    return arrays[f"{length}.samples"].astype(np.float32) if family == "whisper" else arrays[f"{length}.ids"]


def random_ids(seed: int, n: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(2, VOCAB_SIZE, n)


def write_wav(path: Path, samples: np.ndarray, width: int = 2, rate: int = 16000) -> Path:
    """Samples (n,) or (n, channels) from -1 to 1 as PCM."""
    numbers = np.round(np.asarray(samples, np.float64) * (2 ** (8 * width - 1) - 1)).astype(np.int64)
    if width == 1:
        numbers = numbers + 128
    shape = numbers.shape if numbers.ndim == 2 else (len(numbers), 1)
    data = numbers.reshape(-1, 1).astype("<i8").view("u1").reshape(-1, 8)[:, :width].tobytes()
    with wave.open(str(path), "wb") as file:
        file.setnchannels(shape[1])
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(data)
    return path


class Copy(ModelCopy):
    """A copy of a tiny model in which one thing can be changed."""

    def __init__(self, directory: Path, family: str) -> None:
        super().__init__(TINY / family, directory)
        self.family = family
