"""A table of a walk as text: fewer decimals, then fewer columns, until it fits; never half a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .. import words
from ..walkthrough import Table, Word
from .cells import width, wrap
from .screen import Screen, printable
from .sizes import span_left_out
from .tables import GAP, columns
from .values import cell, is_word

FEW = 12  # rows that are shown before the middle is left out
FEWEST_DIGITS = 2


def table_text(part: Table, screen: Screen, lang: str) -> str:
    """The table, and below it a line on what was left out."""
    fitted = _fitted(part, screen, lang)
    heads = [printable(heading(head, lang), screen) for head in fitted.heads]
    rows = [_cells(row, fitted, lang, screen) for row in fitted.rows]
    notes = []
    if len(rows) > FEW + 1 and not part.whole:
        half = FEW // 2
        notes.append(span_left_out("row", half, len(rows) - half - 1, len(rows), lang))
        rows = [*rows[:half], [printable("…", screen)], *rows[-half:]]
    if len(fitted.heads) < len(part.heads):
        first, total = len(fitted.heads), len(part.heads)
        notes.append(span_left_out("column", first, total - 1, total, lang))
    if fitted.total is not None:
        rows.append(_cells(fitted.total, fitted, lang, screen))
    align = "".join("l" if any(is_word(row[c]) for row in part.rows) else "r" for c in range(len(heads)))
    below = [line for note in notes for line in wrap(printable(note, screen), screen.width, screen)]
    return "\n".join([columns(rows, heads, align, screen), *below])


def heading(text: str, lang: str) -> str:
    """A `Word` in its language; any other text as it is."""
    return words.say(text, lang) if isinstance(text, Word) else text


def _fitted(part: Table, screen: Screen, lang: str) -> Table:
    most = screen.width // (GAP + 1) + 1  # more columns never fit, and each that goes costs a look at all the rest
    digits = list(part.digits or (None,) * len(part.heads))[:most]
    part = replace(
        part, heads=part.heads[:most], rows=tuple(row[:most] for row in part.rows),
        total=part.total and part.total[:most], digits=tuple(digits),
    )  # fmt: skip
    while _width(part, screen, lang) > screen.width and max((d or 0 for d in digits), default=0) > FEWEST_DIGITS:
        most = max(d or 0 for d in digits)
        digits = [most - 1 if d == most else d for d in digits]
        part = replace(part, digits=tuple(digits))
    while _width(part, screen, lang) > screen.width and len(part.heads) > FEWEST_DIGITS:
        part = replace(
            part, heads=part.heads[:-1], rows=tuple(row[:-1] for row in part.rows),
            total=part.total and part.total[:-1], digits=part.digits[:-1],
        )  # fmt: skip
    return part


def _width(part: Table, screen: Screen, lang: str) -> int:
    lines = [[heading(head, lang) for head in part.heads]]
    lines += [_cells(row, part, lang, screen) for row in (*part.rows, *([part.total] if part.total else []))]
    return sum(max(width(line[c], screen) for line in lines) + GAP for c in range(len(part.heads))) - GAP


def _cells(row: Sequence[Any], part: Table, lang: str, screen: Screen) -> list[str]:
    digits = part.digits or (None,) * len(row)
    texts = (heading(x, lang) if isinstance(x, str) else cell(x, d) for x, d in zip(row, digits))
    return [printable(text, screen) for text in texts]
