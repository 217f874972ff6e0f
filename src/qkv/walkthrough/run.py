"""A finished run of attention on a sentence: what the steps are laid out from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..ops.precision import Array
from .setup import Setup


@dataclass(frozen=True)
class Run:
    """Everything that was computed, and which row is looked at in full.

    Attributes
    ----------
    values : dict of str to ndarray
        As in `Walkthrough`.
    heads : list of (n, n) ndarray
    multi_head_output : (n, d_model) ndarray or None
    W_O : (heads * d_v, d_model) ndarray or None
    row : int
    """

    setup: Setup
    tokens: tuple[str, ...]
    values: dict[str, Array]
    heads: list[Array]
    multi_head_output: Array | None
    W_O: Array | None
    row: int

    @property
    def n(self) -> int:
        return len(self.tokens)

    @property
    def visible(self) -> Array | None:
        """(n, n), which keys each query may look at; None: all."""
        return np.tri(self.n, dtype=bool) if self.setup.causal else None

    def numbered(self, width: int) -> tuple[str, ...]:
        """Column labels 0, 1, 2, ..."""
        return tuple(str(i) for i in range(width))
