"""Which rectangles of scores must be computed: what nobody may see is skipped, what all may see needs no mask.

A tile of queries meets the keys from the last to the first. Under a causal rule that is nearest first, where the
largest scores tend to be.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arguments import Call, both
from .biases import Bias
from .precision import Array
from .settings import settings

SCORES_BYTES = 1 << 20  # of a tile: what a core's own cache holds
QUERY_TILE = 1024  # tall tiles: a BLAS packs the keys anew for each product
KEY_TILES = 64, 4096
ROUND = 64  # sizes and bounds of tiles are multiples of this where they can be
STRIP = 256  # no tile of fewer rows is cut further along a rule's edge: calls would cost more than masked scores
FEW_ROWS = 64  # up to here the heads that share keys are stacked, and scores computed transposed
LEAST_PART = 256  # keys that are worth a task
FEWEST_ROWS = 16  # up to here a small product pays
SMALL_PRODUCT = 1_000_000  # multiply-adds up to which a BLAS may skip packing its operands


@dataclass(frozen=True)
class Piece:
    """A rectangle of scores that is computed at once.

    Attributes
    ----------
    rows, keys : slice
        Of all queries, and of all keys.
    masks : tuple of bool ndarray
        What must hold there, each (..., rows, keys); none where everything may be seen.
    added : callable () -> (..., rows, keys) ndarray, or None
    """

    rows: slice
    keys: slice
    masks: tuple[Array, ...]
    added: Callable[[], Array] | None


@dataclass(frozen=True)
class Sizes:
    """The tiles of one call: so many queries (of `stacked` heads at once) by so many keys."""

    rows: int
    keys: int
    stacked: int

    @classmethod
    def of(cls, call: Call, group: int, n_heads: int, n_threads: int) -> Sizes:
        """Tiles of about a megabyte, and enough of them for the threads.

        Few queries are stacked with those of the other heads that share their keys, so that a key is read once.
        """
        Tq, Tk = call.scores[-2:]
        stacked = group if Tq * group <= FEW_ROWS else 1
        wanted = -(-Tq * n_heads // (4 * n_threads))
        rows = settings().query_tile or min(QUERY_TILE, max(ROUND, _up(wanted)), _up(Tq))
        rows = max(1, min(rows, Tq))
        width = call.given[0].shape[-1] + 1
        if rows * stacked <= FEWEST_ROWS:
            keys = SMALL_PRODUCT // (rows * stacked * width)
        else:
            keys = SCORES_BYTES // (call.working.itemsize * rows)
        low, high = KEY_TILES
        keys = settings().key_tile or min(high, max(low, keys // low * low))
        return cls(rows, max(1, min(keys, Tk)), stacked)


def parts(n_tasks: int, n_threads: int, Tk: int, tile: int) -> int:
    """Into how many runs the keys are split so that no thread is left without a task."""
    if n_tasks >= n_threads or not n_tasks:
        return 1
    return max(1, min(-(-n_threads // n_tasks), -(-Tk // min(tile, LEAST_PART))))


def tile_rows(call: Call, size: int) -> Iterator[slice]:
    """Runs of queries, the last ones first: under a causal rule they have the most keys."""
    Tq = call.scores[-2]
    for start in reversed(range(0, Tq, size)):
        yield slice(start, min(start + size, Tq))


def pieces(call: Call, rows: slice, keys: slice, tile: int) -> list[Piece]:
    """What must be computed for these queries, from the last key to the first."""
    return [
        _piece(call, part, run, cut)
        for part, section, cut in _sections(call, rows, keys)
        for run in _runs(section, tile)
    ]


def whole_piece(call: Call, rows: slice, keys: slice) -> Piece:
    """These queries and all of these keys as one piece."""
    return _piece(call, rows, keys, cut=True)


def _piece(call: Call, rows: slice, keys: slice, cut: bool) -> Piece:
    masks = () if call.mask is None else (block(call.mask, rows, keys),)
    if cut and call.rule is not None:
        masks = (*masks, call.rule(call.i[..., rows], call.j[keys]))
    added = None if call.added is None else functools.partial(_added, call.added, call, rows, keys)
    return Piece(rows, keys, masks, added)


def _sections(call: Call, rows: slice, keys: slice) -> Iterator[tuple[slice, slice, bool]]:
    """Rectangles, and whether the rule runs through them. Rows are halved while that leaves less to mask."""
    if call.rule is None:
        yield rows, keys, False
        return
    (start, stop), (first, last) = _ranges(call, rows, keys)
    for section, cut in ((slice(last, stop), True), (slice(first, last), False), (slice(start, first), True)):
        if section.start >= section.stop:
            continue
        half = (rows.start + rows.stop) // 2
        upper, lower = slice(rows.start, half), slice(half, rows.stop)
        if cut and rows.stop - rows.start > STRIP and _gains(call, rows, (upper, lower), section):
            yield from _sections(call, upper, section)
            yield from _sections(call, lower, section)
        else:
            yield rows, section, cut


def _ranges(call: Call, rows: slice, keys: slice) -> tuple[tuple[int, int], tuple[int, int]]:
    """Of `keys`: the run that some query in `rows` may see, and in it, on round numbers, the run that all may see."""
    assert call.rule is not None
    positions = call.i[..., rows]
    first, last, Tk = int(positions.min()), int(positions.max()), call.scores[-1]
    start, stop = call.rule.key_range(first, last, Tk)
    start, stop = max(start, keys.start), min(stop, keys.stop)
    low, high = call.rule.full_range(first, last, Tk)
    low, high = max(start, _up(low)), min(stop, high if high == Tk else _down(high))
    return (start, stop), ((low, high) if low < high else (stop, stop))


def _up(n: int) -> int:
    return -(-n // ROUND) * ROUND


def _down(n: int) -> int:
    return n // ROUND * ROUND


def _gains(call: Call, rows: slice, halves: tuple[slice, slice], section: slice) -> bool:
    """Whether planning the halves apart leaves at most three quarters of the scores under a mask."""

    def masked(part: slice) -> int:
        (start, stop), (low, high) = _ranges(call, part, section)
        return (part.stop - part.start) * max(0, stop - start - (high - low))

    whole = (rows.stop - rows.start) * (section.stop - section.start)
    return 4 * sum(masked(half) for half in halves) <= 3 * whole


def _runs(keys: slice, tile: int) -> Iterator[slice]:
    """Equal runs of at most `tile` keys, the last one first."""
    size = keys.stop - keys.start
    n = math.ceil(size / tile)
    for part in reversed(range(n)):
        yield slice(keys.start + size * part // n, keys.start + size * (part + 1) // n)


def block(array: Array, rows: slice, keys: slice) -> Array:
    """The part of an array that broadcasts to the scores."""
    part = array if array.shape[-2] == 1 else array[..., rows, :]
    return part if part.shape[-1] == 1 else part[..., keys]


def _added(added: Array | Bias, call: Call, rows: slice, keys: slice) -> Array:
    """What is added there, as a view. A rule that knows only j - i is asked once for each distance."""
    if not isinstance(added, Bias):
        return block(added, rows, keys)
    if not added.relative:
        return added(call.i[..., rows], call.j[keys])
    n_rows, n_keys = rows.stop - rows.start, keys.stop - keys.start
    distances = np.arange(keys.start - n_rows + 1, keys.stop)
    line = added(call.i[..., rows.start : rows.start + 1], distances)[..., 0, :]
    return np.lib.stride_tricks.sliding_window_view(line, n_keys, axis=-1)[..., ::-1, :]


def of_head(array: Array, at: tuple[int, ...], heads: slice) -> Array:
    """(rows, keys), or (heads, rows, keys), of an array that broadcasts to the scores: those of one batch member."""
    lead = array.shape[:-2]
    if not lead:
        return array
    place: list[Any] = [0 if size == 1 else index for size, index in zip(lead[:-1][::-1], at[::-1])][::-1]
    of_member = array[tuple(place)]
    return of_member[0] if lead[-1] == 1 else of_member[heads]


def visible(piece: Piece, added: Array | None, at: tuple[int, ...], heads: slice) -> Array | None:
    """Which scores of a piece count for these heads; None: all of them. A bias of -inf hides."""
    hiding = None if added is None else np.isneginf(added)
    together = both([*(of_head(mask, at, heads) for mask in piece.masks), None if hiding is None else ~hiding])
    return None if together is None or together.all() else together
