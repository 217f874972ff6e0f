"""What a layer keeps of another sequence: its keys and values, computed once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..errors import ArgumentError
from ..ops.precision import Array


@dataclass(eq=False)
class ContextCache:
    """Keys and values of one layer over a context that stays the same: computed at the first call, and then kept.

    Notes
    -----
    In cross attention every step of a decoder looks at the same rows of the encoder, so they are projected once.

    Examples
    --------
    >>> import numpy as np
    >>> cache, context = ContextCache(), np.ones((7, 4))
    >>> k, v = cache.of(context, lambda rows: (2 * rows, 3 * rows))
    >>> again, _ = cache.of(context, lambda rows: (0 * rows, 0 * rows))
    >>> again is k
    True
    """

    _context: Array | None = field(default=None, repr=False)
    _kept: tuple[Array, Array] | None = field(default=None, repr=False)

    def of(self, context: Array, project: Callable[[Array], tuple[Array, Array]]) -> tuple[Array, Array]:
        """The keys and values of a context.

        Parameters
        ----------
        context : (..., Tk, d_context) ndarray
        project : callable (ndarray) -> (ndarray, ndarray)
            Gives them, the first time.

        Returns
        -------
        k : (..., Hkv, Tk, d_k) ndarray
        v : (..., Hkv, Tk, d_v) ndarray
            Not to be written to.

        Raises
        ------
        ArgumentError
            For another array than the first time: what is kept does not belong to it.
        """
        if self._kept is None:
            self._context, self._kept = context, project(context)
        if context is not self._context:
            raise ArgumentError("other_context")
        return self._kept

    def select(self, context: Array, members: Array) -> ContextCache:
        """A cache for a context that holds these members of a batch, the first axis, in this order."""
        if self._kept is None:
            return ContextCache()
        k, v = self._kept
        return ContextCache(context, (k[members], v[members]))
