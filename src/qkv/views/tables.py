"""Numbers in columns: one format a matrix, points under each other, a plain line for whatever is left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qkv.errors import ArgumentError, ShapeError
from qkv.views.cells import Align, cut, label, pad, safe, sign, width, wrap
from qkv.views.screen import Screen, printable

GAP = 2
WIDEST_LABEL = 16
NARROWEST_COLUMN = 4
# Above this many digits before the point, or when every value would lose its leading digits, a matrix is scientific.
MOST_DIGITS = 7


@dataclass(frozen=True)
class TableWords:
    """The sentences of a table; `{first}`, `{last}` and `{total}` are counts."""

    rows_left_out: str = "rows {first}–{last} of {total} left out"
    columns_left_out: str = "columns {first}–{last} of {total} left out"
    row_left_out: str = "row {first} of {total} left out"
    column_left_out: str = "column {first} of {total} left out"


@dataclass(frozen=True)
class NumberFormat:
    """How every number of one matrix is written.

    Attributes
    ----------
    decimals : int
        Digits after the point.
    scientific : bool
        With a power of ten.
    """

    decimals: int
    scientific: bool = False

    @classmethod
    def of(cls, values: NDArray[np.generic], digits: int) -> NumberFormat:
        """Choose for a matrix: `digits` after the point, fewer for large values, a power of ten only when needed.

        Examples
        --------
        >>> NumberFormat.of(np.array([0.5, -17.4478]), 4)(-17.4478)
        '-17.4478'
        >>> NumberFormat.of(np.array([0.5, 3e9]), 4)(3e9)
        '3.0000e+09'
        """
        if values.dtype.kind in "iub":
            return cls(0)
        size = np.abs(values.astype(np.float64))
        largest = float(size[np.isfinite(size)].max(initial=0.0))
        before_point = math.floor(math.log10(largest)) + 1 if largest > 0 else 0
        if before_point > MOST_DIGITS or before_point < 2 - digits:
            return cls(digits, scientific=True)
        return cls(max(min(digits, 1), min(digits, digits + 3 - before_point)))

    def __call__(self, value: float) -> str:
        """One number; what only rounds to zero is `~0`, and no minus stands before nothing but zeros."""
        written = f"{value:.{self.decimals}{'e' if self.scientific else 'f'}}"
        if written.strip("-0.e+"):
            return written
        return "~0" if value else written.removeprefix("-")


def matrix(
    values: ArrayLike,
    row_labels: Sequence[str] | None,
    column_labels: Sequence[str] | None,
    screen: Screen,
    digits: int = 4,
    max_rows: int = 16,
    max_columns: int | None = None,
    *,
    words: TableWords | None = None,
) -> str:
    """A matrix as aligned numbers.

    Parameters
    ----------
    values : (n, m) array_like
        Floating point, integer or boolean.
    row_labels, column_labels : sequence of str or None
        n and m labels, None for running numbers. White space in them is made visible; long ones are cut.
    screen : Screen
        Where it will be read: columns that do not fit are left out of the middle.
    digits : int
        Digits after the decimal point (fewer when values are large), or of the mantissa.
    max_rows, max_columns : int or None
        More than this are left out of the middle, and a line below says which. None: as many as fit.
    words : TableWords, optional
        That line, in another language.

    Raises
    ------
    ShapeError
        When `values` has not two axes or a label is missing.

    Examples
    --------
    >>> print(matrix([[0.5, -17.4478], [-0.00001, 3.0]], ["远", "方"], None, Screen()))
               0         1
    远    0.5000  -17.4478
    方        ~0    3.0000
    """
    table = np.asarray(values)
    if table.ndim != 2:
        raise ShapeError("shape", name="values", expected="(n, m)", shape=table.shape)
    if table.dtype.kind not in "iub":
        table = table.astype(np.float64)
    words = words or TableWords()
    rows = _labels("row_labels", row_labels, "n", table.shape[0], screen)
    heads = _labels("column_labels", column_labels, "m", table.shape[1], screen)
    kept_rows = _keep(len(rows), max_rows)
    written = NumberFormat.of(table, digits)
    texts = {i: [written(value) for value in table[i].tolist()] for i in kept_rows if i is not None}
    label_width = max((width(text, screen) for text in rows), default=0)
    cell_width = max((width(text, screen) for line in (heads, *texts.values()) for text in line), default=0) + GAP
    room = screen.width - label_width
    if cell_width + GAP + 1 > room and digits > 0:
        return matrix(values, row_labels, column_labels, screen, digits - 1, max_rows, max_columns, words=words)
    dots = sign("…", "~", screen)
    limit = len(heads) if max_columns is None else max_columns
    if min(limit, len(heads)) * cell_width > room or limit < len(heads):
        limit = max(min(limit, (room - GAP - 1) // cell_width), 1)
    kept_columns = _keep(len(heads), limit)

    def line(name: str, cells: Sequence[str]) -> str:
        texts = (" " * GAP + dots if j is None else pad(cells[j], cell_width, screen, "right") for j in kept_columns)
        return pad(name, label_width, screen) + "".join(texts)

    body = [line(dots, [dots] * len(heads)) if i is None else line(rows[i], texts[i]) for i in kept_rows]
    notes = [
        part
        for several, one, kept, total in (
            (words.rows_left_out, words.row_left_out, kept_rows, len(rows)),
            (words.columns_left_out, words.column_left_out, kept_columns, len(heads)),
        )
        for part in wrap(printable(_left_out(several, one, kept, total), screen), screen.width, screen)
        if part
    ]
    return "\n".join([line("", heads), *body, *notes])


def _labels(name: str, labels: Sequence[str] | None, axis: str, size: int, screen: Screen) -> list[str]:
    if labels is None:
        return [str(i) for i in range(size)]
    if len(labels) != size:
        raise ShapeError("same_size", name=name, axis=axis, size=len(labels), other="values", other_size=size)
    return [cut(label(text, screen), min(WIDEST_LABEL, screen.width // 3), screen) for text in labels]


def _keep(total: int, limit: int) -> list[int | None]:
    """The indices that stay, None where some are left out."""
    if total <= limit:
        return list(range(total))
    first = (max(limit, 1) + 1) // 2
    return [*range(first), None, *range(total - max(limit, 1) + first, total)]


def _left_out(several: str, one: str, kept: Sequence[int | None], total: int) -> str:
    if None not in kept:
        return ""
    gap = kept.index(None)
    after = kept[gap + 1] if gap + 1 < len(kept) else total
    last = (after if after is not None else total) - 1
    return (several if last > gap else one).format(first=gap, last=last, total=total)


def columns(
    rows: Sequence[Sequence[str]],
    headers: Sequence[str] | None = None,
    align: str = "",
    screen: Screen | None = None,
) -> str:
    """A table of texts, without lines, aligned by cell width.

    Parameters
    ----------
    rows : sequence of sequence of str
        The cells; shorter rows are filled up.
    headers : sequence of str, optional
        Names of the columns, above a rule.
    align : str
        A letter a column: `l`, `r` or `c`; left where none is given.
    screen : Screen, optional
        By default a pipe. What is too wide for it: the last column is wrapped, then the widest ones are cut.

    Raises
    ------
    ArgumentError
        When `align` has another letter.

    Examples
    --------
    >>> print(columns([["scores", "7 x 7"], ["output", "7 x 16"]], ["step", "shape"], "lr"))
    step     shape
    ------  ------
    scores   7 x 7
    output  7 x 16
    """
    screen = screen or Screen()
    if set(align) - set("lrc"):
        raise ArgumentError("choice", name="align", choices="l, r, c", value=align)
    lines = [[safe(text, screen).replace("\n", " ") for text in row] for row in (headers or [], *rows)]
    count = max(map(len, lines), default=0)
    lines = [line + [""] * (count - len(line)) for line in lines]
    widths = _shrunk([max(width(line[j], screen) for line in lines) for j in range(count)], screen.width)
    sides: list[Align] = [{"r": "right", "c": "centre"}.get(align[j : j + 1], "left") for j in range(count)]  # type: ignore[misc]
    body = [text for line in lines[1:] for text in _wrapped_row(line, widths, sides, screen)]
    if not headers:
        return "\n".join(body)
    rule = (" " * GAP).join("-" * cells for cells in widths)
    return "\n".join([*_wrapped_row(lines[0], widths, sides, screen), rule, *body])


def _shrunk(widths: list[int], room: int) -> list[int]:
    """Take the excess from the last column, which wraps, then cell by cell from the widest."""
    room -= GAP * (len(widths) - 1)
    shrunk = list(widths)
    if shrunk and sum(shrunk) > room:
        shrunk[-1] = max(min(shrunk[-1], 2 * NARROWEST_COLUMN), shrunk[-1] - (sum(shrunk) - room))
    while sum(shrunk) > room and max(shrunk) > 1:
        shrunk[shrunk.index(max(shrunk))] -= 1
    return shrunk


def _wrapped_row(line: Sequence[str], widths: Sequence[int], sides: Sequence[Align], screen: Screen) -> list[str]:
    if not widths:
        return []
    tail = wrap(line[-1], widths[-1], screen)
    heads = [cut(text, cells, screen) for text, cells in zip(line[:-1], widths)]
    rows = [[*heads, tail[0]], *([*[""] * len(heads), part] for part in tail[1:])]
    gap = " " * GAP
    return [
        gap.join(pad(text, cells, screen, side) for text, cells, side in zip(row, widths, sides)).rstrip()
        for row in rows
    ]
