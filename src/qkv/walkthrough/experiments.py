"""Small experiments done on the spot, so that a reason is seen and not believed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..ops import softmax
from ..ops.precision import Array


@dataclass(frozen=True)
class Saturation:
    """What happens to the softmax of one row of scores, averaged over many rows.

    Attributes
    ----------
    d_k : int
    scaled : bool
        Whether the scores were divided by sqrt(d_k).
    spread : float
        Standard deviation of the scores.
    largest : float
        The largest weight of a row, on average.
    gradient : float
        The largest slope dw_j / ds_j = w_j (1 - w_j) of a row, on average; 1/4 at most.
    """

    d_k: int
    scaled: bool
    spread: float
    largest: float
    gradient: float


def saturation(n: int, widths: tuple[int, ...] = (4, 512), rows: int = 1000, seed: int = 42) -> list[Saturation]:
    """Scores of random queries with `n` random keys, narrow and wide, with and without scaling.

    Parameters
    ----------
    n : int
        Keys in a row.
    widths : tuple of int
        The d_k to try.
    rows : int
        How many rows are averaged.
    seed : int

    Examples
    --------
    >>> wide = saturation(7)[2]
    >>> wide.d_k, wide.scaled, round(wide.largest, 2)
    (512, False, 0.95)
    """
    found = []
    for d_k in widths:
        rng = np.random.default_rng(seed)
        q, k = rng.normal(size=(rows, 1, d_k)), rng.normal(size=(rows, n, d_k))
        raw = (q @ k.mT)[:, 0]
        for scaled in (False, True):
            scores = raw / np.sqrt(d_k) if scaled else raw
            w = softmax(scores)
            slope = (w * (1 - w)).max(axis=-1)
            found.append(
                Saturation(d_k, scaled, float(scores.std()), float(w.max(axis=-1).mean()), float(slope.mean()))
            )
    return found


@dataclass(frozen=True)
class Overflow:
    """A row of scores through exp, with and without its maximum taken off first.

    Attributes
    ----------
    scores : (3,) ndarray
        float32 or float64.
    naive_exp : (3,) ndarray
    naive : (3,) ndarray
        naive_exp divided by its sum.
    stable : (3,) ndarray
        The softmax with the maximum taken off.
    """

    scores: Array
    naive_exp: Array
    naive: Array
    stable: Array


def overflow() -> list[Overflow]:
    """[100, 200, 300] in double and in single precision, and ten times as much in double precision.

    Examples
    --------
    >>> [bool(np.isfinite(case.naive).all()) for case in overflow()]
    [True, False, False]
    """
    small = np.array([100.0, 200.0, 300.0])
    found = []
    for scores in (small, small.astype(np.float32), 10 * small):
        with np.errstate(over="ignore", invalid="ignore"):
            naive_exp = np.exp(scores)
            naive = naive_exp / naive_exp.sum()
        found.append(Overflow(scores, naive_exp, naive, softmax(scores)))
    return found
