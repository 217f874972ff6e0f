"""A heat map as an HTML table: colour behind each cell, the number in it or under the pointer, a numbered legend."""

from __future__ import annotations

import re

import numpy as np

from .. import words
from ..walkthrough import Heat
from .colors import ink, on_ramp
from .grid import Grid
from .page_cells import (
    ISOLATE,
    POP,
    element,
    escaped,
    header,
    kind_of,
    number_cell,
    number_format,
    number_text,
    short,
    signs,
)
from .page_tables import boxed, caption
from .screen import Screen
from .shades import STEPS, Scale
from .sizes import grid_of, pooled_line
from .values import exact

FEW = 16  # rows and columns up to which every cell has room for its number
DIGITS = 2


def heat_html(part: Heat, lang: str, side: int) -> str:
    """The map, pooled to at most `side` rows and columns."""
    grid = grid_of(part, side)
    numbers = max(grid.values.shape) <= FEW and grid.pool == (1, 1)
    negative = part.signed or bool((grid.seen < 0).any())
    scale = Scale.of("signed" if negative else "probability", None, grid.seen, Screen())
    rows, columns = _names(grid.rows, grid.pool[0]), list(zip(grid.heads, grid.tokens))
    columns = columns if grid.pool[1] == 1 else [("", span) for span in grid.tokens]
    queries, keys = ([f"{ISOLATE}{short(name)}{POP}" for _, name in side] for side in (rows, columns))
    written = number_format(grid.seen, DIGITS)
    texts: set[str] = set()

    def one(i: int, j: int) -> str:
        x, seen = float(grid.values[i, j]), bool(grid.visible[i, j])
        shown = number_text(x, seen, written) if numbers else "" if np.isfinite(x) or not seen else exact(x)
        texts.add(shown)
        value = exact(x) if seen else words.say("heat.masked", lang)
        title = words.say("page.link", lang, query=queries[i], key=keys[j], value=value)
        if not seen and grid.pool != (1, 1):
            return element("td", "", class_="masked", title=title)
        return number_cell(x, shown, kind_of(x, seen) or colour_class(scale, x), title)

    body = ""
    for i, (number, name) in enumerate(rows):
        cells = "".join(one(i, j) for j in range(len(columns)))
        body += f"<tr>{header(short(name), 'row', number)}{cells}</tr>"
    head = "".join(header(short(name), "col", number) for number, name in columns)
    lines = f"<thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody>"
    look = "heat" if numbers else "heat small"
    table = element("table", caption(part.name, part.value.shape) + lines, class_=look)
    axes = f"{words.say('heat.queries', lang)} ↓ · {words.say('heat.keys', lang)} →"
    notes = [escaped(axes), _legend(scale, grid, texts, lang, negative)]
    pooled = pooled_line(grid, lang)
    return boxed(table, part.name, len(grid.heads) > 5, [*notes, *([escaped(pooled)] if pooled else [])])


def _names(rows: list[str], pooled: int) -> list[tuple[str, str]]:
    """Number and token of each row; of rows that stand together the range of their numbers alone."""
    pairs = (row.split(maxsplit=1) for row in rows)
    return [("", first) if pooled > 1 else (first, token) for first, token in pairs]


def colour_class(scale: Scale, value: float) -> str:
    """The colour of a value, as the class that is named after it."""
    return "x" + bytes(on_ramp(scale.ramp, scale.fraction(value))).hex()


def colour_rules(page: str) -> str:
    """The style rules of the colours that a page uses."""
    used = sorted(set(re.findall(r'class="x([0-9a-f]{6})"', page)))
    rules = []
    for code in used:
        red, green, blue = bytes.fromhex(code)
        front = bytes(ink((red, green, blue))).hex()
        rules.append(f".qkv .x{code}{{background:#{code};color:#{front}}}")
    return "\n".join(rules)


def _legend(scale: Scale, grid: Grid, texts: set[str], lang: str, negative: bool) -> str:
    name = words.say("heat.signed" if negative else "heat.weight", lang)
    values = np.linspace(scale.low, scale.high, STEPS)
    samples = "".join(
        element("span", escaped(step.strip()), class_=colour_class(scale, float(value)))
        for value, step in zip(values, scale.steps(grid.seen))
    )
    marks = (element("span", sign, class_="sign") for sign in signs(grid.values, grid.visible, texts, lang))
    return " ".join([escaped(name), element("span", samples, class_="ramp"), *marks])
