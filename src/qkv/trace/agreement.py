"""Two runs of one model by two implementations: how far each step is from the other, and where they part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import words
from ..ops.precision import Array


@dataclass(frozen=True)
class Compared:
    """One step of both runs beside each other.

    Attributes
    ----------
    path : str
    error : float
        |ours - theirs| / |theirs|, in the Euclidean norm over the whole step; NaN where shapes differ.
    allowed : float
        The most that counts as equal.
    size : float
        The largest absolute difference of a number.
    index : tuple of int
        Where that is.
    ours, theirs : float or tuple
        The two numbers there; or the two shapes.
    """

    path: str
    error: float
    allowed: float
    size: float
    index: tuple[int, ...]
    ours: Any
    theirs: Any

    @property
    def equal(self) -> bool:
        return self.error <= self.allowed

    @property
    def layer(self) -> int | None:
        """The layer that it belongs to."""
        parts = self.path.split(".")
        return int(parts[1]) if parts[0] == "layers" else None


@dataclass(frozen=True, eq=False)
class Verified:
    """Both runs, step by step.

    Attributes
    ----------
    steps : tuple of Compared
        In the order of computation.
    unseen : tuple of str
        Steps that are computed here and not told by the reference: those of the same part before the first step that
        differs, and those since the last step that was compared. What is wrong may stand in any of them.
    ids : (T,) ndarray of int
    about : dict of str to str
        What the reference says of itself.
    """

    steps: tuple[Compared, ...]
    unseen: tuple[str, ...]
    ids: Array
    about: dict[str, str]

    @property
    def equal(self) -> bool:
        """Whether every step agrees."""
        return self.first is None

    @property
    def first(self) -> Compared | None:
        """The first step that differs."""
        return next((step for step in self.steps if not step.equal), None)

    def growth(self) -> dict[int, float]:
        """The largest error of each layer."""
        found: dict[int, float] = {}
        for step in self.steps:
            if step.layer is not None:
                found[step.layer] = float(np.maximum(found.get(step.layer, 0.0), step.error))  # NaN stays
        return found

    def __str__(self) -> str:
        lang, first = words.language(), self.first
        if first is None:
            return words.say("verify.equal", lang, n=len(self.steps))
        facts = {"path": first.path, "error": first.error, "ours": first.ours, "theirs": first.theirs}
        kind = "differs" if isinstance(first.ours, float) else "shape"
        return words.say(f"verify.{kind}", lang, **facts, size=first.size, index=first.index)


def compare(path: str, ours: Array, theirs: Array, allowed: float) -> Compared:
    """How far a step of one run is from that of another.

    Examples
    --------
    >>> found = compare("a", np.array([3.0, 4.5]), np.array([3.0, 4.0]), allowed=0.01)
    >>> found.error, found.size, found.index, found.equal
    (0.1, 0.5, (1,), False)
    """
    if ours.shape != theirs.shape:
        return Compared(path, float("nan"), allowed, float("nan"), (), ours.shape, theirs.shape)
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        gap = np.where(same, 0.0, np.abs(a - b))
    worst = np.unravel_index(int(np.argmax(np.where(np.isnan(gap), np.inf, gap))), gap.shape) if gap.size else ()
    index = tuple(int(i) for i in worst)
    norm = float(np.linalg.norm(np.where(np.isfinite(b), b, 0)))
    error = float(np.linalg.norm(gap)) / (norm or 1.0)
    if not gap.size:
        return Compared(path, 0.0, allowed, 0.0, (), 0.0, 0.0)
    return Compared(path, error, allowed, float(gap[index]), index, float(a[index]), float(b[index]))
