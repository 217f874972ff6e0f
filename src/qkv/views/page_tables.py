"""Matrices, tables and shapes of a walk as HTML tables, every one in a box that scrolls by itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import words
from ..walkthrough import Matrix, Shapes, Table
from .page_cells import escaped, header, kind_of, number_cell, number_format, number_text, signs
from .sizes import kept, left_out
from .values import cell, heading, one_line, shape_text

GAP = '<td class="gap">…</td>'


def boxed(table: str, name: str, wide: bool, notes: list[str]) -> str:
    """A figure: the table in a box that scrolls, reached by the keyboard where it may be wider than the page."""
    reach = f' tabindex="0" role="group" aria-label="{escaped(name)}"' if wide else ""
    below = "".join(f'<p class="note">{note}</p>' for note in notes)
    return f'<figure><div class="scroll"{reach}>{table}</div>{below}</figure>'


def caption(name: str, shape: tuple[int, ...]) -> str:
    """Name and shape of a matrix above it; nothing for one without a name."""
    return f'<caption>{escaped(one_line(name))} <span class="shape">{shape_text(shape)}</span></caption>' if name else ""


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

    head = "".join(GAP if j is None else header(part.columns[j], "col") for j in columns)
    lines = []
    for i in rows:
        if i is None:
            lines.append(f'<tr><td class="gap" colspan="{len(columns) + 1}">⋮</td></tr>')
            continue
        cells = "".join(GAP if j is None else one(i, j) for j in columns)
        lines.append(f"<tr>{header(part.rows[i], 'row')}{cells}</tr>")
    table = (
        f'<table class="matrix">{caption(part.name, value.shape)}'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    )
    notes = [*left_out(rows, columns, value.shape, lang), *signs(value, visible, texts, lang)]
    return boxed(table, part.name or " ".join(part.rows[:3]), len(columns) > 5, notes)


def table_html(part: Table, lang: str) -> str:
    """A table; of a long one the middle is left out, unless all of it is asked for."""
    heads = [heading(head, lang) for head in part.heads]
    rows = list(range(len(part.rows))) if part.whole else kept(len(part.rows))
    texts = [any(isinstance(row[c], str) and not row[c][:1].isdigit() for row in part.rows) for c in range(len(heads))]
    head = "".join(
        f'<th scope="col"{" class=" + chr(34) + "text" + chr(34) if text else ""}>{escaped(name)}</th>' if name else "<td></td>"
        for name, text in zip(heads, texts)
    )
    gap = f'<tr><td class="gap" colspan="{len(heads)}">⋮</td></tr>'
    body = "".join(gap if i is None else _row(part.rows[i], part, texts, lang) for i in rows)
    foot = f"<tfoot>{_row(part.total, part, texts, lang)}</tfoot>" if part.total else ""
    table = f'<table class="list"><thead><tr>{head}</tr></thead><tbody>{body}</tbody>{foot}</table>'
    notes = left_out(rows, [], (len(part.rows), len(heads)), lang)
    return boxed(table, " ".join(heads), len(heads) > 5, notes)


def _row(row: tuple[Any, ...], part: Table, texts: list[bool], lang: str) -> str:
    digits = part.digits or (None,) * len(row)
    first, *others = (_table_cell(x, d, text, lang) for x, d, text in zip(row, digits, texts))
    # The first cell names its row, whatever it holds.
    named = first.replace("<td", '<th scope="row"', 1).removesuffix("</td>") + "</th>"
    return f"<tr>{named}{''.join(others)}</tr>"


def _table_cell(value: Any, digits: int | None, text: bool, lang: str) -> str:
    if not isinstance(value, str):
        return number_cell(value, cell(value, digits), "" if value == value else "nan")
    shown = escaped(one_line(heading(value, lang)))
    return f'<td class="text"><bdi>{shown}</bdi></td>' if text else f"<td>{shown}</td>"


def shapes_html(part: Shapes, lang: str) -> str:
    """Names, sizes and what the sizes are called."""
    head = "".join(f'<th scope="col" class="text">{words.say(f"table.{key}", lang)}</th>' for key in ("shape", "axes"))
    rows = "".join(
        f'<tr><th scope="row" class="text">{escaped(name)}</th><td class="text">{shape_text(size)}</td>'
        f'<td class="text">{escaped(axes)}</td></tr>'
        for name, axes, size in part.rows
    )
    table = f'<table class="list shapes"><thead><tr><td></td>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return boxed(table, words.say("table.shape", lang), False, [])
