"""From a value to one cell of a heat map: its text, its colours, and the legend that says what they mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qkv.errors import ArgumentError
from qkv.views.cells import pad, sign
from qkv.views.colors import MASKED, MASKED_INK, NAN, WHITE, Paint, RampName, fixed, paint
from qkv.views.screen import Screen
from qkv.views.tables import NumberFormat

ScaleName = Literal["probability", "signed"]

ASCII_RAMP = " .:-=+*#%@"
RESET = "\x1b[0m"
STEPS = 5
# Rounding may carry a weight a hair beyond 1; that is not worth a sign in the legend.
TOLERANCE = 1e-6


class Cell(NamedTuple):
    """What stands at one place: text of a known width, and the colours behind and in front."""

    text: str
    paint: Paint = Paint()


@dataclass(frozen=True)
class Marks:
    """Signs, one cell wide each, for what is no ordinary number."""

    masked: str
    nan: str
    plus: str
    minus: str

    @classmethod
    def of(cls, screen: Screen) -> Marks:
        """The signs that a screen can show; the ASCII ramp uses `.`, `+` and `-` itself and gets others."""
        if screen.ascii:
            return cls("/", "?", "^", "v")
        infinite = sign("∞", "", screen)
        return cls(
            sign("·", ".", screen), "?", "+" + infinite if infinite else "^", "-" + infinite if infinite else "v"
        )


@dataclass(frozen=True)
class Scale:
    """Where a value stands between two ends.

    Attributes
    ----------
    ramp : {'sequential', 'diverging'}
        Its colours.
    low, high : float
        The ends; -high and high of a diverging one.
    screen : Screen
        Where it is drawn.
    """

    ramp: RampName
    low: float
    high: float
    screen: Screen

    @classmethod
    def of(
        cls, name: ScaleName, domain: tuple[float, float] | None, values: NDArray[np.float64], screen: Screen
    ) -> Scale:
        """The scale that was asked for.

        Parameters
        ----------
        name : {'probability', 'signed'}
            'probability' runs from 0 to 1; 'signed' from -m to m, m the largest absolute value, so that 0 is neutral.
        domain : (float, float) or None
            Other ends. Of a 'signed' scale the larger absolute value counts, on both sides.
        values : ndarray
            The values that may be seen.
        screen : Screen
            Where it is drawn.

        Raises
        ------
        ArgumentError
            When there is no such scale, or the domain is not two finite numbers in order.
        """
        if name not in ("probability", "signed"):
            raise ArgumentError("choice", name="scale", choices="probability, signed", value=name)
        if domain is not None and not (np.isfinite(domain).all() and domain[0] < domain[1]):
            raise ArgumentError("number", name="domain", expected="two finite numbers, the lower first", value=domain)
        if name == "probability":
            return cls("sequential", *(domain or (0.0, 1.0)), screen)
        finite = np.abs(values[np.isfinite(values)])
        end = max(map(abs, domain)) if domain else float(finite.max(initial=0.0)) or 1.0
        return cls("diverging", -end, end, screen)

    def fraction(self, value: float) -> float:
        """0 at the low end, 1 at the high one; not clipped."""
        return value / self.high / 2 + 0.5 if self.ramp == "diverging" else (value - self.low) / (self.high - self.low)

    def paint(self, value: float, visible: bool) -> Paint:
        """The colours of a value."""
        depth = "none" if self.screen.ascii else self.screen.depth
        if not visible:
            return fixed(MASKED, MASKED_INK, depth)
        if math.isnan(value):
            return fixed(NAN, WHITE, depth)
        return paint(self.ramp, self.fraction(value), depth)

    def shade(self, value: float) -> str:
        """What fills a cell behind its colour: nothing, or a character of the ASCII ramp."""
        if not self.screen.ascii:
            return " "
        place = min(max(self.fraction(value), 0.0), 1.0)
        if self.ramp == "diverging":
            return ASCII_RAMP[min(int(place * 10), 9)]
        return ASCII_RAMP[1 + min(int(place * 9), 8)] if value > self.low else " "  # blank is the low end alone

    def steps(self, values: NDArray[np.float64]) -> list[str]:
        """The numbered steps of the legend; its ends say so when values lie beyond them."""
        items = []
        slack = TOLERANCE * (self.high - self.low)
        for k in range(STEPS):
            value = self.low + (self.high - self.low) * k / (STEPS - 1)
            number = f"{value + 0.0:.3g}"
            if k == 0 and bool((values < self.low - slack).any()):
                number = sign("≤", "<=", self.screen) + number
            if k == STEPS - 1 and bool((values > self.high + slack).any()):
                number = sign("≥", ">=", self.screen) + number
            items.append(f"{self._sample(value)} {number}")
        return items

    def _sample(self, value: float) -> str:
        text = 2 * self.shade(value)
        return f"[{text}]" if self.screen.ascii else painted([Cell(text, self.paint(value, True))])


def number(value: float, visible: bool, written: NumberFormat, marks: Marks) -> str:
    """A value as the text of a cell: `0` is a true zero, `~0` something that only rounds to it."""
    if not visible:
        return marks.masked
    if math.isnan(value):
        return marks.nan
    if math.isinf(value):
        return "+inf" if value > 0 else "-inf"
    if value == 0:
        return "0"
    text = written(value)
    return text if text.strip("0.") else "~0"


def shaded(value: float, visible: bool, scale: Scale, marks: Marks, cells: int) -> Cell:
    """A value as a cell without a number, one or two cells wide."""
    colours = scale.paint(value, visible)
    text = marks.masked if not visible else marks.nan if math.isnan(value) else ""
    if not text and math.isinf(value):
        text = marks.plus if value > 0 else marks.minus
    text = text or scale.shade(value)
    if scale.screen.ascii:
        return Cell(text * cells, colours)
    return Cell(pad(text, cells, scale.screen, "right"), colours)


def half_block(upper: Cell, lower: Cell | None) -> Cell:
    """Two rows in one line: the block's ink is the lower one, what is behind it the upper one."""
    if lower is None:
        return Cell("▀", Paint("", upper.paint.background.replace("48", "38", 1)))
    return Cell("▄", Paint(upper.paint.background, lower.paint.background.replace("48", "38", 1)))


def painted(cells: Sequence[Cell]) -> str:
    """Cells side by side, colours switched only where they change and switched off at the end."""
    pieces: list[str] = []
    current = Paint()
    for text, colours in cells:
        if colours != current:
            pieces.append(colours.start())
            current = colours
        pieces.append(text)
    if current != Paint():
        pieces.append(RESET)
    return "".join(pieces)
