"""What a layer remembers of the tokens before: their keys and values."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..errors import ArgumentError, ShapeError
from ..ops.precision import Array, answer_dtype
from ..ops.valid import is_integer
from .parts import rows


@dataclass(eq=False)
class KVCache:
    """Keys and values of one layer, so that each token is projected once.

    Attributes
    ----------
    window : int or None
        How many keys a query looks at, its own included; older ones are forgotten. None: nothing is forgotten.
    n_seen : int
        How many positions have passed through, remembered or not.

    Notes
    -----
    Feeding a sequence in any chunks gives what one pass over all of it gives, also when a chunk is longer than the
    window: the keys that leave are dropped after the chunk has been attended to, not before. Rows of a wider dtype
    widen what is remembered: nothing is rounded to fit.

    Examples
    --------
    >>> cache = KVCache(window=2)
    >>> k, v, offset = cache.append(np.ones((1, 5, 4)), np.ones((1, 5, 3)))
    >>> k.shape, offset, cache.length
    ((1, 5, 4), 0, 1)
    >>> k, v, offset = cache.append(np.ones((1, 1, 4)), np.ones((1, 1, 3)))
    >>> k.shape, offset, cache.n_seen
    ((1, 2, 4), 1, 6)
    """

    window: int | None = None
    n_seen: int = 0
    _k: Array | None = field(default=None, repr=False)
    _v: Array | None = field(default=None, repr=False)
    _length: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        if self.window is not None and (not is_integer(self.window) or self.window < 1):
            raise ArgumentError("number", name="window", expected="at least 1, or None", value=self.window)

    @property
    def length(self) -> int:
        """How many positions are remembered."""
        return self._length

    @property
    def nbytes(self) -> int:
        """The memory that the remembered keys and values take, in bytes."""
        if self._k is None or self._v is None:
            return 0
        return self._k[..., : self._length, :].nbytes + self._v[..., : self._length, :].nbytes

    def append(self, k: Array, v: Array) -> tuple[Array, Array, int]:
        """Add the keys and values of new tokens.

        Parameters
        ----------
        k : (..., T, d_k) ndarray
        v : (..., T, d_v) ndarray

        Returns
        -------
        k, v : (..., n + T, d) ndarray
            All keys and values that the new tokens can need. Not to be written to.
        offset : int
            Where the first new token stands among them: the `offset` of `attention`.

        Raises
        ------
        ShapeError
            When the new rows do not fit the remembered ones.
        """
        offset = self._length
        k, v = rows("k", k, "(..., T, d_k)"), rows("v", v, "(..., T, d_v)")
        new = k.shape[-2]
        if v.shape[-2] != new:
            raise ShapeError("same_size", name="v", axis="T", size=v.shape[-2], other="k", other_size=new)
        self._k = self._grown("k", self._k, k)
        self._v = self._grown("v", self._v, v)
        self._length += new
        self.n_seen += new
        all_k, all_v = self._k[..., : self._length, :], self._v[..., : self._length, :]
        if self.window is not None and self._length >= self.window:
            kept = self.window - 1
            self._k, self._v = (x[..., x.shape[-2] - kept :, :].copy() for x in (all_k, all_v))
            self._length = kept
        return all_k, all_v, offset

    def truncate(self, length: int) -> None:
        """Forget the newest positions, so that `length` are left; a cache with a window cannot go back."""
        if self.window is not None or not is_integer(length) or not 0 <= length <= self._length:
            expected = f"from 0 to {self._length}, in a cache without a window"
            raise ArgumentError("number", name="length", expected=expected, value=length)
        if self._k is not None and self._v is not None:  # a fresh buffer: what was handed out stays as it was
            self._k, self._v = (x[..., :length, :].copy() for x in (self._k, self._v))
        self.n_seen -= self._length - length
        self._length = length

    def _grown(self, name: str, buffer: Array | None, new: Array) -> Array:
        """The buffer with `new` written behind what is remembered, doubled when it is full."""
        end = self._length + new.shape[-2]
        if buffer is None:
            return new.copy()
        if (*buffer.shape[:-2], buffer.shape[-1]) != (*new.shape[:-2], new.shape[-1]):
            expected = (*buffer.shape[:-2], "T", buffer.shape[-1])
            raise ShapeError("shape", name=name, expected=expected, shape=new.shape)
        dtype = answer_dtype(buffer, new)
        if end > buffer.shape[-2] or dtype != buffer.dtype:
            larger = np.empty((*buffer.shape[:-2], max(end, 2 * buffer.shape[-2]), buffer.shape[-1]), dtype)
            larger[..., : self._length, :] = buffer[..., : self._length, :]
            buffer = larger
        buffer[..., self._length : end, :] = new
        return buffer
