"""The logit lens as text and as JSON."""

from __future__ import annotations

import json

from ..walkthrough import Reading
from .screen import Screen
from .walk_json import numbers
from .walk_text import part_text


def reading_text(reading: Reading, screen: Screen | None = None) -> str:
    """A row for each layer."""
    screen = screen or Screen()
    return "\n\n".join(part_text(part, screen, reading.lang) for part in reading.parts)


def reading_json(reading: Reading) -> str:
    """Of all positions: tokens and probabilities [place][position][k], rank and probability of the final token."""
    lens = reading.lens
    found = {
        "places": list(lens.places), "ids": numbers(lens.ids), "tokens": reading.tokens, "final": numbers(lens.final),
        "top": numbers(lens.tokens), "probabilities": numbers(lens.probabilities), "rank": numbers(lens.rank),
        "probability": numbers(lens.probability),
    }  # fmt: skip
    return json.dumps(found, ensure_ascii=False)
