"""Rules on positions: may the query at position i look at the key at position j?

A rule is a value. Rules combine with `&` (both), `|` (either) and `~` (not), and each can say which keys a run of
queries can see at most, so that whole tiles of scores can be skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..errors import ArgumentError, DtypeError, ShapeError
from .precision import Array, array
from .valid import integer, is_integer

Visible = Callable[[Array, Array], Array]
Range = Callable[[int, int, int], tuple[int, int]]


def _every_key(first: int, last: int, n_keys: int) -> tuple[int, int]:
    return 0, n_keys


def _no_key(first: int, last: int, n_keys: int) -> tuple[int, int]:
    return 0, 0


@dataclass(frozen=True)
class Rule:
    """Which keys a query may look at.

    Attributes
    ----------
    visible : callable (i, j) -> bool ndarray
        `i` (Tq, 1) query positions, offset included, `j` (1, Tk) key positions. The result broadcasts to
        (Tq, Tk); a rule that differs between the members of a batch puts their axes and one for the heads in front.
    range : callable (first, last, n_keys) -> (start, stop)
        Keys outside start..stop-1 are hidden from every query first..last. It may be too wide, never too narrow.
    name : str
        How the rule was made, for messages.
    uses_query : bool
        Whether the answer depends on where the query stands; then `attention` must know the offset.
    n_batch_axes : int
        How many batch axes the rule brings with it.
    full : callable (first, last, n_keys) -> (start, stop)
        Keys start..stop-1 are open to every query first..last: no score there needs a mask. It may be too narrow.
    """

    visible: Visible
    range: Range = _every_key
    name: str = "custom"
    uses_query: bool = True
    n_batch_axes: int = 0
    full: Range = _no_key

    def __call__(self, i: ArrayLike, j: ArrayLike) -> Array:
        """Boolean (..., Tq, Tk) for positions `i` (Tq,) and `j` (Tk,)."""
        i, j = np.asarray(i), np.asarray(j)
        return self.visible(i[..., :, None], j[..., None, :])

    def key_range(self, first: int, last: int, n_keys: int) -> tuple[int, int]:
        """The keys that queries `first` to `last` (inclusive, offset included) can see at most, as start, stop."""
        return _clipped(*self.range(first, last, n_keys), n_keys)

    def full_range(self, first: int, last: int, n_keys: int) -> tuple[int, int]:
        """Keys that each of the queries `first` to `last` may look at for certain, as start, stop."""
        return _clipped(*self.full(first, last, n_keys), n_keys)

    def __and__(self, other: Rule) -> Rule:
        def overlap(first: int, last: int, n_keys: int) -> tuple[int, int]:
            (a, b), (c, d) = self.key_range(first, last, n_keys), other.key_range(first, last, n_keys)
            return max(a, c), min(b, d)

        def both(first: int, last: int, n_keys: int) -> tuple[int, int]:
            (a, b), (c, d) = self.full_range(first, last, n_keys), other.full_range(first, last, n_keys)
            return max(a, c), min(b, d)

        return self._joined(other, "&", lambda i, j: self.visible(i, j) & other.visible(i, j), overlap, both)

    def __or__(self, other: Rule) -> Rule:
        def hull(first: int, last: int, n_keys: int) -> tuple[int, int]:
            seen = [r.key_range(first, last, n_keys) for r in (self, other)]
            seen = [(a, b) for a, b in seen if a < b] or [(0, 0)]
            return min(a for a, _ in seen), max(b for _, b in seen)

        def wider(first: int, last: int, n_keys: int) -> tuple[int, int]:
            return max((r.full_range(first, last, n_keys) for r in (self, other)), key=lambda keys: keys[1] - keys[0])

        return self._joined(other, "|", lambda i, j: self.visible(i, j) | other.visible(i, j), hull, wider)

    def __bool__(self) -> bool:
        """Refused: `a and b` would be `b` alone."""
        raise ArgumentError("rule_truth", rule=self.name)

    def __invert__(self) -> Rule:
        return Rule(
            lambda i, j: ~self.visible(i, j), name=f"~{self.name}",
            uses_query=self.uses_query, n_batch_axes=self.n_batch_axes,
        )  # fmt: skip

    def _joined(self, other: Rule, sign: str, visible: Visible, key_range: Range, full: Range) -> Rule:
        if not isinstance(other, Rule):
            raise DtypeError("dtype", name=f"the right side of {sign}", expected="a rule", dtype=type(other).__name__)
        return Rule(
            visible, key_range, f"({self.name} {sign} {other.name})",
            self.uses_query or other.uses_query, max(self.n_batch_axes, other.n_batch_axes), full,
        )  # fmt: skip


def _clipped(start: int, stop: int, n_keys: int) -> tuple[int, int]:
    start, stop = max(0, start), min(n_keys, stop)
    return (start, stop) if start < stop else (0, 0)


def causal() -> Rule:
    """Each query looks at itself and what came before: j <= i.

    Examples
    --------
    >>> causal()(range(3), range(3)).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1]])
    """
    return Rule(
        lambda i, j: j <= i, lambda first, last, n_keys: (0, last + 1), "causal",
        full=lambda first, last, n_keys: (0, first + 1),
    )  # fmt: skip


def window(left: int | None, right: int | None = 0) -> Rule:
    """Each query looks at its neighbours: `left` keys before it, `right` after it, and its own.

    Parameters
    ----------
    left, right : int or None
        How many neighbours, inclusive; None: all of them. Beltagy et al., "Longformer", arXiv 2004.05150, section 3.

    Examples
    --------
    >>> window(1, 0)(range(4), range(4)).astype(int)
    array([[1, 0, 0, 0],
           [1, 1, 0, 0],
           [0, 1, 1, 0],
           [0, 0, 1, 1]])
    """
    for name, size in (("left", left), ("right", right)):
        if size is not None and (not is_integer(size) or size < 0):
            raise ArgumentError("number", name=name, expected="an integer of at least 0, or None", value=size)

    def visible(i: Array, j: Array) -> Array:
        seen = np.ones(np.broadcast_shapes(i.shape, j.shape), bool)
        if left is not None:
            seen &= j >= i - left
        if right is not None:
            seen &= j <= i + right
        return seen

    def key_range(first: int, last: int, n_keys: int) -> tuple[int, int]:
        return 0 if left is None else first - left, n_keys if right is None else last + right + 1

    def full(first: int, last: int, n_keys: int) -> tuple[int, int]:
        return 0 if left is None else last - left, n_keys if right is None else first + right + 1

    return Rule(visible, key_range, f"window({left}, {right})", full=full)


def _integers(name: str, values: ArrayLike, n_axes: int = 0) -> Array:
    given = array(name, values)
    if given.dtype.kind not in "iu":
        raise DtypeError("dtype", name=name, expected="integer", dtype=given.dtype)
    if given.ndim < n_axes:
        raise ShapeError("axes", name=name, expected=n_axes, axes="(*B, n)", shape=given.shape)
    return given


def padding(lengths: ArrayLike) -> Rule:
    """Only the first `lengths` keys of each member of the batch are real: j < length.

    Parameters
    ----------
    lengths : (*B,) array_like of int
        One length per member of the batch; a single number for all.

    Examples
    --------
    >>> padding([1, 3])(range(2), range(3)).shape
    (2, 1, 1, 3)
    """
    lengths = _integers("lengths", lengths)
    if lengths.size and lengths.min() < 0:
        raise ArgumentError("number", name="lengths", expected="a number of at least 0", value=int(lengths.min()))
    longest, shortest = int(lengths.max(initial=0)), int(lengths.min()) if lengths.size else 0
    per_member = lengths[..., None, None, None] if lengths.ndim else lengths
    return Rule(
        lambda i, j: j < per_member, lambda first, last, n_keys: (0, longest),
        "padding", uses_query=False, n_batch_axes=lengths.ndim, full=lambda first, last, n_keys: (0, shortest),
    )  # fmt: skip


def documents(ids: ArrayLike, query_ids: ArrayLike | None = None) -> Rule:
    """Packed documents: a query looks only at keys of its own document.

    Parameters
    ----------
    ids : (*B, Tk) array_like of int
        The document of each key position.
    query_ids : (*B, n) array_like of int, optional
        The document of each query position, offset included; by default the same as `ids`.

    Examples
    --------
    >>> documents([7, 7, 8])(range(3), range(3)).astype(int)
    array([[1, 1, 0],
           [1, 1, 0],
           [0, 0, 1]])
    """
    ids = _integers("ids", ids, 1)
    of_query = ids if query_ids is None else _integers("query_ids", query_ids, 1)
    n_batch_axes = max(ids.ndim, of_query.ndim) - 1

    def at(table: Array, name: str, positions: Array) -> Array:
        _known(name, positions, table.shape[-1])
        if positions.ndim == 2:  # the same positions for every member
            return table[..., positions][..., None, :, :] if n_batch_axes else table[positions]
        lead = np.broadcast_shapes(table.shape[:-1], positions.shape[:-3])
        table = np.broadcast_to(table, (*lead, table.shape[-1]))
        positions = np.broadcast_to(positions, (*lead, *positions.shape[-3:]))
        return np.take_along_axis(table[..., None, :, None], positions, axis=-2)

    def visible(i: Array, j: Array) -> Array:
        return at(of_query, "query_ids", i) == at(ids, "ids", j)

    def key_range(first: int, last: int, n_keys: int) -> tuple[int, int]:
        if n_batch_axes:
            return 0, n_keys
        seen = np.flatnonzero(np.isin(ids[:n_keys], of_query[max(first, 0) : last + 1]))
        return (int(seen[0]), int(seen[-1]) + 1) if seen.size else (0, 0)

    return Rule(visible, key_range, "documents", n_batch_axes=n_batch_axes)


def prefix(n: int) -> Rule:
    """Every query may look at the first `n` keys. `causal() | prefix(n)` is a prefix language model.

    Raffel et al., "Exploring the Limits of Transfer Learning", arXiv 1910.10683, section 3.2.1.

    Examples
    --------
    >>> (causal() | prefix(2))(range(3), range(3)).astype(int)
    array([[1, 1, 0],
           [1, 1, 0],
           [1, 1, 1]])
    """
    n = integer("n", n, 0)
    return Rule(
        lambda i, j: j < n, lambda first, last, n_keys: (0, n), f"prefix({n})", uses_query=False,
        full=lambda first, last, n_keys: (0, n),
    )  # fmt: skip


def block_sparse(blocks: ArrayLike, size: int) -> Rule:
    """Positions in blocks of `size`; `blocks[a, b]` says whether queries of block a may look at keys of block b.

    Parameters
    ----------
    blocks : (n, m) array_like of bool
    size : int

    Examples
    --------
    >>> block_sparse([[True, False], [True, True]], 2)(range(4), range(4)).astype(int)
    array([[1, 1, 0, 0],
           [1, 1, 0, 0],
           [1, 1, 1, 1],
           [1, 1, 1, 1]])
    """
    blocks = array("blocks", blocks)
    if blocks.dtype != bool:
        raise DtypeError("dtype", name="blocks", expected="boolean", dtype=blocks.dtype)
    if blocks.ndim != 2:
        raise ShapeError("shape", name="blocks", expected="(n, m)", shape=blocks.shape)
    size = integer("size", size, 1)

    def visible(i: Array, j: Array) -> Array:
        _known("the query", i, blocks.shape[0] * size)
        _known("the key", j, blocks.shape[1] * size)
        return blocks[i // size, j // size]

    def key_range(first: int, last: int, n_keys: int) -> tuple[int, int]:
        seen = np.flatnonzero(blocks[max(first, 0) // size : last // size + 1].any(axis=0))
        return (int(seen[0]) * size, (int(seen[-1]) + 1) * size) if seen.size else (0, 0)

    return Rule(visible, key_range, f"block_sparse(size={size})")


def custom(visible: Visible, range: Range | None = None, name: str = "custom") -> Rule:
    """A rule of your own: a function of the positions `i` (Tq, 1) and `j` (1, Tk) that gives booleans.

    Examples
    --------
    >>> custom(lambda i, j: (i - j) % 2 == 0)(range(3), range(3)).astype(int)
    array([[1, 0, 1],
           [0, 1, 0],
           [1, 0, 1]])
    """

    def checked(i: Array, j: Array) -> Array:
        seen = array(f"the rule {name}", visible(i, j))
        if seen.dtype != bool:
            raise DtypeError("dtype", name=f"the rule {name}", expected="boolean", dtype=seen.dtype)
        return seen

    return Rule(checked, range or _every_key, name)


def _known(name: str, positions: Array, known: int) -> None:
    """A table of positions is never read past its end, nor from behind."""
    if positions.size and (positions.max() >= known or positions.min() < 0):
        last = int(positions.max()) if positions.max() >= known else int(positions.min())
        raise ArgumentError("positions", name=name, last=last, known=known)
