"""A verdict as text: what matters most comes first, and a reader may stop anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .. import words
from ..judge.mistakes import explained
from ..judge.verdict import Shown, Verdict
from ..judge.wire import arrays
from ..ops.precision import Array
from .cells import pad, safe, width, wrap
from .screen import Screen, printable
from .tables import NumberFormat
from .values import shape_text

INDENT = 2
MOST_ROWS, MOST_COLUMNS = 4, 6
MOST_INPUT = 30  # numbers of an input that are written out


def verdict_text(verdict: Verdict, screen: Screen | None = None, hints: int = 0) -> str:
    """The verdict, with so many rungs of hint.

    The order: one line; the named mistake with its evidence; the smallest failing input, expected beside yours, and the
    first step that differs; which probes pass; hints; what is noted and not failed.
    """
    page = _Page(verdict, screen or Screen())
    page.line(_headline(verdict))
    if verdict.passed:
        page.line(page.said("solved", title=verdict.task.title[verdict.lang]))
    for show in (page.where, page.finding) if verdict.match == "none" else (page.finding, page.where):
        show()
    if verdict.shown is not None and verdict.shown.yours is not None:
        page.example(verdict.shown)
    page.probes()
    page.hints(hints)
    page.items("notes", [words.say(f"judge.note.{note}", verdict.lang) for note in verdict.notes])
    if verdict.printed.strip() and verdict.status != "pass":
        page.items("printed", verdict.printed.strip().splitlines()[-5:])
    return "\n\n".join("\n".join(block) for block in page.blocks if block)


def _headline(verdict: Verdict) -> str:
    line = words.say(f"judge.status.{verdict.status}", verdict.lang, failed=verdict.failed, total=len(verdict.results))
    space = " " if verdict.lang == "en" else ""
    return f"{line}{space}{verdict.because}" if verdict.because else line


class _Page:
    """Blocks of lines that fit the screen."""

    def __init__(self, verdict: Verdict, screen: Screen) -> None:
        self.verdict, self.screen = verdict, screen
        self.blocks: list[list[str]] = []

    def said(self, key: str, **facts: Any) -> str:
        return words.say(f"judge.{key}", self.verdict.lang, **facts)

    def wrapped(self, text: str, indent: int = 0) -> list[str]:
        lines = wrap(safe(printable(text, self.screen), self.screen), self.screen.width - indent, self.screen)
        return [" " * indent + line for line in lines]

    def line(self, text: str) -> None:
        self.blocks.append(self.wrapped(text))

    def items(self, key: str, items: list[str]) -> None:
        if items:
            lines = [line for item in items for line in self.wrapped(item, INDENT)]
            self.blocks.append([*self.wrapped(self.said(key)), *lines])

    def where(self) -> None:
        """The line in the learner's file that raised."""
        failure = self.verdict.failure
        if failure is None or failure.file is None or failure.line is None:
            return
        place = self.said("at_line", file=Path(failure.file).name, line=failure.line)
        error = "" if self.verdict.because else f": {failure.type}: {failure.says}"
        source = self.wrapped(failure.source, INDENT) if failure.source else []
        self.blocks.append([*self.wrapped(place + error), *source])

    def finding(self) -> None:
        """The named mistake and its evidence, or that there is none, and what is wrong all the same."""
        verdict, lang = self.verdict, self.verdict.lang
        if verdict.status in ("pass", "timeout"):
            return
        named = [name for name in verdict.mistakes if verdict.match != "none"]
        words_of = [explained(verdict.task, name) for name in named]
        lines = [line for one in words_of for line in self.wrapped(one.means[lang])]
        if named == ["mutates_input"]:
            lines = self.wrapped(self.said("changed"))
        elif named:
            total = len(verdict.results)
            evidence = (" + " if lang == "en" else "，并且是").join(one.evidence[lang] for one in words_of)
            key = "named" if verdict.match == "exact" else "named_pair"
            lines += self.wrapped(self.said(key, evidence=evidence, agree=total, total=total))
        elif verdict.mistakes == ("no_match",):
            lines = self.wrapped(self.said("no_match"))
        if verdict.nearest and not named:
            near = explained(verdict.task, verdict.nearest).evidence[lang]
            lines += self.wrapped(self.said("nearest", evidence=near))
        self.blocks.append(lines)
        self.items("broken", [words.say(f"judge.property.{name}", lang) for name in verdict.properties])

    def example(self, shown: Shown) -> None:
        """The smallest failing input, expected beside yours, and the first step that explains it."""
        tries = self.verdict.task.probe(shown.probe).tries[self.verdict.lang]
        lines = self.wrapped(self.said("smallest", probe=shown.probe, tries=tries))
        given = [value for call in shown.arguments for value in call if not isinstance(value, dict)]
        numbers = sum(array.size for array in arrays(given))
        for call in shown.arguments:
            for name, value in zip(self.verdict.task.parameters, call):
                lines += self._argument(name, value, numbers <= MOST_INPUT)
        expected, yours = first_difference(shown.expected, shown.yours)
        lines += ["", *self._beside(expected, self.said("expected"), yours, self.said("yours"))]
        step = self.verdict.first_step
        if step is not None:
            own = self.said("not_kept")
            if step.variable:
                own = self.said("your_variable", variable=step.variable, line=step.line)
            lines += ["", *self.wrapped(self.said("first_step", name=step.name))]
            right, wrong = first_difference(step.expected, step.yours)
            lines += self._beside(right, self.said("expected"), wrong, own)
        self.blocks.append(lines)

    def _argument(self, name: str, value: Any, whole: bool) -> list[str]:
        start = f"{name} = "
        if isinstance(value, bool | int | float):
            return self.wrapped(f"{start}{value}", INDENT)
        if isinstance(value, np.ndarray):
            if not whole or value.ndim > 2:
                return self.wrapped(f"{name} {shape_text(value.shape)}", INDENT)
            rows = number_rows(value)
        elif pieces := list(arrays(value)):  # one after another, each as long as it is
            rows = [f"[{number_rows(piece)[0]}]" for piece in pieces[:MOST_ROWS]]
            rows += ["…"] if len(pieces) > MOST_ROWS else []
        else:
            return []
        return [
            line
            for i, row in enumerate(rows)
            for line in self.wrapped((start if i == 0 else "\N{NO-BREAK SPACE}" * len(start)) + row, INDENT)
        ]

    def _beside(self, left: Any, left_head: str, right: Any, right_head: str) -> list[str]:
        """Two arrays beside each other where there is room, else one above the other."""
        sides = [[head, *number_rows(value)] for head, value in ((left_head, left), (right_head, right))]
        sides = [[printable(text, self.screen) for text in side] for side in sides]
        cells = max(width(text, self.screen) for text in sides[0]) + 3
        if INDENT + cells + max(width(text, self.screen) for text in sides[1]) <= self.screen.width:
            height = max(map(len, sides))
            filled = [side + [""] * (height - len(side)) for side in sides]
            return [(" " * INDENT + pad(a, cells, self.screen) + b).rstrip() for a, b in zip(*filled)]
        return [line for side in sides for text in side for line in self.wrapped(text, INDENT)]

    def probes(self) -> None:
        """Which probes pass, and how the others fail."""
        results, lang = self.verdict.results, self.verdict.lang
        if self.verdict.status == "pass" or not results or all(r.why == "missing" for r in results):
            return
        passing = [r.name for r in results if r.passed]
        failing = [r.name + self._reason(r.why) for r in results if not r.passed]
        comma = ", " if lang == "en" else "、"
        lines = []
        for key, names in (("passing", passing), ("failing", failing)):
            if names:
                space = " " if lang == "en" else ""
                lines += self.wrapped(f"{self.said(key)}{space}{comma.join(names)}")
        self.blocks.append(lines)

    def _reason(self, why: str) -> str:
        """Why a probe failed, unless it is what one expects."""
        if why == "differs":
            return ""
        said = words.say(f"judge.why.{why}", self.verdict.lang)
        return f" ({said})" if self.verdict.lang == "en" else f"（{said}）"

    def hints(self, rungs: int) -> None:
        """So many rungs, or the word that there are some."""
        if not self.verdict.hint(1):
            return
        lines = [self.said("hint", n=n, text=self.verdict.hint(n)) for n in range(1, min(rungs, 3) + 1)]
        lines += [self.said("hint_ask", n=3)] if rungs == 0 else []
        self.blocks.append([line for text in lines for line in self.wrapped(text)])


