"""What a walk is made of: steps of a few kinds of parts. Data only; `qkv.views` draws them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..ops.precision import Array


@dataclass(frozen=True)
class Line:
    """A sentence: the key of its words, and the facts that go into it."""

    key: str
    facts: Mapping[str, Any] = field(default_factory=dict)


class Word(str):
    """A key of words where a text of the reader's own might stand: a heading, or a cell that is ours to translate."""

    __slots__ = ()


def word(name: str) -> Word:
    """The word of a heading or a cell: `head.<name>`."""
    return Word(f"head.{name}")


@dataclass(frozen=True)
class Shapes:
    """Names with their shapes: rows of (name, letters of the axes, sizes)."""

    rows: tuple[tuple[str, str, tuple[int, ...]], ...]


@dataclass(frozen=True)
class Matrix:
    """A matrix of numbers with labels on both sides; `visible` False marks masked cells."""

    name: str
    value: Array
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    visible: Array | None = None


@dataclass(frozen=True)
class Table:
    """Columns of text and numbers under headings.

    Attributes
    ----------
    heads : tuple of str
        Names, or a `Word` where the name is a word of a language.
    rows : tuple of tuple
        Text, a `Word`, or numbers.
    total : tuple or None
        A last row, set apart.
    digits : tuple of (int or None)
        Decimals of each column; None: as many as the number needs.
    whole : bool
        Every row is shown, however many there are.
    """

    heads: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    total: tuple[Any, ...] | None = None
    digits: tuple[int | None, ...] = ()
    whole: bool = False


@dataclass(frozen=True)
class Heat:
    """A heat map of weights between tokens, or of differences of weights around a neutral 0."""

    name: str
    value: Array
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    visible: Array | None = None
    signed: bool = False


Part = Line | Shapes | Matrix | Table | Heat


@dataclass(frozen=True)
class Step:
    """One step of a walk.

    Attributes
    ----------
    name : str
        Also the key of its title: `step.<name>`.
    formula : str
    parts : tuple of Part
        What is always shown, in order.
    details : tuple of Part
        What is shown when this step is looked at by itself, and on pages.
    """

    name: str
    formula: str
    parts: tuple[Part, ...]
    details: tuple[Part, ...] = ()
