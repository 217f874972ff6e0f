"""Stretching RoPE beyond the length a model was trained on: one small value per method.

Each gives the frequencies of the pairs and a magnitude for cos and sin. `original_length` is the length of training.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from ..errors import ArgumentError, ShapeError
from .precision import Array


@runtime_checkable
class Scaling(Protocol):
    """A way to stretch: the frequencies of `rotary_dim` / 2 pairs for a sequence of `length`, and a magnitude."""

    def frequencies(self, rotary_dim: int, base: float, length: int | None) -> tuple[Array, float]: ...


def _plain(rotary_dim: int, base: float) -> Array:
    return base ** (-np.arange(0, rotary_dim, 2) / rotary_dim)


@dataclass(frozen=True)
class Linear:
    """Position interpolation: every angle divided by `factor` (Chen et al., arXiv 2306.15595, section 2.3).

    Examples
    --------
    >>> Linear(2.0).frequencies(4, 10000.0, None)
    (array([0.5  , 0.005]), 1.0)
    """

    factor: float

    def frequencies(self, rotary_dim: int, base: float, length: int | None) -> tuple[Array, float]:
        return _plain(rotary_dim, base) / self.factor, 1.0


@dataclass(frozen=True)
class DynamicNTK:
    """A base that grows once the sequence is longer than in training (Peng et al., YaRN, arXiv 2309.00071, 3.3).

    Keys turned with an earlier base do not fit later ones: a cache must keep its keys unturned, or fix the length.
    """

    factor: float
    original_length: int

    def frequencies(self, rotary_dim: int, base: float, length: int | None) -> tuple[Array, float]:
        if rotary_dim < 4:
            raise ArgumentError("number", name="rotary_dim", expected="at least 4 for DynamicNTK", value=rotary_dim)
        length = max(length or 0, self.original_length)
        grown = self.factor * length / self.original_length - (self.factor - 1)
        return _plain(rotary_dim, base * grown ** (rotary_dim / (rotary_dim - 2))), 1.0


@dataclass(frozen=True)
class Yarn:
    """YaRN: slow pairs are interpolated, fast ones left alone, a ramp between (Peng et al., arXiv 2309.00071, 3.2).

    Attributes
    ----------
    factor, original_length
        How much longer than in training, and that length.
    beta_fast, beta_slow : float
        Turns over the training length above which a pair is left alone, below which it is interpolated.
    mscale, mscale_all_dim : float, optional
        DeepSeek's two parts of the magnitude: m(mscale) / m(mscale_all_dim), m(s) = 0.1 s ln(factor) + 1. The softmax
        scale must then be multiplied with m(mscale_all_dim)^2: see `softmax_scale`.
    attention_factor : float, optional
        The magnitude itself, when a model states it.
    truncate : bool
        Round the ends of the ramp to whole pairs.
    """

    factor: float
    original_length: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    mscale: float | None = None
    mscale_all_dim: float | None = None
    attention_factor: float | None = None
    truncate: bool = True

    def frequencies(self, rotary_dim: int, base: float, length: int | None) -> tuple[Array, float]:
        if base <= 1:
            raise ArgumentError("number", name="base", expected="larger than 1 for Yarn", value=base)

        def pair_of(turns: float) -> float:
            """The pair that makes so many turns over the training length."""
            return rotary_dim * math.log(self.original_length / (turns * 2 * math.pi)) / (2 * math.log(base))

        low, high = pair_of(self.beta_fast), pair_of(self.beta_slow)
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, rotary_dim - 1)
        ramp = np.clip((np.arange(rotary_dim // 2) - low) / max(high - low, 1e-3), 0, 1)
        plain = _plain(rotary_dim, base)
        return plain * (1 - ramp) + plain / self.factor * ramp, self.magnitude

    @property
    def magnitude(self) -> float:
        """What cos and sin are multiplied with."""
        if self.attention_factor is not None:
            return self.attention_factor
        if self.mscale and self.mscale_all_dim:
            return self._grown(self.mscale) / self._grown(self.mscale_all_dim)
        return self._grown(1.0)

    @property
    def softmax_scale(self) -> float:
        """What the scale of the scores is multiplied with, besides (DeepSeek-V2, arXiv 2405.04434, its program)."""
        return self._grown(self.mscale_all_dim) ** 2 if self.mscale_all_dim else 1.0

    def _grown(self, mscale: float) -> float:
        return 0.1 * mscale * math.log(self.factor) + 1.0 if self.factor > 1 else 1.0


@dataclass(frozen=True)
class LongRoPE:
    """A divisor of its own for every pair, one list for short and one for long sequences (arXiv 2402.13753, section 3).

    Attributes
    ----------
    short_factor, long_factor : sequence of float
        One per pair; the long list counts once a sequence is longer than `original_length`.
    original_length : int
    factor : float, optional
        How much longer than in training; gives the magnitude sqrt(1 + ln factor / ln original_length).
    attention_factor : float, optional
        The magnitude itself, when a model states it.
    """

    short_factor: Sequence[float]
    long_factor: Sequence[float]
    original_length: int
    factor: float | None = None
    attention_factor: float | None = None

    def frequencies(self, rotary_dim: int, base: float, length: int | None) -> tuple[Array, float]:
        is_long = length is not None and length > self.original_length
        divisors = np.asarray(self.long_factor if is_long else self.short_factor, np.float64)
        if divisors.shape != (rotary_dim // 2,):
            name = "long_factor" if is_long else "short_factor"
            raise ShapeError("shape", name=name, expected=(rotary_dim // 2,), shape=divisors.shape)
        return _plain(rotary_dim, base) / divisors, self.magnitude

    @property
    def magnitude(self) -> float:
        """What cos and sin are multiplied with."""
        if self.attention_factor is not None:
            return self.attention_factor
        if self.factor is None or self.factor <= 1:
            return 1.0
        return math.sqrt(1 + math.log(self.factor) / math.log(self.original_length))


@dataclass(frozen=True)
class Llama3:
    """Three bands: short waves stay, long ones are divided by `factor`, a smooth passage between.

    Llama 3.1's reference program; Grattafiori et al., "The Llama 3 Herd of Models", arXiv 2407.21783, section 3.4.2.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_length: int

    def __post_init__(self) -> None:
        if self.high_freq_factor <= self.low_freq_factor:
            raise ArgumentError(
                "number",
                name="high_freq_factor",
                expected=f"larger than low_freq_factor={self.low_freq_factor}",
                value=self.high_freq_factor,
            )

    def frequencies(self, rotary_dim: int, base: float, length: int | None) -> tuple[Array, float]:
        plain = _plain(rotary_dim, base)
        turns = self.original_length * plain / (2 * math.pi)
        passage = (turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)
        kept = np.clip(passage, 0, 1)
        return plain / self.factor * (1 - kept) + plain * kept, 1.0
