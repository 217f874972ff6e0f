"""The rotations of all layers: most models have one for all, which is computed once and not in every layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..layers import Block, Rotary
from ..layers.attention import Tables
from ..ops.precision import Array


@dataclass(frozen=True)
class Rotations:
    """The rotations that differ.

    Attributes
    ----------
    rotaries : tuple of Rotary
    d_k : int
        The width of a head.
    """

    rotaries: tuple[Rotary, ...]
    d_k: int

    @classmethod
    def of(cls, layers: Sequence[Block], d_k: int) -> Rotations:
        found = dict.fromkeys(layer.attention.rotary for layer in layers)
        return cls(tuple(rotary for rotary in found if rotary is not None), d_k)

    def tables(self, positions: Array, dtype: np.dtype[Any]) -> dict[Rotary | None, Tables]:
        """cos and sin of each, as a layer's `positions`."""
        found: dict[Rotary | None, Tables] = {}
        for rotary in self.rotaries:
            cos, sin = rotary.tables(positions, self.d_k)
            found[rotary] = (cos.astype(dtype), sin.astype(dtype))
        return found

    def regime(self, length: int) -> tuple[int, ...]:
        """Sequences of two lengths are turned alike if this is the same."""
        return tuple(rotary.regime(length) for rotary in self.rotaries if rotary.by_length)
