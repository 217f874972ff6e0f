"""A walk, or a comparison, as text for a terminal, a pipe or a notebook's `print`."""

from __future__ import annotations

from dataclasses import replace

from .. import words
from ..walkthrough import Comparison, Heat, Line, Matrix, Part, Shapes, Step, Table, Walkthrough
from .cells import wrap
from .heatmap import HeatmapWords, heatmap
from .screen import Screen, printable
from .tables import TableWords, columns, matrix
from .values import one_line, shape_text
from .walk_table import table_text

INDENT = 3
MANY = 24  # tokens; from here on plain numbers are shown from both ends, not as pages of blocks


def walk_text(walk: Walkthrough, screen: Screen | None = None, only: str | None = None) -> str:
    """The whole walk, or one step of it with its details.

    Parameters
    ----------
    walk : Walkthrough
    screen : Screen, optional
        Where it will be read; a pipe by default.
    only : str, optional
        The name of a step.
    """
    screen = screen or Screen()
    if only is not None:
        return step_text(walk.step(only), screen, walk.lang, walk.steps.index(walk.step(only)) + 1, details=True)
    facts = {**vars(walk.setup), "n": len(walk.tokens)}
    title, subtitle = (said(Line(f"walk.{name}", facts), walk.lang, screen) for name in ("title", "subtitle"))
    head = [_bold(line, screen) for line in wrap(title, screen.width, screen)] + wrap(subtitle, screen.width, screen)
    steps = [step_text(step, screen, walk.lang, number) for number, step in enumerate(walk.steps, 1)]
    return "\n\n".join(["\n".join(head), *steps])


def comparison_text(comparison: Comparison, screen: Screen | None = None) -> str:
    """Two sentences through the same layer: what changes and what stays."""
    screen = screen or Screen()
    inner = replace(screen, width=screen.width - INDENT)
    texts = {"a": comparison.a.setup.text, "b": comparison.b.setup.text}
    title = said(Line("compare.title", texts), comparison.lang, screen)
    head = "\n".join(_bold(line, screen) for line in wrap(title, screen.width, screen))
    parts = [part_text(part, inner, comparison.lang) for part in comparison.parts]
    return "\n\n".join([head, *(_indented(part) for part in parts)])


def step_text(step: Step, screen: Screen, lang: str, number: int, details: bool = False) -> str:
    inner = replace(screen, width=screen.width - INDENT)
    title = words.say(f"step.{step.name}", lang)
    head = wrap(printable(f"{number}. {title}", screen), screen.width, screen)
    shown = [_indented(text) for text in wrap(printable(step.formula, screen), inner.width, inner)]
    blocks = ["\n".join([*(_bold(line, screen) for line in head), *shown])]
    lines: list[str] = []
    for part in (*step.parts, *(step.details if details else ())):
        text = _indented(part_text(part, inner, lang))
        if isinstance(part, Line):
            lines.append(text)
            continue
        blocks += ["\n".join(lines)] if lines else []
        lines = []
        blocks.append(text)
    blocks += ["\n".join(lines)] if lines else []
    return "\n\n".join(blocks)


def part_text(part: Part, screen: Screen, lang: str) -> str:
    if isinstance(part, Line):
        return "\n".join(wrap(said(part, lang, screen), screen.width, screen))
    if isinstance(part, Shapes):
        return columns([[name, shape_text(size), axes] for name, axes, size in part.rows], None, "lll", screen)
    if isinstance(part, Table):
        return table_text(part, screen, lang)
    if isinstance(part, Heat):
        pictured = screen.depth != "none" or screen.ascii or len(part.rows) <= MANY
        return _heat(part, screen, lang) if pictured else _matrix(part, screen, lang)
    if part.visible is not None and len(part.rows) <= MANY:
        return _heat(part, replace(screen, depth="none"), lang, digits=4 if len(part.columns) < 8 else 2)
    return _matrix(part, screen, lang)


def said(line: Line, lang: str, screen: Screen) -> str:
    """A sentence with its facts; what came from outside is spelled out, so that it can neither act nor break a line."""
    facts = {name: one_line(fact) if isinstance(fact, str) else fact for name, fact in line.facts.items()}
    return printable(words.say(line.key, lang, **facts), screen)


def _heat(part: Heat | Matrix, screen: Screen, lang: str, digits: int = 2) -> str:
    signed = isinstance(part, Matrix) or part.signed
    return heatmap(
        part.value, part.rows, part.columns, screen, visible=part.visible, title=part.name, digits=digits,
        scale="signed" if signed else "probability", words=heatmap_words(lang),
    )  # fmt: skip


def _matrix(part: Heat | Matrix, screen: Screen, lang: str) -> str:
    """As many decimals, 4 to 2, as leave room for every column."""
    wide = replace(screen, width=100_000)
    for digits in (4, 3, 2):
        text = matrix(part.value, part.rows, part.columns, wide, digits)
        if max(map(len, text.splitlines())) <= screen.width:
            break
    texts = TableWords(*(words.texts(lang)[f"table.{what}_left_out"] for what in ("rows", "columns", "row", "column")))
    shown = matrix(part.value, part.rows, part.columns, screen, digits, words=texts)
    return f"{part.name} {shape_text(part.value.shape)}\n{shown}" if part.name else shown


def heatmap_words(lang: str) -> HeatmapWords:
    """The words of a heat map in a language."""
    names = ("queries", "keys", "weight", "signed", "masked", "nan", "infinite", "near_zero", "pooled")
    return HeatmapWords(**{name: words.texts(lang)[f"heat.{name}"] for name in names})


def _indented(text: str) -> str:
    return "\n".join(" " * INDENT + line if line else line for line in text.splitlines())


def _bold(text: str, screen: Screen) -> str:
    return text if screen.depth == "none" else f"\x1b[1m{text}\x1b[0m"
