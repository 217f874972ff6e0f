"""What the commands have in common: lines to the person, and lines aside."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from .. import words
from ..errors import QkvError
from ..views.screen import Screen, printable, write

# What could move the cursor or change a colour, spelled out; lines and tabs stay.
CONTROLS = {i: chr(i).encode("unicode_escape").decode() for i in (*range(32), *range(127, 160)) if chr(i) not in "\n\t"}


def screen() -> Screen:
    """What standard output can show."""
    return Screen.of(sys.stdout, os.environ)


def show(text: str) -> bool:
    """Text and a new line to standard output; False when nobody reads any more."""
    return write(sys.stdout, printable(text.rstrip("\n") + "\n", screen()))


def utter(piece: str) -> bool:
    """What a model writes, to standard output as it comes; on a terminal nothing of it can act.

    Returns
    -------
    bool
        False when nobody reads any more.
    """
    return write(sys.stdout, printable(piece.translate(CONTROLS) if sys.stdout.isatty() else piece, screen()))


def aside(line: str) -> None:
    """A line to standard error: it spoils no output, and nothing of what it names can act."""
    write(sys.stderr, printable(line.translate(CONTROLS) + "\n", Screen.of(sys.stderr, os.environ, color="never")))


def tell(notices: Iterable[QkvError], lang: str) -> None:
    """Notices to standard error."""
    for notice in notices:
        aside(words.message(notice, lang))
