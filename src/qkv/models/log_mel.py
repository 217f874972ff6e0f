"""Sound as a picture: how loud each band of pitch is, a hundred times a second. What Whisper hears."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from ..contract import op
from ..errors import ArgumentError, ShapeError
from ..io.config import Config
from ..ops.precision import Array, number


@dataclass(frozen=True)
class Hearing:
    """How sound becomes features, as `preprocessor_config.json` says.

    Attributes
    ----------
    n_mels : int
        Bands of pitch.
    rate : int
        Samples a second.
    n_fft, hop : int
        How long each glimpse is, and how far apart two are, in samples.
    seconds : int
        How long the sound is made by silence behind it.
    """

    n_mels: int = 80
    rate: int = 16000
    n_fft: int = 400
    hop: int = 160
    seconds: int = 30

    def features(self, samples: ArrayLike, *, cut: bool = False) -> Array:
        """The features (n_mels, frames) of samples (n,): filled up with silence; what is longer is refused, or cut.

        Raises
        ------
        ArgumentError
            For no samples, or more than `seconds` of them without `cut`.
        """
        sound = number("samples", samples)
        if sound.ndim != 1:
            raise ShapeError("shape", name="samples", expected="(n,)", shape=sound.shape)
        if sound.size == 0:
            raise ArgumentError("empty_audio")
        if not np.isfinite(sound).all():
            wrong = float(sound[~np.isfinite(sound)][0])
            raise ArgumentError("number", name="samples", expected="finite everywhere", value=wrong)
        limit = self.seconds * self.rate
        if len(sound) > limit and not cut:
            raise ArgumentError("audio_long", seconds=len(sound) / self.rate, limit=self.seconds)
        whole = np.zeros(limit, np.float64)
        whole[: len(sound)] = sound[:limit]
        return log_mel(whole, self.n_mels, self.rate, self.n_fft, self.hop)


def read_hearing(directory: Path, n_mels: int, n_frames: int) -> Hearing:
    """The settings that `preprocessor_config.json` gives, so that `n_frames` come out.

    Where there is no such file, those of the paper, and as many seconds as give so many frames.
    """
    path = directory / "preprocessor_config.json"
    if not path.exists():
        return Hearing(n_mels, seconds=n_frames // 100)
    config = Config(path)
    config.must_be(
        feature_extractor_type="WhisperFeatureExtractor", feature_size=n_mels, padding_side="right", padding_value=0.0,
        dither=0.0, do_normalize=False,
    )  # fmt: skip
    read = Hearing(
        n_mels,
        config.integer("sampling_rate", low=1000, high=48_000, default=16000),
        config.integer("n_fft", low=16, high=2**12, default=400),
        config.integer("hop_length", high=2**16, default=160),
        config.integer("chunk_length", high=120, default=30),
    )
    config.must_be(n_samples=read.seconds * read.rate, nb_max_frames=read.seconds * read.rate // read.hop)
    if read.seconds * read.rate // read.hop != n_frames:
        raise config.wrong("chunk_length", f"so long that it gives the {n_frames} frames of the model")
    config.finish(harmless={"mel_filters", "processor_class", "return_attention_mask"})
    return read


@op(frames="T n_fft", power="T bin", mel="n_mels T", out="n_mels T")
def log_mel(samples: ArrayLike, n_mels: int = 80, rate: int = 16000, n_fft: int = 400, hop: int = 160) -> Array:
    """The log-mel spectrogram of samples (n,).

    Parameters
    ----------
    samples : (n,) array_like
        At least two.
    n_mels : int
        Bands of pitch, 80 or 128 in published models.
    rate : int
        Samples a second.
    n_fft, hop : int
        How long each glimpse is, and how far apart two are, in samples.

    Returns
    -------
    (n_mels, T) float32 ndarray
        T = n // hop. Computed in float64; the loudest is at most 2 above the quietest.

    Notes
    -----
    log10 of the power in each band, no less than the largest minus 8, then (x + 4) / 4 (Radford et al., arXiv
    2212.04356, section 2.2, and the authors' program): glimpses under a Hann window, the ends mirrored.

    Examples
    --------
    >>> tone = np.sin(2 * np.pi * 1000 * np.arange(16000) / 16000)
    >>> picture = log_mel(tone)
    >>> picture.shape, int(picture[:, 50].argmax())
    ((80, 100), 26)
    """
    sound = np.asarray(samples, np.float64)
    mirrored = np.pad(sound, n_fft // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(mirrored, n_fft)[::hop][: len(sound) // hop]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n_fft) / n_fft)
    power = np.abs(np.fft.rfft(frames * window)) ** 2
    mel = mel_filters(n_mels, rate, n_fft) @ power.T
    logarithm = np.log10(np.maximum(mel, 1e-10))
    out = ((np.maximum(logarithm, logarithm.max() - 8) + 4) / 4).astype(np.float32)
    return out


@cache
def mel_filters(n_mels: int, rate: int, n_fft: int) -> Array:
    """How much each frequency counts in each band (n_mels, n_fft // 2 + 1).

    Notes
    -----
    Triangles of one area, evenly on a scale that is linear below 1000 Hz and logarithmic above (Slaney, "Auditory
    Toolbox", version 2, 1998).

    Examples
    --------
    >>> mel_filters(80, 16000, 400).shape
    (80, 201)
    """
    edges = _hertz(np.linspace(0, _mel(rate / 2), n_mels + 2))
    frequencies = np.linspace(0, rate / 2, n_fft // 2 + 1)
    up = (frequencies - edges[:-2, None]) / np.diff(edges)[:-1, None]
    down = (edges[2:, None] - frequencies) / np.diff(edges)[1:, None]
    filters = np.maximum(0, np.minimum(up, down)) * (2 / (edges[2:] - edges[:-2]))[:, None]
    filters.setflags(write=False)
    return filters


BREAK, PER_MEL, STEP = 1000.0, 200 / 3, np.log(6.4) / 27


def _mel(hertz: float) -> float:
    return hertz / PER_MEL if hertz < BREAK else BREAK / PER_MEL + float(np.log(hertz / BREAK) / STEP)


def _hertz(mel: Array) -> Array:
    corner = BREAK / PER_MEL
    return np.where(mel < corner, mel * PER_MEL, BREAK * np.exp(STEP * (mel - corner)))
