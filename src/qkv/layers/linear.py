"""Rows times matrices: one product for all rows, and for all matrices that read the same rows."""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np

from ..errors import ShapeError
from ..ops.precision import Array, number
from .narrow import NARROW, narrow_product

FEW, LARGE = 5, 1 << 16  # measured: rows, and numbers of a matrix, for which a row at a time is 1.4 to 2.5 times faster


def linear(x: Array, W: Array, b: Array | None = None) -> Array:
    """x W + b for every row of `x` (..., d_in); one product for all rows, where NumPy would do one per batch member."""
    x = number("x", x)
    if x.ndim == 0 or x.shape[-1] != W.shape[0]:
        raise ShapeError("width", name="x", size=x.shape[-1] if x.ndim else 0, weights=W.shape, expected=W.shape[0])
    flat = x if x.ndim <= 2 else x.reshape(-1, x.shape[-1])
    product = narrow_product(flat, W) if W.dtype in NARROW or x.dtype in NARROW else rows_times(flat, W)
    shaped = product if x.ndim <= 2 else product.reshape(*x.shape[:-1], W.shape[-1])
    return plus(shaped, b)


def rows_times(x: Array, W: Array) -> Array:
    """x W for `x` (d_in,) or (n, d_in); a few rows one by one, which is faster than to pack all of W for them.

    Examples
    --------
    >>> rows_times(np.ones((2, 3)), np.eye(3, 2))
    array([[1., 1.],
           [1., 1.]])
    """
    stored_by_output = W.strides[0] < W.strides[1]  # as files have it
    if x.ndim == 2 and 1 < len(x) <= FEW and W.size >= LARGE and stored_by_output:
        return (x[:, None, :] @ W)[:, 0]
    return x @ W


def plus(x: Array, b: Array | None) -> Array:
    """`x` and a bias, where there is one."""
    return x if b is None else x + b


class Joined:
    """Matrices (d_in, d_out_1), (d_in, d_out_2), ... of one dtype, side by side in one piece of memory.

    With a single row a product takes as long as its matrix takes to be read, and a start beside: of three products,
    two starts are saved.

    Attributes
    ----------
    whole : (d_in, d_out_1 + d_out_2 + ...) ndarray
    places : list of slice
        Which columns of it each matrix is.
    parts : tuple of ndarray
        The same matrices, as views of the whole: what is changed in them counts.
    """

    def __init__(self, *matrices: Array) -> None:
        self.whole = np.concatenate([W.T for W in matrices]).T  # as files have them: each output's weights in a row
        ends = [0, *accumulate(W.shape[1] for W in matrices)]
        self.places = [slice(start, end) for start, end in pairwise(ends)]
        self.parts = tuple(self.whole[:, place] for place in self.places)

    def holds(self, matrices: tuple[Array, ...]) -> bool:
        """Whether these are still its parts, none replaced and none moved."""
        for mine, given in zip(self.parts, matrices):  # noqa: SIM110  (asked for each token: a generator takes as long)
            if mine is not given:
                return False
        return True


def products(joined: Joined | None, x: Array, *matrices: Array) -> list[Array]:
    """`x` (..., d_in) times each of the matrices: at once, if they are still the parts of `joined`.

    Examples
    --------
    >>> joined = Joined(np.eye(2), np.full((2, 1), 3.0))
    >>> products(joined, np.array([[4.0, 5.0]]), *joined.parts)
    [array([[4., 5.]]), array([[27.]])]
    """
    if joined is None or not joined.holds(matrices):
        return [linear(x, W) for W in matrices]
    whole = linear(x, joined.whole)
    return [whole[..., place] for place in joined.places]


def can_join(*matrices: Array) -> bool:
    """Whether they are of one dtype: joined, a narrower one would be widened."""
    return len({W.dtype for W in matrices}) == 1
