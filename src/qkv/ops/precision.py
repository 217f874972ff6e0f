"""In which dtype an op works and in which it answers (rule 8 of the edges)."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import DtypeError, ShapeError

Array = NDArray[Any]
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = (np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.float16), BFLOAT16)


def array(name: str, x: ArrayLike) -> Array:
    """`x` as an array of whatever dtype.

    Raises
    ------
    ShapeError
        For lists whose rows differ in length.
    DtypeError
        For a masked array: nothing here would heed its mask.
    """
    if isinstance(x, np.ma.MaskedArray):
        raise DtypeError("masked", name=name)
    try:
        return np.asarray(x)
    except ValueError:
        raise ShapeError("ragged", name=name) from None


def number(name: str, x: ArrayLike) -> Array:
    """`x` as an array of a float dtype that is known here; integers and booleans become float64.

    Raises
    ------
    ShapeError
        As `array`.
    DtypeError
        For complex numbers, text, objects, floats of other widths and masked arrays.
    """
    if type(x) is np.ndarray and x.dtype in FLOATS:  # nearly always, and asked many times for each token
        return x
    given = array(name, x)
    if given.dtype in FLOATS:
        return given
    if given.dtype.kind in "biu":
        return given.astype(np.float64)
    raise DtypeError("dtype", name=name, expected="float16, bfloat16, float32, float64 or integer", dtype=given.dtype)


def answer_dtype(*arrays: Array) -> np.dtype[Any]:
    """The dtype of a result: the inputs' own, or the widest of them; float16 beside bfloat16 gives float32."""
    dtypes = {array.dtype for array in arrays}
    if dtypes == {FLOATS[2], FLOATS[3]}:
        return FLOATS[1]
    return next(dtype for dtype in FLOATS if dtype in dtypes)


def working_dtype(answer: np.dtype[Any]) -> np.dtype[Any]:
    """float64 for float64, float32 for everything narrower."""
    return FLOATS[0] if answer == FLOATS[0] else FLOATS[1]


def widened(name: str, x: ArrayLike) -> tuple[Array, np.dtype[Any]]:
    """`x` in its working dtype, and the dtype to round the result to, once."""
    given = number(name, x)
    if given.dtype in FLOATS[:2]:
        return given, given.dtype
    return given.astype(np.float32), given.dtype
