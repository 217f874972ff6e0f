"""Normalisation: bring the features of each token to a common size."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..contract import op
from ..errors import ShapeError
from .precision import Array, number, widened
from .valid import axes_of, not_negative


@op(x="*B T d_model", centred="*B T d_model", variance="*B T 1", normed="*B T d_model", out="*B T d_model")
def layer_norm(
    x: ArrayLike,
    gamma: ArrayLike | None = None,
    beta: ArrayLike | None = None,
    eps: float = 1e-5,
    axis: int | tuple[int, ...] = -1,
) -> Array:
    """Shift each token to mean 0, stretch it to variance 1, then apply a learnt stretch and shift.

    Parameters
    ----------
    x : (..., T, d_model) array_like
    gamma, beta : (d_model,) array_like, optional
        The learnt stretch and shift, of the shape of the normalised axes.
    eps : float
        Added to the variance, inside the root. With 0, features that are all equal give NaN (0 / 0).
    axis : int or tuple of int
        The axes that are normalised.

    Returns
    -------
    (..., T, d_model) ndarray
        Same dtype as `x`.

    Raises
    ------
    ShapeError, DtypeError, ArgumentError

    Notes
    -----
    gamma (x - mean) / sqrt(var + eps) + beta, the variance divided by d_model, not d_model - 1
    (Ba, Kiros, Hinton, "Layer Normalization", arXiv 1607.06450, section 3).

    Examples
    --------
    >>> layer_norm([[1.0, 2.0, 6.0]], eps=0).round(4)
    array([[-0.9258, -0.4629,  1.3887]])
    """
    x, dtype, axes = _read(x, eps, axis)
    with np.errstate(all="ignore"):
        centred = x - x.mean(axis=axes, keepdims=True)
        variance = mean_of_squares(centred, axes)
        normed = centred / np.sqrt(variance + eps)
        out = _affine(normed, gamma, beta, axes)
    return out.astype(dtype, copy=False)


@op(x="*B T d_model", mean_square="*B T 1", normed="*B T d_model", out="*B T d_model")
def rms_norm(
    x: ArrayLike, gamma: ArrayLike | None = None, eps: float = 1e-6, axis: int | tuple[int, ...] = -1
) -> Array:
    """Stretch each token to root mean square 1, then apply a learnt stretch.

    Parameters
    ----------
    x : (..., T, d_model) array_like
    gamma : (d_model,) array_like, optional
    eps : float
        Added to the mean square, inside the root. With 0, features that are all 0 give NaN (0 / 0).
    axis : int or tuple of int

    Returns
    -------
    (..., T, d_model) ndarray
        Same dtype as `x`.

    Raises
    ------
    ShapeError, DtypeError, ArgumentError

    Notes
    -----
    gamma x / sqrt(mean(x^2) + eps) (Zhang, Sennrich, "Root Mean Square Layer Normalization", arXiv 1910.07467, 4).

    Examples
    --------
    >>> rms_norm([[3.0, 4.0]], eps=0).round(4)
    array([[0.8485, 1.1314]])
    """
    x, dtype, axes = _read(x, eps, axis)
    with np.errstate(all="ignore"):
        mean_square = mean_of_squares(x, axes)
        normed = x / np.sqrt(mean_square + eps)
        out = _affine(normed, gamma, None, axes)
    return out.astype(dtype, copy=False)


def _read(x: ArrayLike, eps: float, axis: int | tuple[int, ...]) -> tuple[Array, np.dtype[Any], tuple[int, ...]]:
    """`x` in its working dtype, the dtype of the answer, and the axes that are normalised."""
    x, dtype = widened("x", x)
    not_negative("eps", eps)
    if x.ndim == 0:
        raise ShapeError("axes", name="x", expected=1, axes="(..., d_model)", shape=x.shape)
    return x, dtype, axes_of(axis, x.ndim)


def mean_of_squares(x: Array, axis: tuple[int, ...]) -> Array:
    """The mean of x^2 along the axes, which are kept; in float64 where a float32 square overflows, which may warn."""
    mean = _mean(x * x, axis)
    if x.dtype != np.float64 and np.isinf(mean).any():
        mean = _mean(np.square(x, dtype=np.float64), axis)
    return mean


def _mean(x: Array, axis: tuple[int, ...]) -> Array:
    """`x.mean`, without what it does for other dtypes: for a single token that is half of its time."""
    total = np.add.reduce(x, axis=axis, keepdims=True)
    return total / (x.size // max(1, total.size))


def _affine(normed: Array, gamma: ArrayLike | None, beta: ArrayLike | None, axes: tuple[int, ...]) -> Array:
    """gamma * normed + beta, with gamma and beta laid along the normalised axes."""
    expected = tuple([normed.shape[a] for a in axes])

    def laid(name: str, values: ArrayLike) -> Array:
        values = number(name, values).astype(normed.dtype, copy=False)
        if values.shape != expected:
            raise ShapeError("shape", name=name, expected=expected, shape=values.shape)
        if axes == (normed.ndim - 1,):
            return values
        return values.reshape([normed.shape[a] if a in axes else 1 for a in range(normed.ndim)])

    if gamma is not None:
        normed = normed * laid("gamma", gamma)
    return normed if beta is None else normed + laid("beta", beta)
