"""What a layer remembers of the tokens before: their keys and values."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..errors import ArgumentError, ShapeError
from ..ops.precision import Array
from ..ops.valid import is_integer
from .cached_rows import PACKINGS, CachedRows
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
    dtype : {"float16", "int8"} or None
        Keep them in fewer bits; int8 has a scale for each token and head. None: as they come.

    Notes
    -----
    Feeding a sequence in any chunks gives what one pass over all of it gives, also when a chunk is longer than the
    window: the keys that leave are dropped after the chunk has been attended to, not before. Rows of a wider dtype
    widen what is remembered: nothing is rounded to fit, unless `dtype` asks for it; then also the newest rows come back
    as they are kept.

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
    dtype: str | None = None
    _k: CachedRows = field(init=False, repr=False)
    _v: CachedRows = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.window is not None and (not is_integer(self.window) or self.window < 1):
            raise ArgumentError("number", name="window", expected="at least 1, or None", value=self.window)
        if self.dtype is not None and self.dtype not in PACKINGS:
            raise ArgumentError("choice", name="dtype", choices=", ".join((*PACKINGS, "None")), value=self.dtype)
        self._k, self._v = CachedRows(self.dtype), CachedRows(self.dtype)

    @property
    def length(self) -> int:
        """How many positions are remembered."""
        return self._v.length

    @property
    def nbytes(self) -> int:
        """The memory that the remembered keys and values take, in bytes, scales included."""
        return self._k.nbytes + self._v.nbytes

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
        offset = self.length
        k, v = rows("k", k, "(..., T, d_k)"), rows("v", v, "(..., T, d_v)")
        new = k.shape[-2]
        if v.shape[-2] != new:
            raise ShapeError("same_size", name="v", axis="T", size=v.shape[-2], other="k", other_size=new)
        self._k.check("k", k)
        self._v.check("v", v)
        self._k.append(k)
        self._v.append(v)
        self.n_seen += new
        all_k, all_v = self._k.rows(), self._v.rows()
        if self.window is not None and self.length >= self.window:
            self._keep(self.length - self.window + 1, self.length)
        return all_k, all_v, offset

    def truncate(self, length: int) -> None:
        """Forget the newest positions, so that `length` are left; a cache with a window cannot go back."""
        if self.window is not None or not is_integer(length) or not 0 <= length <= self.length:
            expected = f"from 0 to {self.length}, in a cache without a window"
            raise ArgumentError("number", name="length", expected=expected, value=length)
        self.n_seen -= self.length - length
        if length < self.length:
            self._keep(0, length)

    def select(self, members: Array) -> None:
        """Go on with these members of a batch, the first axis, in this order; one may come several times.

        Parameters
        ----------
        members : (n,) ndarray of int

        Examples
        --------
        >>> cache = KVCache()
        >>> _ = cache.append(np.ones((2, 1, 5, 4)), np.ones((2, 1, 5, 4)))
        >>> cache.select(np.array([1, 1, 0]))
        >>> cache.append(np.ones((3, 1, 1, 4)), np.ones((3, 1, 1, 4)))[0].shape
        (3, 1, 6, 4)
        """
        places = np.asarray(members, np.intp)
        self._k.select(places)
        self._v.select(places)

    def _keep(self, start: int, stop: int) -> None:
        self._k.keep(start, stop)
        self._v.keep(start, stop)
