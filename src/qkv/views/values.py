"""Single values as text, the same in every view: numbers, shapes, headings."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import words


def cell(value: Any, digits: int | None) -> str:
    """A number with so many decimals, or as many as it needs.

    Examples
    --------
    >>> cell(0.5, 4), cell(-0.00001, 4), cell(7, None), cell(float("-inf"), 4)
    ('0.5000', '0.0000', '7', '-inf')
    """
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    text = f"{value:.6g}" if digits is None else f"{value:.{digits}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text


def heading(text: str, lang: str) -> str:
    """The words of a key such as `head.weight`; any other text as it is."""
    return words.say(text, lang) if text.startswith("head.") and words.has(text) else text


def shape_text(shape: tuple[int, ...]) -> str:
    """A shape as NumPy writes it.

    Examples
    --------
    >>> shape_text((7, 4)), shape_text((7,))
    ('(7, 4)', '(7,)')
    """
    return str(tuple(int(size) for size in shape))
