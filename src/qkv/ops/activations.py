"""The bends between two matrices: GELU, SiLU, and the gated feed-forward layers built on them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.polynomial.chebyshev import chebval
from numpy.typing import ArrayLike

from ..contract import op
from ..errors import ArgumentError, ShapeError
from .precision import Array, answer_dtype, number, widened, working_dtype

# g in erfc(x) = t exp(-x^2 + g(2t - 1)), t = 2 / (2 + x): printed by scripts/make_erfc_coefficients.py
_ERFC = np.array([
    -0.65132685989085472, 0.64196979235649026, 0.019476473204185836, -0.0095615147868086316,
    -0.00094659534448203687, 0.00036683949785276145, 4.2523324806907772e-5, -2.0278578112534243e-5,
    -1.6242900046470255e-6, 1.3036558355805232e-6, 1.5626441722066143e-8, -8.5238095914926543e-8,
    6.5290544390988515e-9, 5.0593434955514689e-9, -9.9136415649303309e-10, -2.2736512229318359e-10,
    9.6467911020155268e-11, 2.3940380830391147e-12, -6.8860275264975534e-12, 8.9448792730907257e-13,
    3.1309213993429581e-13, -1.1270822361367252e-13, 3.8109052551892321e-16, 7.106097613609237e-15,
    -1.5230282014571043e-15, -9.457494571291234e-17, 1.210237189224279e-16, -2.816663087747177e-17,
])  # fmt: skip
# Elements that are worked on at a time: what arises on the way then stays in the cache.
_CHUNK = 1 << 15
_TERMS = {np.dtype(np.float64): 28, np.dtype(np.float32): 14}


def erfc(x: Array) -> Array:
    """1 - erf(x), to 5e-16 in float64; the dtype of `x` is kept.

    Examples
    --------
    >>> erfc(np.array([0.0, 1.0])).round(6)
    array([1.      , 0.157299])
    """
    far = np.abs(x)
    t = 2 / (2 + far)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        tail = t * np.exp(chebval(2 * t - 1, _ERFC[: _TERMS[x.dtype]].astype(x.dtype)) - far * far)
    return np.where(x < 0, 2 - tail, tail)


def gelu(x: ArrayLike, approximate: str = "none") -> Array:
    """x times the chance that a standard normal variable lies below x.

    Parameters
    ----------
    x : (...) array_like
    approximate : {"none", "tanh"}
        "none": exact, by erf. "tanh": the approximation that GPT-2 uses, up to 4.8e-4 away.

    Returns
    -------
    (...) ndarray
        Same shape and dtype as `x`.

    Notes
    -----
    x Phi(x) = x/2 (1 + erf(x / sqrt 2)), or x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
    (Hendrycks, Gimpel, "Gaussian Error Linear Units", arXiv 1606.08415, section 2).

    Examples
    --------
    >>> gelu([-1.0, 0.0, 2.0]).round(4)
    array([-0.1587,  0.    ,  1.9545])
    """
    x, dtype = widened("x", x)
    if approximate not in _BELOW:
        raise ArgumentError("choice", name="approximate", choices=", ".join(_BELOW), value=approximate)
    below = _BELOW[approximate]
    return _by_chunks(lambda part: _times(part, below(part)), x).astype(dtype, copy=False)


def _normal_below(x: Array) -> Array:
    return erfc(-x * x.dtype.type(np.sqrt(0.5))) / 2


def _tanh_below(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return (1 + np.tanh(x.dtype.type(np.sqrt(2 / np.pi)) * (x + x.dtype.type(0.044715) * (x * x * x)))) / 2


_BELOW = {"none": _normal_below, "tanh": _tanh_below}


def silu(x: ArrayLike) -> Array:
    """x times its own sigmoid, also called swish.

    Parameters
    ----------
    x : (...) array_like

    Returns
    -------
    (...) ndarray
        Same shape and dtype as `x`.

    Notes
    -----
    x / (1 + exp(-x)) (Elfwing et al., arXiv 1702.03118, section 2; Ramachandran et al., arXiv 1710.05941).

    Examples
    --------
    >>> silu([-1.0, 0.0, 2.0]).round(4)
    array([-0.2689,  0.    ,  1.7616])
    """
    x, dtype = widened("x", x)
    return _by_chunks(lambda part: _times(part, _sigmoid(part)), x).astype(dtype, copy=False)


def sigmoid(x: ArrayLike) -> Array:
    """From 0 for very negative numbers to 1 for very large ones.

    Parameters
    ----------
    x : (...) array_like

    Returns
    -------
    (...) ndarray
        1 / (1 + exp(-x)), in the dtype of `x`.

    Examples
    --------
    >>> sigmoid([-1.0, 0.0, 2.0]).round(4)
    array([0.2689, 0.5   , 0.8808])
    """
    x, dtype = widened("x", x)
    return _sigmoid(x).astype(dtype, copy=False)


def _sigmoid(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def _times(x: Array, gate: Array) -> Array:
    """x * gate, where -inf times a closed gate is 0, its limit: what is lowest and finite gives that."""
    return np.maximum(x, np.finfo(x.dtype).min) * gate


def _by_chunks(function: Callable[[Array], Array], x: Array) -> Array:
    """An element by element function of a large array, a piece at a time."""
    if x.size <= _CHUNK:
        return function(x)
    flat = x.reshape(-1)
    out = np.empty_like(flat)
    for start in range(0, flat.size, _CHUNK):
        out[start : start + _CHUNK] = function(flat[start : start + _CHUNK])
    return out.reshape(x.shape)


@op(x="*B d_model", gate="*B d_ff", up="*B d_ff", hidden="*B d_ff", out="*B d_model")
def swiglu(x: ArrayLike, W_gate: ArrayLike, W_up: ArrayLike, W_down: ArrayLike) -> Array:
    """A feed-forward layer whose hidden values pass a SiLU gate.

    Parameters
    ----------
    x : (..., d_model) array_like
    W_gate, W_up : (d_model, d_ff) array_like
    W_down : (d_ff, d_model) array_like

    Returns
    -------
    (..., d_model) ndarray

    Notes
    -----
    (silu(x W_gate) * x W_up) W_down (Shazeer, "GLU Variants Improve Transformer", arXiv 2002.05202, equation 6).

    Examples
    --------
    >>> swiglu([[1.0, 2.0]], np.eye(2), np.eye(2), np.eye(2)).round(4)
    array([[0.7311, 3.5232]])
    """
    x, W_gate, W_up, W_down, dtype = _widened_layer(x, W_gate, W_up, W_down)
    gate = silu(x @ W_gate)
    up = x @ W_up
    hidden = gate * up
    out = hidden @ W_down
    return out.astype(dtype, copy=False)


@op(x="*B d_model", gate="*B d_ff", up="*B d_ff", hidden="*B d_ff", out="*B d_model")
def geglu(x: ArrayLike, W_gate: ArrayLike, W_up: ArrayLike, W_down: ArrayLike, approximate: str = "none") -> Array:
    """A feed-forward layer whose hidden values pass a GELU gate.

    Parameters
    ----------
    x : (..., d_model) array_like
    W_gate, W_up : (d_model, d_ff) array_like
    W_down : (d_ff, d_model) array_like
    approximate : {"none", "tanh"}

    Returns
    -------
    (..., d_model) ndarray

    Notes
    -----
    (gelu(x W_gate) * x W_up) W_down (Shazeer, arXiv 2002.05202, equation 6).

    Examples
    --------
    >>> geglu([[1.0, 2.0]], np.eye(2), np.eye(2), np.eye(2)).round(4)
    array([[0.8413, 3.909 ]])
    """
    x, W_gate, W_up, W_down, dtype = _widened_layer(x, W_gate, W_up, W_down)
    gate = gelu(x @ W_gate, approximate)
    up = x @ W_up
    hidden = gate * up
    out = hidden @ W_down
    return out.astype(dtype, copy=False)


def _widened_layer(*arrays: ArrayLike) -> tuple[Array, Array, Array, Array, np.dtype]:
    """Input and weights of one layer in their common working dtype, and the dtype of the answer."""
    named = zip(("x", "W_gate", "W_up", "W_down"), arrays)
    x, W_gate, W_up, W_down = (number(name, array) for name, array in named)
    d_model, d_ff = W_gate.shape if W_gate.ndim == 2 else (-1, -1)
    if x.ndim == 0 or x.shape[-1] != d_model:
        raise ShapeError("width", name="x", size=x.shape[-1] if x.ndim else 0, weights=W_gate.shape, expected=d_model)
    for name, W, expected in (("W_up", W_up, (d_model, d_ff)), ("W_down", W_down, (d_ff, "d_model"))):
        if W.ndim != 2 or W.shape[0] != expected[0] or (name == "W_up" and W.shape != expected):
            raise ShapeError("shape", name=name, expected=expected, shape=W.shape)
    dtype = answer_dtype(x, W_gate, W_up, W_down)
    working = working_dtype(dtype)
    return (
        x.astype(working, copy=False), W_gate.astype(working, copy=False),
        W_up.astype(working, copy=False), W_down.astype(working, copy=False), dtype,
    )  # fmt: skip
