"""Rows that a cache keeps: as they came, or in fewer bits."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..errors import ShapeError
from ..ops.precision import Array, answer_dtype

PACKINGS = ("float16", "int8")
LARGEST = 127  # of int8, on both sides alike: no code stands for -128


def packed(x: Array, packing: str | None) -> tuple[Array, ...]:
    """What is stored of `x` (..., T, d): itself, its float16, or int8 codes and a float32 scale a row (..., T, 1).

    Notes
    -----
    int8: scale = max |x| / 127 over the row, code = round(x / scale), and code * scale comes back: the error is at most
    half a scale. A row that holds a NaN or an infinity comes back as NaN, all of it.

    Examples
    --------
    >>> codes, scale = packed(np.array([[127.0, -63.4, 0.0]]), "int8")
    >>> codes.tolist(), scale.tolist()
    ([[127, -63, 0]], [[1.0]])
    """
    if packing is None:
        return (x,)
    if packing == "float16":
        with np.errstate(over="ignore"):  # what is larger becomes infinite, and shows
            return (x.astype(np.float16),)
    with np.errstate(invalid="ignore", over="ignore"):
        scale = (np.abs(x).max(axis=-1, keepdims=True, initial=0) / LARGEST).astype(np.float32)
        codes = np.nan_to_num(np.rint(x / np.where(scale == 0, 1, scale)))
        scale = np.where(np.isfinite(scale), scale, np.float32(np.nan))
    return np.clip(codes, -LARGEST, LARGEST).astype(np.int8), scale


@dataclass(eq=False)
class CachedRows:
    """Rows (..., T, d) that grow at their end.

    Attributes
    ----------
    packing : str or None
        How they are stored: see `packed`.
    length : int
    """

    packing: str | None = None
    length: int = 0
    _stored: tuple[Array, ...] = field(default=(), repr=False)
    _dtype: np.dtype[np.generic] | None = field(default=None, repr=False)

    @property
    def nbytes(self) -> int:
        """The memory that the rows take, in bytes."""
        return sum(x[..., : self.length, :].nbytes for x in self._stored)

    def check(self, name: str, new: Array) -> None:
        """New rows must fit those that are there."""
        if self._stored:
            codes = self._stored[0]
            expected = (*codes.shape[:-2], "T", codes.shape[-1])
            if expected != (*new.shape[:-2], "T", new.shape[-1]):
                raise ShapeError("shape", name=name, expected=expected, shape=new.shape)

    def append(self, new: Array) -> None:
        """Add rows; those of a wider dtype widen all."""
        parts, end = packed(new, self.packing), self.length + new.shape[-2]
        if self._dtype != new.dtype:
            self._dtype = new.dtype if self._dtype is None else answer_dtype(np.empty(0, self._dtype), new)
        if not self._stored:
            self._stored = tuple(part.copy() if part is new else part for part in parts)
        else:
            self._stored = tuple(_written(x, self.length, part) for x, part in zip(self._stored, parts))
        self.length = end

    def rows(self) -> Array:
        """All rows, as they are computed with. Not to be written to."""
        codes = self._stored[0][..., : self.length, :]
        if self.packing is None:
            return codes
        if self.packing == "float16":
            return codes.astype(self._dtype)
        scale = self._stored[1][..., : self.length, :]
        return codes.astype(self._dtype) * scale.astype(self._dtype)

    def keep(self, start: int, stop: int) -> None:
        """Forget all but these, in memory of their own: what was handed out stays as it was."""
        self._stored = tuple(x[..., start:stop, :].copy() for x in self._stored)
        self.length = max(0, stop - start)

    def select(self, members: Array) -> None:
        """Go on with these members of the first axis, in this order; one may come several times."""
        self._stored = tuple(x[members] for x in self._stored)


def _written(buffer: Array, length: int, new: Array) -> Array:
    """The buffer with `new` written behind what is remembered, doubled when it is full."""
    end = length + new.shape[-2]
    dtype = buffer.dtype if buffer.dtype == new.dtype else answer_dtype(buffer, new)
    if end > buffer.shape[-2] or dtype != buffer.dtype:
        larger = np.empty((*buffer.shape[:-2], max(end, 2 * buffer.shape[-2]), buffer.shape[-1]), dtype)
        larger[..., :length, :] = buffer[..., :length, :]
        buffer = larger
    buffer[..., length:end, :] = new
    return buffer
