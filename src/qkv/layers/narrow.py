"""Weights kept in 16 bits: widened where they are used, a piece at a time, so that the memory they save stays saved."""

from __future__ import annotations

import numpy as np

from ..ops.precision import BFLOAT16, Array, answer_dtype, working_dtype

NARROW = (np.dtype(np.float16), BFLOAT16)
PIECE = 1 << 18  # numbers that are widened at once: they stay in the processor's cache
HALF_WITHOUT_SIGN, HALF_TO_SINGLE = np.uint32(0x8FFFFFFF), np.float32(2.0**112)


def wide(x: Array) -> Array:
    """`x` in the dtype that is computed in: float32 for 16 bits, else as it is.

    Examples
    --------
    >>> wide(np.array([0.5, -3.0], np.float16))
    array([ 0.5, -3. ], dtype=float32)
    """
    if x.dtype not in NARROW:
        return x
    out = np.empty(x.shape, np.float32)
    _widen(x, out)
    return out


def narrow_product(x: Array, W: Array) -> Array:
    """x W for `x` (d_in,) or (n, d_in), where either is kept in 16 bits: computed in float32 at least, rounded once.

    Examples
    --------
    >>> narrow_product(np.ones((2, 3), np.float32), np.eye(3, 2, dtype=np.float16))
    array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    answer = answer_dtype(x, W)
    rows = wide(x) if x.ndim == 2 else wide(x)[None]
    n_in, n_out = W.shape
    out = np.empty((len(rows), n_out), working_dtype(answer))
    step = max(1, PIECE // max(1, n_in))
    by_column = W.strides[0] < W.strides[1]  # a view of what a file stores (out, in)
    piece = np.empty((n_in, min(step, n_out)), np.float32, order="F" if by_column else "C")
    for start in range(0, n_out, step):
        columns = W[:, start : start + step]
        if W.dtype in NARROW:
            columns = _widen(columns, piece[:, : columns.shape[1]])
        np.matmul(rows, columns, out=out[:, start : start + step])
    return (out if x.ndim == 2 else out[0]).astype(answer, copy=False)


def _widen(x: Array, out: Array) -> Array:
    """`x`, of 16 bits and finite, into `out` of float32.

    NumPy widens float16 one number at a time. Its bits moved to the places that float32 has for them are the same
    number but for a power of two, subnormal numbers included; that takes a sixth of the time.
    """
    if x.dtype == BFLOAT16:
        np.copyto(out, x)
        return out
    bits = out.view(np.uint32)
    np.left_shift(x.view(np.int16), 13, out=bits.view(np.int32), dtype=np.int32)
    np.bitwise_and(bits, HALF_WITHOUT_SIGN, out=bits)
    np.multiply(out, HALF_TO_SINGLE, out=out)
    return out
