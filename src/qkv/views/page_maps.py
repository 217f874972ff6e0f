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
    negative = bool((grid.seen < 0).any())
    scale = Scale.of("signed" if negative else "probability", None, grid.seen, Screen())
    queries = [f"{ISOLATE}{short(name)}{POP}" for name in _names(grid)]
    keys = [f"{ISOLATE}{short(name)}{POP}" for name in grid.tokens]
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

    body = "".join(
        f"<tr>{header(name, 'row', _number(row))}{''.join(one(i, j) for j in range(len(grid.heads)))}</tr>"
        for i, (row, name) in enumerate(zip(grid.rows, _names(grid)))
    )
    head = "".join(
        header(name, "col", "" if grid.pool[1] > 1 else number) for number, name in zip(grid.heads, grid.tokens)
    )
    lines = f"<thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody>"
    look = "heat" if numbers else "heat small"
    table = element("table", caption(part.name, part.value.shape) + lines, class_=look)
    axes = f"{words.say('heat.queries', lang)} ↓ · {words.say('heat.keys', lang)} →"
    notes = [escaped(axes), _legend(scale, grid, texts, lang, negative)]
    pooled = pooled_line(grid, lang)
    return boxed(table, part.name, len(grid.heads) > 5, [*notes, *([escaped(pooled)] if pooled else [])])


def _names(grid: Grid) -> list[str]:
    return [row.split(maxsplit=1)[1] for row in grid.rows]


def _number(row: str) -> str:
    return row.split(maxsplit=1)[0]


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
