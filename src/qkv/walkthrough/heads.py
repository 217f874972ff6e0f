"""What a head does, as numbers. Every definition is stated; none changes its input."""

from __future__ import annotations

import numpy as np

from ..ops.precision import Array


def entropy_ratio(weights: Array, visible: Array | None = None) -> float:
    """How evenly a head looks: 0 looks at a single key, 1 at all visible keys alike.

    Parameters
    ----------
    weights : (n, m) ndarray
    visible : (n, m) bool ndarray, optional

    Returns
    -------
    float
        Mean over rows of -sum p ln p / ln(number of visible keys); rows that see a single key do not count. NaN when
        none does.

    Examples
    --------
    >>> entropy_ratio(np.array([[0.5, 0.5], [1.0, 0.0]]))
    0.5
    """
    p = weights.astype(np.float64)
    seen = np.broadcast_to(True if visible is None else visible, p.shape).sum(axis=-1)
    terms = np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0)
    counted = seen > 1
    if not counted.any():
        return float("nan")
    return float((-terms.sum(axis=-1)[counted] / np.log(seen[counted])).mean()) + 0.0


def strongest_link(weights: Array, visible: Array | None = None) -> tuple[int, int]:
    """The query and the key with the largest weight of all; a query that sees one key alone has no choice: it is last.

    Examples
    --------
    >>> strongest_link(np.array([[0.5, 0.5], [0.1, 0.9]]))
    (1, 1)
    """
    free = np.ones(weights.shape, bool) if visible is None else visible.sum(axis=-1, keepdims=True) > 1
    i, j = np.unravel_index(int(np.argmax(np.where(free, weights, weights - 2))), weights.shape)
    return int(i), int(j)