def first_difference(expected: Any, yours: Any) -> tuple[Any, Any]:
    """The first arrays of two results that differ, and of many axes the first matrix."""
    if isinstance(expected, tuple) and isinstance(yours, tuple) and len(expected) == len(yours):
        pairs = zip(expected, yours)
        expected, yours = next(((e, y) for e, y in pairs if not _alike(e, y)), (expected[0], yours[0]))
    if isinstance(expected, np.ndarray) and isinstance(yours, np.ndarray) and expected.shape == yours.shape:
        while expected.ndim > 2:
            pairs = zip(expected, yours)
            expected, yours = next(((e, y) for e, y in pairs if not _alike(e, y)), (expected[0], yours[0]))
    return expected, yours


def _alike(one: Any, other: Any) -> bool:
    if not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray)) or one.shape != other.shape:
        return False
    return bool(np.allclose(one.astype(np.float64), other.astype(np.float64), 1e-6, 1e-8, equal_nan=True))


def _format(table: Array) -> NumberFormat:
    """As many decimals as the numbers have, four at most."""
    finite = table[np.isfinite(table)]
    least = next((n for n in range(4) if np.array_equal(finite, finite.round(n))), 4)
    usual = NumberFormat.of(table, 4)
    return usual if usual.scientific else NumberFormat(min(usual.decimals, least))


def number_rows(value: Any) -> list[str]:
    """An array as lines of numbers, its rest left out; what is no array by its name."""
    if isinstance(value, tuple):
        return [f"({', '.join(shape_text(v.shape) if isinstance(v, np.ndarray) else '?' for v in value)})"]
    if not isinstance(value, np.ndarray):
        return [getattr(value, "what", type(value).__name__)]
    if value.ndim > 2:
        return [shape_text(value.shape)]
    table: Array = np.atleast_2d(value)
    written = _format(table if table.dtype.kind in "iub" else table.astype(np.float64))
    texts = [[written(number) for number in row] for row in table[:MOST_ROWS, :MOST_COLUMNS].tolist()]
    cells = max((len(text) for row in texts for text in row), default=0)
    more = "  …" if table.shape[1] > MOST_COLUMNS else ""
    lines = ["  ".join(text.rjust(cells) for text in row) + more for row in texts]
    return lines + (["…"] if table.shape[0] > MOST_ROWS else [])
