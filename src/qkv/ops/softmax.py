"""Softmax and its relatives: exponentials that sum to one, without overflow."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .precision import Array, widened
from .valid import axis_of


def softmax(x: ArrayLike, axis: int = -1) -> Array:
    """Turn scores into weights that are positive and sum to one along an axis.

    Parameters
    ----------
    x : (...) array_like
        Scores. Any float dtype; integers are computed in float64.
    axis : int
        The axis along which the weights sum to one.

    Returns
    -------
    (...) ndarray
        Same shape and dtype as `x`. A slice of nothing but -inf has no softmax and gives NaN.

    Notes
    -----
    softmax(x)_j = exp(x_j - m) / sum_j exp(x_j - m) with m = max x. Subtracting m changes nothing in exact
    arithmetic and keeps exp from overflowing (Goodfellow, Bengio, Courville, "Deep Learning", section 4.1).

    Examples
    --------
    >>> softmax([1.0, 2.0, 3.0]).round(4)
    array([0.09  , 0.2447, 0.6652])
    """
    x, dtype = widened("x", x)
    axis = axis_of(axis, x.ndim)
    with np.errstate(invalid="ignore"):
        exp = np.exp(x - x.max(axis=axis, keepdims=True, initial=-np.inf))
        return (exp / exp.sum(axis=axis, keepdims=True)).astype(dtype, copy=False)


def logsumexp(x: ArrayLike, axis: int = -1, keepdims: bool = False) -> Array:
    """The logarithm of a sum of exponentials, without overflow.

    Parameters
    ----------
    x : (...) array_like
    axis : int
        The axis that is summed.
    keepdims : bool
        Keep the summed axis with size 1.

    Returns
    -------
    ndarray
        `x` without `axis`, same dtype. A slice of nothing but -inf, or an empty one, gives -inf.

    Notes
    -----
    log sum_j exp(x_j) = m + log sum_j exp(x_j - m), m = max x.

    Examples
    --------
    >>> logsumexp([1000.0, 1000.0]).round(4)
    np.float64(1000.6931)
    """
    x, dtype = widened("x", x)
    axis = axis_of(axis, x.ndim)
    top = x.max(axis=axis, keepdims=True, initial=-np.inf)
    shift = np.where(np.isinf(top), 0, top)  # an infinite maximum must not meet itself in a subtraction
    with np.errstate(divide="ignore", over="ignore"):
        result = shift + np.log(np.exp(x - shift).sum(axis=axis, keepdims=True))
    return (result if keepdims else result.squeeze(axis)).astype(dtype, copy=False)[()]


def log_softmax(x: ArrayLike, axis: int = -1) -> Array:
    """The logarithm of `softmax`, exact where the softmax itself would underflow to zero.

    Parameters
    ----------
    x : (...) array_like
    axis : int

    Returns
    -------
    (...) ndarray
        Same shape and dtype as `x`.

    Notes
    -----
    log softmax(x)_j = (x_j - m) - log sum_j exp(x_j - m), m = max x.

    Examples
    --------
    >>> log_softmax([0.0, 1000.0])
    array([-1000.,     0.])
    """
    x, dtype = widened("x", x)
    axis = axis_of(axis, x.ndim)
    with np.errstate(invalid="ignore"):
        shifted = x - x.max(axis=axis, keepdims=True, initial=-np.inf)
        return (shifted - logsumexp(shifted, axis=axis, keepdims=True)).astype(dtype, copy=False)
