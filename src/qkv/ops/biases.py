"""Rules that add to the scores by position: ALiBi, T5's relative bias, your own. They add up with `+`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..errors import DtypeError, ShapeError
from .precision import Array, number
from .valid import integer

Added = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class Bias:
    """What is added to the score of the query at position i and the key at position j.

    Attributes
    ----------
    added : callable (i, j) -> float ndarray
        `i` (Tq, 1) and `j` (1, Tk) positions; the result broadcasts to (H, Tq, Tk).
    name : str
        How the bias was made, for messages.
    relative : bool
        The number depends on j - i alone, so that a tile needs it once for each distance.
    """

    added: Added
    name: str = "custom"
    relative: bool = False

    def __call__(self, i: ArrayLike, j: ArrayLike) -> Array:
        """Float (..., Tq, Tk) for positions `i` (Tq,) and `j` (Tk,)."""
        i, j = np.asarray(i), np.asarray(j)
        return self.added(i[..., :, None], j[..., None, :])

    def __add__(self, other: Bias) -> Bias:
        if not isinstance(other, Bias):
            raise DtypeError("dtype", name="the right side of +", expected="a bias", dtype=type(other).__name__)
        name, relative = f"({self.name} + {other.name})", self.relative and other.relative
        return Bias(lambda i, j: self.added(i, j) + other.added(i, j), name, relative)

    def shifted(self, starts: Array) -> Bias:
        """The same for sequences (B,) whose first position stands at `starts`, behind padding."""
        start = starts[:, None, None, None]
        return Bias(lambda i, j: self.added(i - start, j - start), self.name, self.relative)


def alibi_slopes(n_heads: int) -> Array:
    """The slopes of ALiBi, one per head, for any number of heads.

    Parameters
    ----------
    n_heads : int

    Returns
    -------
    (n_heads,) float64 ndarray

    Notes
    -----
    For n = 2^p heads the slopes are 2^(-8 h / n), h = 1..n. Otherwise those of the power of two below come first, and
    every other slope of the power of two above fills up (Press et al., "Train Short, Test Long", arXiv 2108.12409,
    section 3 and the authors' program).

    Examples
    --------
    >>> alibi_slopes(6)
    array([0.25      , 0.0625    , 0.015625  , 0.00390625, 0.5       ,
           0.125     ])
    """
    n_heads = integer("n_heads", n_heads, 1)
    below = 1 << (n_heads.bit_length() - 1)

    def powers(n: int) -> Array:
        return 2.0 ** (-8.0 * np.arange(1, n + 1) / n)

    return np.concatenate([powers(below), powers(2 * below)[::2][: n_heads - below]])


def alibi(n_heads: int, *, symmetric: bool = False) -> Bias:
    """ALiBi: each head's penalty grows linearly with how far back a key lies.

    Parameters
    ----------
    n_heads : int
    symmetric : bool
        Also penalise keys that come later, for encoders. By default those get 0 (a causal mask hides them).

    Examples
    --------
    >>> alibi(8)(range(3), range(3))[0]
    array([[ 0. ,  0. ,  0. ],
           [-0.5,  0. ,  0. ],
           [-1. , -0.5,  0. ]])
    """
    slopes = alibi_slopes(n_heads)[:, None, None]

    def added(i: Array, j: Array) -> Array:
        distance = np.abs(i - j) if symmetric else np.maximum(i - j, 0)
        return -slopes * distance + 0.0  # positions of their own for each member bring an axis for the heads

    return Bias(added, f"alibi({n_heads})", relative=True)


def t5_buckets(distance: Array, n_buckets: int, max_distance: int, bidirectional: bool) -> Array:
    """T5's bucket of each distance j - i: exact when near, logarithmic when far.

    Raffel et al., arXiv 1910.10683, section 2.1, and the authors' program.

    Examples
    --------
    >>> t5_buckets(np.array([-200, -9, -1, 0, 1, 9, 200]), 32, 128, True)
    array([15,  8,  1,  0, 17, 24, 31])
    """
    bucket = np.zeros(distance.shape, np.int64)
    if bidirectional:
        n_buckets //= 2
        bucket += np.where(distance > 0, n_buckets, 0)
        far = np.abs(distance)
    else:
        far = np.maximum(-distance, 0)
    exact = n_buckets // 2
    steps = np.log(np.maximum(far, 1) / exact) / np.log(max_distance / exact) * (n_buckets - exact)
    logarithmic = np.minimum(exact + np.maximum(steps, 0).astype(np.int64), n_buckets - 1)
    return bucket + np.where(far < exact, far, logarithmic)


def t5_relative(table: ArrayLike, *, bidirectional: bool, max_distance: int = 128) -> Bias:
    """T5's relative bias: a learnt number per head for each bucket of distances.

    Parameters
    ----------
    table : (n_buckets, n_heads) array_like
    bidirectional : bool
        True in an encoder, where half of the buckets are for later keys; False in a decoder.
    max_distance : int
        From here on every distance shares the last bucket.

    Examples
    --------
    >>> t5_relative(np.arange(64.0).reshape(32, 2), bidirectional=False)(range(3), range(3))[1]
    array([[1., 1., 1.],
           [3., 1., 1.],
           [5., 3., 1.]])
    """
    table = number("table", table)
    if table.ndim != 2:
        raise ShapeError("shape", name="table", expected="(n_buckets, n_heads)", shape=table.shape)

    def added(i: Array, j: Array) -> Array:
        buckets = t5_buckets(j - i, table.shape[0], max_distance, bidirectional)
        return np.moveaxis(table[buckets if buckets.ndim == 2 else buckets[..., 0, :, :]], -1, -3)

    return Bias(added, "t5_relative", relative=True)


def custom(added: Added, name: str = "custom") -> Bias:
    """A bias of your own: a function of the positions `i` (Tq, 1) and `j` (1, Tk) that gives numbers.

    Examples
    --------
    >>> custom(lambda i, j: np.where(i == j, 1.0, 0.0))(range(2), range(3))
    array([[1., 0., 0.],
           [0., 1., 0.]])
    """
    return Bias(added, name)
