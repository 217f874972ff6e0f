"""What a model's heads did, as text: small maps, a table of all heads, one head in full."""

from __future__ import annotations

import json

import numpy as np

from ..ops.precision import Array
from ..walkthrough import Line, Seen
from .cells import pad, wrap
from .colors import paint
from .screen import Screen
from .shades import Cell, painted
from .walk_json import numbers
from .walk_text import part_text, said, step_text

LARGEST_MAP = 16  # cells on a side
GAP = 2


def see_text(seen: Seen, screen: Screen | None = None) -> str:
    """The overview of all heads, then the numeric walk through one of them."""
    screen = screen or Screen()

    def sentence(key: str, **facts: object) -> str:
        return "\n".join(wrap(said(Line(key, facts), seen.lang, screen), screen.width, screen))

    blocks = [sentence(seen.title.key, **seen.title.facts)]
    if screen.depth != "none":
        layers = sorted({int(row[0]) for row in seen.overview[1].rows})  # type: ignore[union-attr]
        for layer in layers:
            blocks += [sentence("see.maps", layer=layer), small_maps(list(seen.weights[layer]), screen)]
    blocks += [part_text(part, screen, seen.lang) for part in seen.overview]
    blocks.append(sentence("see.one", layer=seen.layer, head=seen.head))
    blocks += [step_text(step, screen, seen.lang, number) for number, step in enumerate(seen.steps, 1)]
    return "\n\n".join(blocks)


def see_json(seen: Seen) -> str:
    """tokens and weights[layer][head][query][key]."""
    weights = [numbers(layer) for layer in seen.weights]
    return json.dumps({"tokens": seen.tokens, "weights": weights}, ensure_ascii=False)


def small_maps(maps: list[Array], screen: Screen) -> str:
    """Heat maps beside each other, each under its number, as many in a row as fit; large ones by their largest cells.

    Parameters
    ----------
    maps : list of (n, m) ndarray
        Weights from 0 to 1.
    screen : Screen
        With colours.
    """
    drawn = [pooled(w) for w in maps]
    width = 2 * max(w.shape[1] for w in drawn)
    in_a_row = max(1, (screen.width + GAP) // (width + GAP))
    gap = " " * GAP
    lines = []
    for start in range(0, len(drawn), in_a_row):
        chosen = drawn[start : start + in_a_row]
        lines.append(gap.join(pad(str(start + i), width, screen) for i in range(len(chosen))).rstrip())
        for i in range(len(chosen[0])):
            lines.append(gap.join(painted([_cell(x, screen) for x in w[i]]) for w in chosen))
    return "\n".join(lines)


def pooled(w: Array) -> Array:
    """At most 16 x 16 cells, each the largest of those it stands for.

    Examples
    --------
    >>> pooled(np.eye(32)).shape
    (16, 16)
    """
    rows, columns = (np.linspace(0, size, min(size, LARGEST_MAP) + 1).astype(int)[:-1] for size in w.shape)
    return np.maximum.reduceat(np.maximum.reduceat(w, rows, axis=0), columns, axis=1)


def _cell(x: float, screen: Screen) -> Cell:
    return Cell("  ", paint("sequential", float(x), screen.depth))
