"""Attention as a map in the terminal: queries down, keys across.

With colour each cell is two spaces on a coloured ground, or its number when there are few. What does not fit is
pooled, and the ranges are printed. Without colour it is a table of numbers, in blocks of columns when too wide:
nothing is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from qkv.views.cells import flow, pad, safe, sign, width, wrap
from qkv.views.grid import Grid, span
from qkv.views.screen import Screen, printable
from qkv.views.shades import Cell, Marks, Scale, ScaleName, half_block, number, painted, shaded
from qkv.views.tables import NumberFormat

FEW = 12
MOST_ROWS = 64
TICK_STEPS = (1, 5, 10, 20, 50, 100)


@dataclass(frozen=True)
class HeatmapWords:
    """What the title line and the legend say, here in English; `{rows}` and `{columns}` are counts."""

    queries: str = "queries"
    keys: str = "keys"
    weight: str = "weight"
    signed: str = "value"
    masked: str = "masked"
    nan: str = "not a number"
    infinite: str = "infinite"
    near_zero: str = "nearly 0, not 0"
    pooled: str = "each cell: the largest of {rows} × {columns}"


def heatmap(
    values: ArrayLike,
    row_labels: Sequence[str],
    column_labels: Sequence[str],
    screen: Screen,
    *,
    visible: ArrayLike | None = None,
    scale: ScaleName = "probability",
    domain: tuple[float, float] | None = None,
    title: str | None = None,
    row_title: str | None = None,
    column_title: str | None = None,
    compact: bool = False,
    digits: int = 2,
    words: HeatmapWords | None = None,
) -> str:
    """Draw a matrix of queries by keys.

    Where numbers are printed, `0` is a true zero; what only rounds to it is `~0`, and the legend says so.

    Parameters
    ----------
    values : (Tq, Tk) array_like
        Weights, scores or differences.
    row_labels, column_labels : sequence of str
        Tq queries and Tk keys. White space is made visible, control characters are escaped.
    screen : Screen
        Where it will be read. With `ascii` a ramp of characters takes the place of colours.
    visible : (Tq, Tk) array_like of bool, optional
        False: masked, which looks like no value at all.
    scale : {'probability', 'signed'}
        From 0 to 1, or around a neutral 0.
    domain : (float, float), optional
        Other ends of the scale.
    title, row_title, column_title : str, optional
        Above all; in place of the words for queries and keys.
    compact : bool
        Two rows in a line by half blocks, where there is colour and the screen can show them.
    digits : int
        Digits after the point where numbers are printed.
    words : HeatmapWords, optional
        The words of another language.

    Returns
    -------
    str
        Lines, none wider than the screen, without a newline at the end.

    Raises
    ------
    ShapeError
        When `values` has not two axes, or labels or `visible` do not fit it.
    ArgumentError
        When there is no such scale, or the domain is not two finite numbers in order.

    Examples
    --------
    >>> print(heatmap([[1, 0], [0.25, 0.75]], ["远", "方"], ["远", "方"], Screen(), visible=[[1, 0], [1, 1]]))
    queries ↓  keys →
            0     1
           远    方
    0 远  1.00     ·
    1 方  0.25  0.75
    weight 0.25 … 1  · masked
    """
    words = words or HeatmapWords()
    words = replace(words, queries=row_title or words.queries, keys=column_title or words.keys)
    words = HeatmapWords(**{key: printable(text, screen) for key, text in vars(words).items()})
    grid = Grid.of(values, visible, row_labels, column_labels, screen)
    ruler = Scale.of(scale, domain, grid.seen, screen)
    queries, keys = safe(words.queries, screen), safe(words.keys, screen)
    name = safe(words.weight if scale == "probability" else words.signed, screen)
    lines = wrap(safe(title, screen), screen.width, screen) if title else []
    lines += flow([f"{queries} {sign('↓', 'v', screen)}", f"{keys} {sign('→', '>', screen)}"], screen)
    halves = _halves(grid, compact)
    plain = screen.depth == "none" and not screen.ascii
    few = max(grid.values.shape) <= FEW and not screen.ascii and not halves
    texts = _texts(grid, digits) if plain or few else []
    if plain:
        numbers, legend = _blocks(grid, texts, keys), [name + _range(grid)]
    else:
        numbers, legend = _coloured_numbers(grid, texts, ruler, keys) if few else [], [name, *ruler.steps(grid.seen)]
    if numbers:
        lines += numbers
    else:
        grid = _fitted(grid, halves)
        lines += _shades(grid, ruler, keys, halves)
        if grid.pool != (1, 1):
            legend.append(words.pooled.format(rows=grid.pool[0], columns=grid.pool[1]))
    signs = _signs(grid, texts if numbers else [], words, ruler)
    return "\n".join([*lines, *grid.query_legend(queries), *_legend(legend, signs, screen)])


def _texts(grid: Grid, digits: int) -> list[list[str]]:
    written = NumberFormat.of(grid.seen[np.isfinite(grid.seen)], digits)
    marks = Marks.of(grid.screen)
    pairs = zip(grid.values.tolist(), grid.visible.tolist())
    return [[number(v, shown, written, marks) for v, shown in zip(*pair)] for pair in pairs]


def _widest(grid: Grid, texts: list[list[str]]) -> int:
    return max((width(text, grid.screen) for line in (grid.heads, *texts) for text in line), default=1)


def _range(grid: Grid) -> str:
    finite = grid.seen[np.isfinite(grid.seen)]
    return f" {finite.min() + 0.0:.3g} {sign('…', '..', grid.screen)} {finite.max() + 0.0:.3g}" if finite.size else ""


def _coloured_numbers(grid: Grid, texts: list[list[str]], ruler: Scale, keys: str) -> list[str]:
    """A number in every coloured cell; no line at all when there is no room."""
    screen, cells = grid.screen, _widest(grid, texts)
    room = screen.width - grid.margin - 1
    gap = next((gap for gap in (2, 1) if (cells + gap) * len(grid.heads) <= room), 0)
    if not gap:
        return []

    def spaced(row: Sequence[str]) -> list[str]:
        return [" " + pad(text, cells, screen, "right") + " " * (gap - 1) for text in row]

    fit = grid.tokens_fit(cells)
    above = [grid.heads, grid.tokens] if fit else [grid.heads]
    lines = [" " * (grid.margin + 1) + "".join(spaced(heads)) for heads in above]
    for i, row in enumerate(texts):
        colours = (ruler.paint(v, shown) for v, shown in zip(grid.values[i].tolist(), grid.visible[i].tolist()))
        lines.append(grid.row(i, " " + painted([Cell(*pair) for pair in zip(spaced(row), colours)])))
    return lines if fit else lines + grid.key_legend(keys)


def _blocks(grid: Grid, texts: list[list[str]], keys: str) -> list[str]:
    """Plain numbers: as many columns as fit, then the next ones below."""
    screen, cells, total = grid.screen, _widest(grid, texts), len(grid.heads)
    room = screen.width - grid.margin
    gap = 1 if (cells + 2) * total > room >= (cells + 1) * total else 2
    columns = max(room // (cells + gap), 1)
    step = columns - columns % 10 if 10 < columns < total else columns
    fit = grid.tokens_fit(cells)

    def spaced(row: Sequence[str]) -> str:
        return "".join(" " * gap + pad(text, cells, screen, "right") for text in row)

    lines: list[str] = []
    for first in range(0, total, step):
        block = slice(first, min(first + step, total))
        if step < total:
            lines += ([""] if lines else []) + [f"{keys} {span(block.start, block.stop, screen)}"]
        above = [grid.heads, grid.tokens] if fit else [grid.heads]
        lines += [" " * grid.margin + spaced(heads[block]) for heads in above]
        lines += [grid.row(i, spaced(row[block])) for i, row in enumerate(texts)]
    return lines if fit else lines + grid.key_legend(keys)


def _halves(grid: Grid, compact: bool) -> bool:
    """Half blocks need a screen that shows them one cell wide, and leave no place for the sign of an infinity."""
    screen = grid.screen
    able = screen.depth != "none" and not screen.ascii and all(sign(block, "", screen) for block in "▀▄")
    return compact and able and not bool(np.isinf(grid.seen).any())


def _fitted(grid: Grid, halves: bool) -> Grid:
    """Pooled to the screen: rows first, since the names of pooled rows may take a wider margin."""
    grid = grid.pooled(MOST_ROWS * (1 + halves), max(len(grid.heads), 1))
    frame = 3 if grid.screen.ascii else 1
    room = grid.screen.width - grid.margin - frame
    return grid.pooled(max(len(grid.rows), 1), max(room // (2 - halves), 1))


def _shades(grid: Grid, ruler: Scale, keys: str, halves: bool) -> list[str]:
    """Coloured cells without numbers: two cells wide, or one wide and half a line high."""
    marks, cells = Marks.of(grid.screen), 1 if halves else 2
    edge = "|" if grid.screen.ascii else ""
    pairs = zip(grid.values.tolist(), grid.visible.tolist())
    rows = [[shaded(v, shown, ruler, marks, cells) for v, shown in zip(*pair)] for pair in pairs]
    blank = " " * len(edge)
    lines = [" " * (grid.margin + 1) + blank + _ticks(grid.heads, cells) + blank]
    if not halves:
        lines += [grid.row(i, f" {edge}{painted(row)}{edge}") for i, row in enumerate(rows)]
    for i in range(0, len(rows) if halves else 0, 2):
        below = rows[i + 1] if i + 1 < len(rows) else [None] * len(rows[i])
        lines.append(grid.row(i, " " + painted([half_block(*pair) for pair in zip(rows[i], below)])))
    return lines + grid.key_legend(keys)


def _ticks(heads: Sequence[str], cells: int) -> str:
    """Numbers above narrow columns: every one if there is room, else every fifth, tenth ..."""
    longest = max(map(len, heads), default=0)
    step = next((step for step in TICK_STEPS if step * cells > longest), TICK_STEPS[-1])
    line = ""
    for j in range(0, len(heads), step):
        if cells * j + len(heads[j]) <= cells * len(heads):
            line = line.ljust(cells * j) + heads[j]
    return line.ljust(cells * len(heads))


def _legend(steps: list[str], signs: list[str], screen: Screen) -> list[str]:
    """One line if it fits; else the steps stay together, closer if need be, and the signs get lines of their own."""
    together = flow([*steps, *signs], screen)
    if len(together) == 1:
        return together
    apart = flow(steps, screen)
    return (apart if len(apart) == 1 else flow(steps, screen, gap=" ")) + flow(signs, screen, indent=0)


def _signs(grid: Grid, texts: list[list[str]], words: HeatmapWords, ruler: Scale) -> list[str]:
    """Legend items of the signs that occur."""
    marks = Marks.of(grid.screen)
    seen = grid.seen
    items = []
    if not grid.visible.all():
        items.append((marks.masked, ruler.paint(0.0, False), words.masked))
    if np.isnan(seen).any():
        items.append((marks.nan, ruler.paint(np.nan, True), words.nan))
    if not texts:
        infinities = ((marks.plus, ruler.high, np.inf), (marks.minus, ruler.low, -np.inf))
        items += [(text, ruler.paint(end, True), words.infinite) for text, end, v in infinities if (seen == v).any()]
    if any("~0" in row for row in texts):
        items.append(("~0", ruler.paint(0.0, True), words.near_zero))
    plain = grid.screen.ascii or grid.screen.depth == "none"
    return [
        f"{text if plain else painted([Cell(pad(text, 2, grid.screen, 'right'), colours)])} {safe(word, grid.screen)}"
        for text, colours, word in items
    ]
