"""Matrices, tables and shapes of a walk as HTML tables, every one in a box that scrolls by itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import words
from ..walkthrough import Matrix, Shapes, Table
from .page_cells import element, escaped, kind_of, label_header, number_cell, number_format, number_text, signs
from .sizes import kept, left_out
from .values import cell, is_word, one_line, shape_text
from .walk_table import heading

GAP = '<td class="gap">…</td>'
NARROW = 5  # columns that fit everywhere


def boxed(table: str, name: str, wide: bool, notes: list[str]) -> str:
    """A figure: the table in a box that scrolls, reached by the keyboard where it may be wider than the page."""
    reach = {"tabindex": "0", "role": "group", "aria_label": one_line(name)} if wide else {}
    below = "".join(element("p", note, class_="note") for note in notes)
    return element("figure", element("div", table, class_="scroll", **reach) + below)


def caption(name: str, shape: tuple[int, ...]) -> str:
    """Name and shape of a matrix above it; nothing for one without a name."""
    sizes = element("span", shape_text(shape), class_="shape")
    return element("caption", f"{escaped(one_line(name))} {sizes}") if name else ""


def matrix_html(part: Matrix, lang: str) -> str:
    """A matrix with its labels; of a large one the middle is left out."""
    value = np.asarray(part.value, dtype=np.float64)
    visible = np.ones(value.shape, dtype=bool) if part.visible is None else part.visible
    rows, columns = kept(value.shape[0]), kept(value.shape[1])
    written = number_format(value, 4)
    texts: set[str] = set()

    def one(i: int, j: int) -> str:
        x, seen = float(value[i, j]), bool(visible[i, j])
        shown = number_text(x, seen, written)
        texts.add(shown)
        title = "" if seen else f"{words.say('heat.masked', lang)}: {x!r}"
        return number_cell(x, shown, kind_of(x, seen), title)

    head = "".join(GAP if j is None else label_header(part.columns[j], "col") for j in columns)
    body = ""
    for i in rows:
        if i is None:
            body += gap_row(len(columns) + 1)
            continue
        cells = "".join(GAP if j is None else one(i, j) for j in columns)
        body += f"<tr>{label_header(part.rows[i], 'row')}{cells}</tr>"
    lines = f"<thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody>"
    table = element("table", caption(part.name, value.shape) + lines, class_=f"matrix{_print_size(len(columns))}")
    notes = [*left_out(rows, columns, value.shape, lang), *signs(value, visible, texts, lang)]
    return boxed(table, part.name or " ".join(part.rows[:3]), len(columns) > NARROW, notes)


def _print_size(columns: int) -> str:
    """Paper does not scroll: the class that makes many columns small there."""
    return "" if columns <= 10 else " wide" if columns <= 18 else " widest"


def gap_row(columns: int) -> str:
    """The row that stands for those left out."""
    return element("tr", element("td", "⋮", class_="gap", colspan=str(columns)))


def table_html(part: Table, lang: str) -> str:
    """A table; of a long one the middle is left out, unless all of it is asked for."""
    heads = [heading(head, lang) for head in part.heads]
    rows = list(range(len(part.rows))) if part.whole else kept(len(part.rows))
    kinds = ["text" if any(is_word(row[c]) for row in part.rows) else "" for c in range(len(heads))]
    head = "".join(
        element("th", escaped(name), scope="col", class_=kind) if name else "<td></td>"
        for name, kind in zip(heads, kinds)
    )
    body = "".join(gap_row(len(heads)) if i is None else _row(part.rows[i], part, kinds, lang) for i in rows)
    foot = element("tfoot", _row(part.total, part, kinds, lang)) if part.total else ""
    table = element("table", f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>{foot}", class_="list")
    notes = left_out(rows, [], (len(part.rows), len(heads)), lang)
    return boxed(table, " ".join(heads), len(heads) > NARROW, notes)


def _row(row: tuple[Any, ...], part: Table, kinds: list[str], lang: str) -> str:
    digits = part.digits or (None,) * len(row)
    cells = (_cell(row[c], digits[c], kinds[c], lang, "td" if c else "th") for c in range(len(row)))
    return element("tr", "".join(cells))


def _cell(value: Any, digits: int | None, kind: str, lang: str, name: str) -> str:
    """One cell; the first of a row is its heading."""
    scope = "row" if name == "th" else ""
    if not isinstance(value, str):
        return number_cell(value, cell(value, digits), "nan" if value != value else kind, name=name, scope=scope)
    shown = f"<bdi>{escaped(one_line(heading(value, lang)))}</bdi>" if value else ""
    return element(name, shown, scope=scope, class_=kind)


def shapes_html(part: Shapes, lang: str) -> str:
    """Names, sizes and what the sizes are called."""
    heads = "".join(
        element("th", words.say(f"table.{key}", lang), scope="col", class_="text") for key in ("shape", "axes")
    )
    rows = "".join(
        element("tr", "".join([
            element("th", escaped(name), scope="row", class_="text"),
            *(element("td", escaped(text), class_="text") for text in (shape_text(size), axes)),
        ]))
        for name, axes, size in part.rows
    )  # fmt: skip
    table = element("table", f"<thead><tr><td></td>{heads}</tr></thead><tbody>{rows}</tbody>", class_="list")
    return boxed(table, words.say("table.shape", lang), False, [])
