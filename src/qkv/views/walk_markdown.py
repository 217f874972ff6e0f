r"""A walk, or a comparison, as GitHub-flavoured Markdown: tables with aligned columns, heat maps as numbers.

What a user wrote is text and nothing else: every character that Markdown could take for markup stands behind a `\`.
How much of a large walk is shown is said in `qkv.views.sizes`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import words
from ..walkthrough import Comparison, Heat, Line, Matrix, Part, Shapes, Step, Table, Walkthrough
from .cells import label, pad, width
from .page_cells import MARKS, number_format, number_text
from .screen import Screen
from .sizes import WHOLE, grid_of, kept, left_out, pooled_line
from .values import cell, is_word, one_line, shape_text
from .walk_table import heading

# Underscores inside a word and most punctuation mean nothing to Markdown; addresses would become links.
MARKUP = re.compile(r"([\\`*\[\]<>|~&$@]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.)", re.IGNORECASE)


def walk_markdown(walk: Walkthrough) -> str:
    """All steps with their details, and the code that gives the same numbers.

    Parameters
    ----------
    walk : Walkthrough

    Returns
    -------
    str
        Markdown, a newline at the end.
    """
    lang = walk.lang
    facts = {**vars(walk.setup), "n": len(walk.tokens)}
    blocks = [f"# {_say('walk.title', lang, **facts)}", _say("walk.subtitle", lang, **facts)]
    for number, step in enumerate(walk.steps, 1):
        blocks += _step(step, number, lang)
    blocks += [f"## {words.say('page.code', lang)}", words.say("page.code_about", lang)]
    return "\n\n".join([*blocks, f"```python\n{walk.code().rstrip()}\n```"]) + "\n"


def comparison_markdown(comparison: Comparison) -> str:
    """Two sentences through the same layer: what changes and what stays."""
    a, b = comparison.a.setup.text, comparison.b.setup.text
    title = f"# {_say('compare.title', comparison.lang, a=a, b=b)}"
    return "\n\n".join([title, *_parts(comparison.parts, comparison.lang)]) + "\n"


def literal(text: str) -> str:
    r"""Text on one line, shown as it is wherever Markdown reads it.

    Examples
    --------
    >>> print(literal("a|b `c` <script>"))
    a\|b \`c\` \<script\>
    """
    return MARKUP.sub(r"\\\1", one_line(text))


def _say(key: str, lang: str, /, **facts: Any) -> str:
    return words.say(key, lang, **{k: literal(v) if isinstance(v, str) else v for k, v in facts.items()})


def _step(step: Step, number: int, lang: str) -> list[str]:
    title = f"## {number}. {words.say(f'step.{step.name}', lang)}"
    return [title, f"`{step.formula}`", *_parts((*step.parts, *step.details), lang)]


def _parts(parts: Iterable[Part], lang: str) -> list[str]:
    return [block for part in parts for block in _part(part, lang)]


def _part(part: Part, lang: str) -> list[str]:
    match part:
        case Line():
            return [_say(part.key, lang, **part.facts)]
        case Shapes():
            heads = ["", *(words.say(f"table.{key}", lang) for key in ("shape", "axes"))]
            return [rows_of_text([[name, shape_text(size), axes] for name, axes, size in part.rows], heads, "lll")]
        case Table():
            return _table(part, lang)
        case Heat():
            return _heat(part, lang)
        case Matrix():
            return _matrix(part, lang)


def rows_of_text(rows: Sequence[Sequence[str]], heads: Sequence[str], align: str) -> str:
    """A table whose source is aligned too.

    Examples
    --------
    >>> print(rows_of_text([["远", "0.5"]], ["token", "weight"], "lr"))
    | token | weight |
    | :---- | -----: |
    | 远    |    0.5 |
    """
    screen = Screen()
    cells = [max(3, *(width(line[c], screen) for line in (heads, *rows))) for c in range(len(heads))]

    def line(texts: Sequence[str]) -> str:
        sides = ("right" if side == "r" else "left" for side in align)
        return "| " + " | ".join(pad(t, w, screen, side) for t, w, side in zip(texts, cells, sides)) + " |"  # type: ignore[arg-type]

    rule = ["-" * (w - 1) + ":" if side == "r" else ":" + "-" * (w - 1) for w, side in zip(cells, align)]
    return "\n".join([line(heads), "| " + " | ".join(rule) + " |", *map(line, rows)])


def _table(part: Table, lang: str) -> list[str]:
    digits = part.digits or (None,) * len(part.heads)

    def texts(row: Sequence[Any]) -> list[str]:
        return [literal(heading(x, lang)) if isinstance(x, str) else cell(x, d) for x, d in zip(row, digits)]

    shown = list(range(len(part.rows))) if part.whole else kept(len(part.rows))
    rows = [["…"] * len(part.heads) if i is None else texts(part.rows[i]) for i in shown]
    if part.total:
        rows.append([f"**{text}**" if text else "" for text in texts(part.total)])
    heads = [literal(heading(head, lang)) for head in part.heads]
    align = "".join("l" if any(is_word(row[c]) for row in part.rows) else "r" for c in range(len(heads)))
    return [rows_of_text(rows, heads, align), *left_out(shown, [], (len(part.rows), len(heads)), lang)]


def _matrix(part: Matrix, lang: str) -> list[str]:
    value = np.asarray(part.value, dtype=np.float64)
    visible = np.ones(value.shape, dtype=bool) if part.visible is None else part.visible
    rows, columns = kept(value.shape[0]), kept(value.shape[1])
    heads = ["…" if j is None else _label(part.columns[j]) for j in columns]
    names = ["…" if i is None else _label(part.rows[i]) for i in rows]
    texts = _texts(value, visible, 4)
    body = [["…" if i is None or j is None else texts[i][j] for j in columns] for i in rows]
    table = _numbers(names, heads, body, lang)
    name = [f"**{literal(part.name)}** {shape_text(value.shape)}"] if part.name else []
    return [*name, *table, *left_out(rows, columns, value.shape, lang)]


def _heat(part: Heat, lang: str) -> list[str]:
    grid = grid_of(part, WHOLE)
    names = [literal(row.strip()) for row in grid.rows]
    pairs = zip(grid.heads, grid.tokens)
    heads = [literal(token if grid.pool[1] > 1 else f"{number} {token}") for number, token in pairs]
    axes = f"{words.say('heat.queries', lang)} ↓ {words.say('heat.keys', lang)} →"
    title = f"**{literal(part.name)}** {shape_text(part.value.shape)}, {axes}"
    pooled = pooled_line(grid, lang)
    return [title, *_numbers(names, heads, _texts(grid.values, grid.visible, 2), lang), *([pooled] if pooled else [])]


def _label(text: str) -> str:
    return literal(label(text, Screen()))


def _texts(value: NDArray[np.float64], visible: NDArray[np.bool_], digits: int) -> list[list[str]]:
    written = number_format(value[visible], digits)
    pairs = zip(value.tolist(), visible.tolist())
    return [[number_text(x, seen, written) for x, seen in zip(*pair)] for pair in pairs]


def _numbers(names: list[str], heads: list[str], body: list[list[str]], lang: str) -> list[str]:
    """A table of numbers, and below it what its signs mean."""
    rows = [[name, *line] for name, line in zip(names, body)]
    table = rows_of_text(rows, ["", *heads], "l" + "r" * len(heads))
    known = ((MARKS.masked, "masked"), ("NaN", "nan"), ("~0", "near_zero"))
    used = {text for line in body for text in line}
    signs = [f"`{sign}` {words.say(f'heat.{key}', lang)}" for sign, key in known if sign in used]
    return [table, *([" ".join(signs)] if signs else [])]
