"""What an encoder says of texts, as text: fillings of masks, labels, vectors, how alike texts are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from .. import words
from ..models import Filling
from ..ops.precision import Array
from .cells import cut, safe, width
from .screen import Screen
from .tables import TableWords, columns, matrix


def fill_text(masks: Sequence[Sequence[Filling]], screen: Screen, lang: str) -> str:
    """For each mask its likeliest tokens with their probabilities; where there are several, under a line each.

    Examples
    --------
    >>> print(fill_text([[Filling("cat", "cat", 7, 0.25), Filling("##s", "##s", 22, 0.125)]], Screen(), "en"))
    0.2500  cat
    0.1250  ##s
    """
    blocks = []
    for number, fillings in enumerate(masks, 1):
        table = columns([(f"{one.probability:.4f}", shown(one)) for one in fillings], align="rl", screen=screen)
        title = words.say("encoder.mask", lang, number=number, total=len(masks))
        blocks.append(table if len(masks) == 1 else f"{cut(title, screen.width, screen)}\n{table}")
    return "\n\n".join(blocks)


def shown(filling: Filling) -> str:
    """As it reads, without the space before it; as the vocabulary spells it where it is only a part of a character."""
    text = filling.text.strip()
    return text if text and "\N{REPLACEMENT CHARACTER}" not in text else filling.token


def labels_text(titles: Sequence[str], found: Sequence[Mapping[str, float]], screen: Screen) -> str:
    """For each text its labels, the largest number first, under the text where there are several."""
    blocks = []
    for title, labels in zip(titles, found):
        ordered = sorted(labels.items(), key=lambda label: -label[1])
        table = columns([(f"{number:.4f}", label) for label, number in ordered], align="rl", screen=screen)
        blocks.append(table if len(found) == 1 else f"{_line(title, screen.width, screen)}\n{table}")
    return "\n\n".join(blocks)


def vectors_text(vectors: Array) -> str:
    """A line for each vector, its numbers as short as they can be without losing anything.

    Examples
    --------
    >>> print(vectors_text(np.array([[0.1, -2.0], [3.5, 0.25]], np.float32)))
    0.1 -2.0
    3.5 0.25
    """
    return "\n".join(" ".join(str(number) for number in vector) for vector in vectors)


def similarity_text(texts: Sequence[str], similarity: Array, screen: Screen, lang: str) -> str:
    """The texts with their numbers, and how alike each two are."""
    digits = len(str(len(texts) - 1))
    listed = [f"{i:>{digits}}  {_line(text, screen.width - digits - 2, screen)}" for i, text in enumerate(texts)]
    said = TableWords(*(words.texts(lang)[f"table.{what}_left_out"] for what in ("rows", "columns", "row", "column")))
    table = matrix(similarity, None, None, screen, digits=3, max_rows=max(len(texts), 1), words=said)
    return "\n".join([*listed, "", table])


def encoder_json(**values: Any) -> str:
    """What was found, as JSON: arrays as lists, fillings as objects."""
    return json.dumps(values, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    return [[float(str(x)) for x in row] for row in value] if isinstance(value, np.ndarray) else asdict(value)


def _line(text: str, cells: int, screen: Screen) -> str:
    """A text on one line, cut where it does not fit."""
    kept = cut(" ".join(safe(text, screen).split()), cells, screen)
    return kept if width(kept, screen) <= cells else ""
