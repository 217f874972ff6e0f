"""What a heat map draws: values with the names of their rows and columns, pooled when the screen is too small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qkv.errors import ShapeError
from qkv.views.cells import cut, flow, label, pad, sign, width
from qkv.views.screen import Screen

USUAL_LABEL = 12


@dataclass(frozen=True)
class Grid:
    """Values with everything that names them, ready to draw.

    Attributes
    ----------
    values : (n, m) ndarray
        Float64.
    visible : (n, m) ndarray
        False where a cell is masked.
    rows : list of str
        In front of each row.
    heads : list of str
        The number above each column.
    tokens : list of str
        What each column is called; a range of numbers when columns are pooled.
    screen : Screen
        Where it is drawn.
    pool : (int, int)
        Rows and columns that a cell stands for.
    """

    values: NDArray[np.float64]
    visible: NDArray[np.bool_]
    rows: list[str]
    heads: list[str]
    tokens: list[str]
    screen: Screen
    pool: tuple[int, int] = (1, 1)

    @classmethod
    def of(
        cls,
        values: ArrayLike,
        visible: ArrayLike | None,
        row_labels: Sequence[str],
        column_labels: Sequence[str],
        screen: Screen,
    ) -> Grid:
        """Check that values, mask and labels belong together, and make the labels fit to print.

        Raises
        ------
        ShapeError
            When they do not.
        """
        table = np.asarray(values, dtype=np.float64)
        if table.ndim != 2:
            raise ShapeError("shape", name="values", expected="(Tq, Tk)", shape=table.shape)
        shown = np.ones(table.shape, dtype=bool) if visible is None else np.asarray(visible, dtype=bool)
        if shown.shape != table.shape:
            raise ShapeError("shape", name="visible", expected=table.shape, shape=shown.shape)
        for name, labels, axis, size in zip(
            ("row_labels", "column_labels"), (row_labels, column_labels), ("Tq", "Tk"), table.shape
        ):
            if len(labels) != size:
                raise ShapeError("same_size", name=name, axis=axis, size=len(labels), other="values", other_size=size)
        digits = len(str(len(table) - 1))
        rows = [f"{i:>{digits}} {label(token, screen)}" for i, token in enumerate(row_labels)]
        heads = [str(j) for j in range(len(column_labels))]
        return cls(table, shown, rows, heads, [label(token, screen) for token in column_labels], screen)

    @property
    def seen(self) -> NDArray[np.float64]:
        """The values that are not masked, in a row."""
        return self.values[self.visible]

    @property
    def margin(self) -> int:
        """Cells kept for the names of the rows."""
        return min(max((width(row, self.screen) for row in self.rows), default=0), self._most_margin)

    @property
    def _most_margin(self) -> int:
        cells = self.screen.width
        return max(min(USUAL_LABEL, cells // 3), cells // 4)

    def row(self, i: int, cells: str) -> str:
        """A line: the name of a row, then its cells."""
        return pad(cut(self.rows[i], self.margin, self.screen), self.margin, self.screen) + cells

    def pooled(self, most_rows: int, most_columns: int) -> Grid:
        """At most so many rows and columns; a cell then shows the largest absolute value of those it stands for.

        Masked places are passed over, and a cell is masked when all of them are. A NaN stays visible.
        """
        (n, m), screen = self.values.shape, self.screen
        down, across = max(-(-n // most_rows), 1), max(-(-m // most_columns), 1)
        if (down, across) == (1, 1):
            return self
        tops, lefts = range(0, n, down), range(0, m, across)
        pairs = [[self._strongest(i, i + down, j, j + across) for j in lefts] for i in tops]
        table = np.array(pairs, dtype=np.float64).reshape(len(tops), len(lefts), 2)
        names = self.rows if down == 1 else [self._pooled_name(i, min(i + down, n)) for i in tops]
        tokens = self.tokens if across == 1 else [span(j, min(j + across, m), screen) for j in lefts]
        heads = [self.heads[j] for j in lefts]
        pool = (self.pool[0] * down, self.pool[1] * across)
        return Grid(table[..., 0], table[..., 1] > 0, names, heads, tokens, screen, pool)

    def _pooled_name(self, first: int, stop: int) -> str:
        tokens = " ".join(row.split(maxsplit=1)[1] for row in self.rows[first:stop])
        return cut(f"{span(first, stop, self.screen)} {tokens}", self._most_margin, self.screen)

    def _strongest(self, top: int, bottom: int, left: int, right: int) -> tuple[float, bool]:
        seen = self.values[top:bottom, left:right][self.visible[top:bottom, left:right]]
        if not seen.size:
            return 0.0, False
        return float(seen[np.argmax(np.abs(seen))]), True  # argmax stops at a NaN

    def tokens_fit(self, cells: int) -> bool:
        """Whether every token can stand above its own column."""
        return all(width(token, self.screen) <= cells for token in self.tokens)

    def key_legend(self, keys: str) -> list[str]:
        """Which number is which token; of pooled columns, which numbers stand together."""
        if self.pool[1] > 1:
            return flow([keys, *self.tokens], self.screen)
        return flow([keys, *(f"{head} {token}" for head, token in zip(self.heads, self.tokens))], self.screen)

    def query_legend(self, queries: str) -> list[str]:
        """The rows whose names were cut, in full; none when pooled, or when the legend of the keys has the same."""
        if self.pool[0] > 1:
            return []
        keys = {f"{head} {token}" for head, token in zip(self.heads, self.tokens)}
        long = [row.strip() for row in self.rows if width(row, self.screen) > self.margin]
        unseen = [row for row in long if row not in keys]
        return flow([queries, *unseen], self.screen) if unseen else []


def span(first: int, stop: int, screen: Screen) -> str:
    """A range of numbers, its last one included.

    Examples
    --------
    >>> span(64, 72, Screen()), span(8, 9, Screen())
    ('64–71', '8')
    """
    return f"{first}{sign('–', '-', screen)}{stop - 1}" if stop - first > 1 else str(first)
