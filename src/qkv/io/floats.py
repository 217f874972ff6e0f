"""What is kept in memory of a file's numbers: in which dtype, and each checked on its way there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentError, FileError
from ..ops.precision import BFLOAT16, Array

Dtype = np.dtype[Any]
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
DTYPES = {"float16": np.dtype(np.float16), "bfloat16": BFLOAT16, "float32": FLOAT32, "float64": FLOAT64}
PIECE = 1 << 20  # numbers on their way at once: what lies between the file and the result stays small


def asked_dtype(name: str | None) -> Dtype | None:
    """The dtype of that name; None stays None.

    Raises
    ------
    ArgumentError
        For another name.
    """
    if name is None:
        return None
    if not isinstance(name, str) or name not in DTYPES:
        raise ArgumentError("choice", name="dtype", choices=", ".join(DTYPES), value=name)
    return DTYPES[name]


class Kept:
    """A tensor in memory of its own, filled from its first number to its last.

    Parameters
    ----------
    path : Path
        The file, for messages.
    name : str
        The tensor.
    shape : tuple of int
    dtype : dtype or None
        None: float32, or float64 for a `source` of float64. Only matrices, and what has more axes still, are kept in
        16 bits: norms and biases take no room to speak of.
    source : dtype
        What the file holds.
    """

    def __init__(self, path: Path, name: str, shape: tuple[int, ...], dtype: Dtype | None, source: Dtype) -> None:
        self._path, self._name, self._at = path, name, 0
        if dtype is None:
            dtype = FLOAT64 if source == FLOAT64 else FLOAT32
        self.array: Array = np.empty(shape, dtype if len(shape) > 1 or dtype.itemsize > 2 else FLOAT32)
        self._flat = self.array.reshape(-1)

    def add(self, numbers: Array) -> None:
        """The next numbers.

        Raises
        ------
        FileError
            tensor_value for NaN, inf, or what is too large for the dtype.
        """
        place = self._flat[self._at : self._at + numbers.size]
        self._at += numbers.size
        given = numbers.reshape(-1)
        checked = given.astype(FLOAT32) if given.dtype.itemsize == 2 else given
        if not np.isfinite(checked).all():
            self._refuse("NaN" if np.isnan(checked).any() else "inf")
        with np.errstate(over="ignore", under="ignore"):
            place[...] = checked
        if place.dtype.itemsize < checked.dtype.itemsize and np.isinf(place).any():
            self._refuse(f"{float(np.abs(checked).max()):.6g}, too large for {place.dtype}")

    def _refuse(self, what: str) -> None:
        raise FileError("tensor_value", path=self._path, name=self._name, what=what)


def pieces(shape: tuple[int, ...]) -> Iterator[slice]:
    """Slices of the first axis, each of about `PIECE` numbers."""
    rows, width = shape[0], int(np.prod(shape[1:], dtype=np.int64))
    step = max(1, PIECE // max(1, width))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))
