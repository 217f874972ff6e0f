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
    seen : (n, n) bool ndarray or None
        Which keys each query may look at, where the set-up does not say it.
    stages : tuple of (str, (n, n) ndarray)
        The scores on their way to the softmax, where more happens to them than a division by √d_k.
    keys : tuple of str
        The tokens that are looked at, where they are not those that look.
    """

    setup: Setup
    tokens: tuple[str, ...]
    values: dict[str, Array]
    heads: list[Array]
    multi_head_output: Array | None
    W_O: Array | None
    row: int
    seen: Array | None = None
    stages: tuple[tuple[str, Array], ...] = ()
    keys: tuple[str, ...] = ()

    @property
    def looked_at(self) -> tuple[str, ...]:
        """The tokens of the keys: another sequence's in cross attention."""
        return self.keys or self.tokens

    @property
    def n(self) -> int:
        return len(self.tokens)

    @property
    def visible(self) -> Array | None:
        """(n, n), which keys each query may look at; None: all."""
        return np.tri(self.n, dtype=bool) if self.setup.causal else self.seen

    def numbered(self, width: int) -> tuple[str, ...]:
        """Column labels 0, 1, 2, ..."""
        return tuple(str(i) for i in range(width))
