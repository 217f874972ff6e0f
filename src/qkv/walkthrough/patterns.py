"""What a head looks at, as numbers: pure functions of its weights. Every definition is stated; none changes its input.

In all of them a query counts only if it sees more than one key: one that sees a single key has no choice. Rows of
padding see none, so they do not count either. Where no query counts, the number is NaN: not applicable, which is not 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..ops.precision import Array

PATTERNS = ("previous", "self", "next", "first", "duplicate", "induction")


@dataclass(frozen=True)
class Look:
    """Where the keys stand of which each pattern adds up the weights.

    Attributes
    ----------
    visible : (n, n) bool ndarray
        Which keys each query may look at.
    targets : dict of str to (n, n) bool ndarray
        For each of `PATTERNS` the keys that it means.
    """

    visible: Array
    targets: dict[str, Array]

    @classmethod
    def at(cls, ids: Sequence[int], visible: Array, own: slice = slice(None)) -> Look:
        """The keys of each pattern in a sequence of tokens; `own` leaves out those that a tokenizer put around it.

        Parameters
        ----------
        ids : (n,) sequence of int
        visible : (n, n) bool ndarray
        own : slice
            The tokens that are looked at, as queries and as keys.

        Notes
        -----
        previous, self, next: keys at the offsets -1, 0, 1. first: the first key. duplicate: other keys with the
        query's own token. induction: the key after another one with the query's own token, never the query itself: what
        a head must look at to go on as the sequence went on before (Olsson et al., "In-context Learning and Induction
        Heads", 2022).

        Examples
        --------
        >>> look = Look.at([7, 8, 7], np.tri(3, dtype=bool))
        >>> np.argwhere(look.targets["duplicate"]).tolist(), np.argwhere(look.targets["induction"]).tolist()
        ([[2, 0]], [[2, 1]])
        """
        n = len(ids)
        inside = np.zeros(n, bool)
        inside[own] = True
        seen = visible & inside[:, None] & inside
        seen = seen & (seen.sum(axis=-1, keepdims=True) > 1)
        i, j = np.arange(n)[:, None], np.arange(n)
        same = (np.asarray(ids)[:, None] == np.asarray(ids)) & (i != j) & inside
        after = np.zeros_like(same)
        after[:, 1:] = same[:, :-1]
        first = int(np.argmax(inside))
        meant = {
            "previous": j == i - 1, "self": j == i, "next": j == i + 1, "first": np.broadcast_to(j == first, (n, n)),
            "duplicate": same, "induction": after & (i != j),
        }  # fmt: skip
        return cls(seen, {name: where & seen for name, where in meant.items()})


def pattern_score(weights: Array, targets: Array) -> Array:
    """How much of its weight a head puts on the keys of a pattern.

    Parameters
    ----------
    weights : (..., n, n) ndarray
    targets : (n, n) bool ndarray
        From `Look`.

    Returns
    -------
    (...) ndarray
        The weight on these keys, added up in each row that has one, as a mean over those rows.

    Examples
    --------
    >>> look = Look.at([7, 8, 9], np.tri(3, dtype=bool))
    >>> w = np.array([[1.0, 0.0, 0.0], [0.8, 0.2, 0.0], [0.1, 0.6, 0.3]])
    >>> round(float(pattern_score(w, look.targets["previous"])), 3)
    0.7
    """
    rows = targets.any(axis=-1)
    if not rows.any():
        return np.full(weights.shape[:-2], np.nan)
    return np.where(targets, weights.astype(np.float64), 0).sum(axis=-1)[..., rows].mean(axis=-1)


def chance(look: Look, pattern: str) -> float:
    """The score of a head that looks at all visible keys alike."""
    even = look.visible / np.maximum(look.visible.sum(axis=-1, keepdims=True), 1)
    return float(pattern_score(even, look.targets[pattern]))


def entropy(weights: Array, visible: Array) -> tuple[Array, Array]:
    """How evenly a head looks: in nats, and as a part of the most that is possible.

    Parameters
    ----------
    weights : (..., n, m) ndarray
    visible : (n, m) bool ndarray
        Weights elsewhere are left out, and the rest of a row is made to sum to 1 again.

    Returns
    -------
    nats, ratio : (...) ndarray
        Means over the rows that see more than one key of -sum p ln p, and of that divided by ln(number of visible
        keys). A row whose visible keys got no weight at all counts in neither.

    Examples
    --------
    >>> nats, ratio = entropy(np.array([[1.0, 0.0], [0.5, 0.5]]), np.tri(2, dtype=bool))
    >>> round(float(nats), 4), float(ratio)
    (0.6931, 1.0)
    """
    p = np.where(visible, weights.astype(np.float64), 0)
    total, n_keys = p.sum(axis=-1), visible.sum(axis=-1)
    p = p / np.where(total > 0, total, 1)[..., None]
    nats = -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(axis=-1)
    ratio = nats / np.log(np.maximum(n_keys, 2))
    counted = (total > 0) & (n_keys > 1)
    return _mean(nats, counted), _mean(ratio, counted)


def entropy_ratio(weights: Array, visible: Array | None = None) -> float:
    """The second number of `entropy`, of one head's weights (n, m): 0 looks at a single key, 1 at all alike.

    Examples
    --------
    >>> entropy_ratio(np.array([[0.5, 0.5], [1.0, 0.0]]))
    0.5
    """
    _, ratio = entropy(weights, np.ones(weights.shape, bool) if visible is None else visible)
    return float(ratio) + 0.0  # no -0


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


def contributions(weights: Array, v: Array, W_O: Array) -> Array:
    """What each key really adds to each query, as a share: a key with much weight may have next to no value.

    Parameters
    ----------
    weights : (H, n, n) ndarray
    v : (Hkv, n, d_v) ndarray
        A value head may serve several query heads.
    W_O : (H * d_v, d_model) ndarray

    Returns
    -------
    (H, n, n) ndarray
        |weights[h, i, j] v[j] W_O[h]| in the Euclidean norm, divided by the sum of its row; 0 in a row without any.

    Notes
    -----
    Kobayashi et al., "Attention is Not Only a Weight: Analyzing Transformers with Vector Norms", arXiv 2004.10102,
    section 3.

    Examples
    --------
    >>> contributions(np.array([[[0.5, 0.5]]]), np.array([[[3.0], [1.0]]]), np.ones((1, 2)))
    array([[[0.75, 0.25]]])
    """
    n_heads, d_v = len(weights), v.shape[-1]
    values = np.repeat(v.astype(np.float64), n_heads // len(v), axis=0)
    given = np.linalg.norm(values @ W_O.astype(np.float64).reshape(n_heads, d_v, -1), axis=-1)
    norms = weights * given[:, None, :]
    total = norms.sum(axis=-1, keepdims=True)
    return norms / np.where(total > 0, total, 1)


def _mean(values: Array, counted: Array) -> Array:
    """Over the rows that count; NaN without any."""
    n = counted.sum(axis=-1)
    return np.where(n > 0, np.where(counted, values, 0).sum(axis=-1) / np.maximum(n, 1), np.nan)
