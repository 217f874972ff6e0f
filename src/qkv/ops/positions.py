"""Where a token stands: the sinusoids of the first transformer, and rotations of queries and keys (RoPE)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..contract import op
from ..errors import ArgumentError, ShapeError
from .precision import Array, array, number, widened
from .scaling import Scaling
from .valid import integer, is_integer, positive

LAYOUTS = ("half", "interleaved")


@op(angles="n pair", out="n d_model")
def sinusoidal_positions(n: int, d_model: int, base: float = 10000.0) -> Array:
    """The table of sines and cosines that is added to the embeddings.

    Parameters
    ----------
    n, d_model : int
    base : float

    Returns
    -------
    (n, d_model) float64 ndarray

    Notes
    -----
    PE[pos, 2i] = sin(pos / base^(2i / d_model)), PE[pos, 2i + 1] = cos of the same angle
    (Vaswani et al., "Attention Is All You Need", arXiv 1706.03762, section 3.5).

    Examples
    --------
    >>> sinusoidal_positions(2, 4).round(8)
    array([[0.        , 1.        , 0.        , 1.        ],
           [0.84147098, 0.54030231, 0.00999983, 0.99995   ]])
    """
    n, d_model, base = integer("n", n, 0), integer("d_model", d_model, 0), positive("base", base)
    angles = np.arange(n)[:, None] * base ** (-np.arange(0, d_model, 2) / d_model)
    out = np.empty((n, d_model))
    out[:, 0::2] = np.sin(angles)
    out[:, 1::2] = np.cos(angles[:, : d_model // 2])
    return out


def rope_frequencies(
    rotary_dim: int, base: float = 10000.0, scaling: Scaling | None = None, length: int | None = None
) -> tuple[Array, float]:
    """How fast each pair of dimensions turns, in radians per position.

    Parameters
    ----------
    rotary_dim : int
        How many dimensions turn; even.
    base : float
    scaling : Scaling, optional
        A stretching for sequences longer than those trained on, from `qkv.ops.scaling`.
    length : int, optional
        The length of the sequence, for scalings that depend on it.

    Returns
    -------
    frequencies : (rotary_dim / 2,) float64 ndarray
    magnitude : float
        What cos and sin are multiplied with; 1 unless the scaling says otherwise.

    Notes
    -----
    theta_i = base^(-2i / rotary_dim) (Su et al., "RoFormer", arXiv 2104.09864, section 3.2.2).

    Examples
    --------
    >>> rope_frequencies(4)
    (array([1.  , 0.01]), 1.0)
    """
    if not is_integer(rotary_dim) or rotary_dim < 0 or rotary_dim % 2:
        raise ArgumentError("number", name="rotary_dim", expected="even and not negative", value=rotary_dim)
    if scaling is not None and not isinstance(scaling, Scaling):
        raise ArgumentError("number", name="scaling", expected="one of qkv.ops.scaling, or None", value=scaling)
    base = positive("base", base)
    if scaling is not None:
        return scaling.frequencies(rotary_dim, base, length)
    return base ** (-np.arange(0, rotary_dim, 2) / rotary_dim), 1.0


def rope_tables(
    positions: ArrayLike, rotary_dim: int, base: float = 10000.0, scaling: Scaling | None = None
) -> tuple[Array, Array]:
    """cos and sin of every angle that `rope` needs, to compute once and use in every layer.

    Parameters
    ----------
    positions : (..., T) array_like
        Integer or fractional positions.
    rotary_dim, base, scaling
        As in `rope_frequencies`; the length is that of the longest position.

    Returns
    -------
    cos, sin : (..., T, rotary_dim / 2) float64 ndarray

    Examples
    --------
    >>> cos, sin = rope_tables(range(3), 4)
    >>> cos.round(4)
    array([[ 1.    ,  1.    ],
           [ 0.5403,  1.    ],
           [-0.4161,  0.9998]])
    """
    positions = number("positions", positions).astype(np.float64)
    if not np.isfinite(positions).all():
        wrong = float(positions[~np.isfinite(positions)][0])
        raise ArgumentError("number", name="positions", expected="finite everywhere", value=wrong)
    length = int(positions.max(initial=-1)) + 1
    frequencies, magnitude = rope_frequencies(rotary_dim, base, scaling, length)
    angles = positions[..., None] * frequencies
    return magnitude * np.cos(angles), magnitude * np.sin(angles)


@op(x="*B T d", cos="*A T pair", sin="*A T pair", first="*B T pair", second="*B T pair", out="*B T d")
def rope(
    x: ArrayLike,
    positions: ArrayLike | tuple[Array, Array],
    base: float = 10000.0,
    layout: str = "half",
    rotary_dim: int | None = None,
    scaling: Scaling | None = None,
) -> Array:
    """Turn pairs of dimensions of queries or keys by an angle that grows with their position.

    Parameters
    ----------
    x : (..., T, d) array_like
        Queries or keys: (T, d), (H, T, d) or (*B, H, T, d).
    positions : (T,) or (*B, T) array_like, or (cos, sin)
        Where each row stands, integer or fractional, or ready tables (..., T, rotary_dim / 2) from `rope_tables`.
    base : float
    layout : {"half", "interleaved"}
        Which dimensions make a pair: i and i + rotary_dim / 2 ("half", as Llama's published weights have it), or
        2i and 2i + 1 ("interleaved", as in the paper).
    rotary_dim : int, optional
        Only the first so many dimensions turn; by default all.
    scaling : Scaling, optional
        From `qkv.ops.scaling`.

    Returns
    -------
    (..., T, d) ndarray
        Same dtype as `x`. Angles are computed in float64.

    Raises
    ------
    ShapeError
        When positions do not fit `x`.
    ArgumentError
        When rotary_dim is odd or larger than d, or there is no such layout, base or scaling.

    Notes
    -----
    (a, b) -> (a cos - b sin, b cos + a sin) with angle pos * base^(-2i / rotary_dim)
    (Su et al., "RoFormer", arXiv 2104.09864, equations 14, 15 and 34).

    Examples
    --------
    >>> rope([[1.0, 0.0, 0.0, 0.0]], [1]).round(4)
    array([[0.5403, 0.    , 0.8415, 0.    ]])
    >>> rope([[1.0, 0.0, 0.0, 0.0]], [1], layout="interleaved").round(4)
    array([[0.5403, 0.8415, 0.    , 0.    ]])
    """
    if layout not in LAYOUTS:
        raise ArgumentError("choice", name="layout", choices=", ".join(LAYOUTS), value=layout)
    x, dtype = widened("x", x)
    if x.ndim < 2:
        raise ShapeError("axes", name="x", expected=2, axes="(T, d)", shape=x.shape)
    turning = x.shape[-1] if rotary_dim is None else rotary_dim
    if not is_integer(turning) or not 0 <= turning <= x.shape[-1] or turning % 2:
        expected = f"even and at most d={x.shape[-1]}"
        raise ArgumentError("number", name="rotary_dim", expected=expected, value=turning)
    ready = _are_tables(positions)
    tables: Any = positions if ready else rope_tables(positions, turning, base, scaling)
    cos = _fit(tables[0], x, turning).astype(x.dtype, copy=False)
    sin = _fit(tables[1], x, turning).astype(x.dtype, copy=False)

    half = turning // 2
    one, two = (
        (slice(0, half), slice(half, turning)) if layout == "half" else (slice(0, turning, 2), slice(1, turning, 2))
    )
    first, second = x[..., one], x[..., two]
    out = x.copy()
    out[..., one] = first * cos - second * sin
    out[..., two] = second * cos + first * sin
    return out.astype(dtype, copy=False)


def _are_tables(positions: ArrayLike | tuple[Array, Array]) -> bool:
    if not isinstance(positions, tuple) or len(positions) != 2:
        return False
    return array("positions", positions[0]).ndim > 1 and array("positions", positions[1]).ndim > 1


def _fit(table: Array, x: Array, turning: int) -> Array:
    """A table (..., T, rotary_dim / 2) with an axis for the heads, where the table has one axis per batch axis."""
    table = number("positions", table)
    if table.shape == (x.shape[-2], turning // 2):
        return table
    if table.ndim >= 3 and table.ndim == x.ndim - 1:
        table = table[..., None, :, :]
    expected = (*x.shape[:-1], turning // 2)
    if table.ndim > x.ndim or any(a not in (1, b) for a, b in zip(table.shape[::-1], expected[::-1])):
        raise ShapeError("rows", name="positions", shape=table.shape[:-1], rows=x.shape[:-1])
    return table
