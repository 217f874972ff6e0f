"""From logits to the next token: small functions, each from logits (vocab_size,) to logits."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ...errors import ArgumentError
from ...ops import softmax
from ...ops.precision import Array


def finite(logits: Array) -> Array:
    """The logits (..., vocab_size), if the largest of each row is a number: of others no token follows.

    Raises
    ------
    ArgumentError

    Examples
    --------
    >>> finite(np.array([-np.inf, 0.0]))
    array([-inf,   0.])
    """
    largest = logits.max(axis=-1)
    if not np.isfinite(largest).all():
        raise ArgumentError("logits", what="NaN" if np.isnan(largest).any() else "no finite largest one")
    return logits


def temperature(logits: Array, t: float) -> Array:
    """Divided by `t`: below 1 the likely becomes likelier, above 1 all become more alike.

    Examples
    --------
    >>> temperature(np.array([2.0, 1.0]), 0.5)
    array([4., 2.])
    """
    with np.errstate(over="ignore"):
        return logits / t


def top_k(logits: Array, k: int) -> Array:
    """Only the `k` largest, and what equals the last of them (Fan et al., arXiv 1805.04833, section 5.4).

    Examples
    --------
    >>> top_k(np.array([1.0, 3.0, 2.0]), 2)
    array([-inf,   3.,   2.])
    """
    if k >= len(logits):
        return logits
    return np.where(logits < np.partition(logits, -k)[-k], -np.inf, logits)


def top_p(logits: Array, p: float) -> Array:
    """The fewest of the likeliest whose probabilities reach `p` together (Holtzman et al., arXiv 1904.09751, 3.1).

    Examples
    --------
    >>> top_p(np.log([0.1, 0.5, 0.4]), 0.8).round(4)
    array([   -inf, -0.6931, -0.9163])
    """
    order = np.argsort(-logits, kind="stable")
    likely = softmax(logits[order])
    unneeded = np.cumsum(likely) - likely >= p  # those before it are enough already
    unneeded[0] = False
    kept = logits.copy()
    kept[order[unneeded]] = -np.inf
    return kept


def min_p(logits: Array, p: float) -> Array:
    """Only what is at least `p` times as likely as the likeliest (Nguyen et al., arXiv 2407.01082, section 3).

    Examples
    --------
    >>> min_p(np.log([0.1, 0.5, 0.4]), 0.5).round(4)
    array([   -inf, -0.6931, -0.9163])
    """
    likely = softmax(logits)
    return np.where(likely < p * likely.max(), -np.inf, logits)


def repetition_penalty(logits: Array, seen: Collection[int], penalty: float) -> Array:
    """What was there before becomes less likely: divided by `penalty`, or multiplied where it is negative.

    Keskar et al., arXiv 1909.05858, section 4.1, and the custom of treating negative logits the other way round.

    Examples
    --------
    >>> repetition_penalty(np.array([2.0, -1.0, 3.0]), {0, 1}, 2.0)
    array([ 1., -2.,  3.])
    """
    penalised, places = logits.copy(), np.fromiter(seen, np.intp)
    found = logits[places]
    penalised[places] = np.where(found < 0, found * penalty, found / penalty)
    return penalised


def drawn(logits: Array, rng: np.random.Generator) -> int:
    """One token, each as often as its probability says.

    Examples
    --------
    >>> drawn(np.array([-np.inf, 0.0]), np.random.default_rng(0))
    1
    """
    return drawn_from(softmax(logits.astype(np.float64)), rng)


def drawn_from(odds: Array, rng: np.random.Generator) -> int:
    """One token, each as often as `odds` (vocab_size,) says; they need not add up to 1.

    Examples
    --------
    >>> drawn_from(np.array([0.0, 0.2]), np.random.default_rng(0))
    1
    """
    reached = np.cumsum(odds)
    return int(np.searchsorted(reached, rng.random() * reached[-1], side="right"))
