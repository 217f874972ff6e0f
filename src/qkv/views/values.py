"""Single values as text, the same in every view: numbers, shapes, headings."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cells import safe
from .screen import Screen


def cell(value: Any, digits: int | None) -> str:
    """A number with so many decimals, or as many as it needs; what only rounds to zero is `~0`.

    Examples
    --------
    >>> cell(0.5, 4), cell(-0.00001, 4), cell(0.0, 4), cell(7, None), cell(float("-inf"), 4)
    ('0.5000', '~0', '0.0000', '7', '-inf')
    """
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    text = f"{value:.6g}" if digits is None else f"{value:.{digits}f}"
    if text.strip("-0."):
        return text
    return "~0" if value else text.removeprefix("-")


def shape_text(shape: tuple[int, ...]) -> str:
    """A shape as NumPy writes it.

    Examples
    --------
    >>> shape_text((7, 4)), shape_text((7,))
    ('(7, 4)', '(7,)')
    """
    return str(tuple(int(size) for size in shape))


def exact(value: Any) -> str:
    """Every digit of a number: what Python reads back as the same value.

    Examples
    --------
    >>> exact(np.float64(0.1) + 0.2), exact(np.int64(7)), exact(float("-inf"))
    ('0.30000000000000004', '7', '-inf')
    """
    return str(int(value)) if isinstance(value, int | np.integer) else repr(float(value))


def one_line(text: str) -> str:
    r"""Text that came from outside, on one line and with nothing that acts unseen: controls are spelled out.

    Examples
    --------
    >>> print(one_line("two\u2028lines \x00 \u202e"))
    two lines \x00 \u202e
    """
    return safe(" ".join(text.split()), Screen())


def is_word(value: Any) -> bool:
    """Whether a cell of a table holds text rather than a number with its unit."""
    return isinstance(value, str) and value != "" and not value[:1].isdigit()
