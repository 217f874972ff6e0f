"""How much of a large walk a page shows, so that it opens at once and never hides that something is missing.

Matrices and tables up to 32 rows and columns are whole; of larger ones the middle is left out, and a line says which
part. A heat map has at most 64 × 64 cells; beyond that each cell is the largest of several, and a line says of how
many. Where a page has several maps they share a fixed number of cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .. import words
from ..walkthrough import Heat, Part
from .grid import Grid
from .screen import Screen

WHOLE = 32
ENDS = 8
MOST_SIDE = 64
ALL_MAPS = 6000


def kept(total: int) -> list[int | None]:
    """The indices that are shown, None where some are left out.

    Examples
    --------
    >>> kept(3), kept(512)[6:10]
    ([0, 1, 2], [6, 7, None, 504])
    """
    if total <= WHOLE:
        return list(range(total))
    return [*range(ENDS), None, *range(total - ENDS, total)]


def span_left_out(name: str, first: int, last: int, total: int, lang: str) -> str:
    """That rows or columns from `first` to `last` are left out; name is `row` or `column`.

    Examples
    --------
    >>> span_left_out("row", 3, 5, 9, "en"), span_left_out("row", 3, 3, 9, "en")
    ('rows 3–5 of 9 left out', 'row 3 of 9 left out')
    """
    several = "s" if last > first else ""
    return words.say(f"table.{name}{several}_left_out", lang, first=first, last=last, total=total)


def left_out(rows: Sequence[int | None], columns: Sequence[int | None], shape: tuple[int, ...], lang: str) -> list[str]:
    """What `kept` has left out of rows and columns, in words; nothing when all is there."""
    sides = (("row", rows, shape[0]), ("column", columns, shape[1]))
    return [
        span_left_out(name, ENDS, total - ENDS - 1, total, lang) for name, indices, total in sides if None in indices
    ]


def map_side(parts: Iterable[Part]) -> int:
    """The most rows and columns a heat map may have, so that all maps among the parts have a bounded number of cells.

    Examples
    --------
    >>> import numpy as np
    >>> big = Heat("weights", np.eye(64), ("a",) * 64, ("a",) * 64)
    >>> map_side([big]), map_side([big] * 9)
    (64, 25)
    """
    shapes = [part.value.shape for part in parts if isinstance(part, Heat)]
    sides = range(MOST_SIDE, 1, -1)
    return next((s for s in sides if sum(min(s, n) * min(s, m) for n, m in shapes) <= ALL_MAPS), 1)


def grid_of(part: Heat, side: int) -> Grid:
    """The map, pooled where it has more rows or columns than `side`."""
    return Grid.of(part.value, part.visible, part.rows, part.columns, Screen()).pooled(side, side)


def pooled_line(grid: Grid, lang: str) -> str:
    """The line that says what a cell stands for; empty where it is a single value."""
    down, across = grid.pool
    return words.say("heat.pooled", lang, rows=down, columns=across) if down * across > 1 else ""
