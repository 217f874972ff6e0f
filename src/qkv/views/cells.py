"""Text measured in terminal cells: a Chinese character takes two, a combining mark none.

Every function takes the `Screen`, since the width of some characters depends on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal
from unicodedata import category, east_asian_width

from rich.cells import cell_len, split_graphemes

from qkv.views.screen import Screen, printable

Align = Literal["left", "right", "centre"]

# Pinned, because "auto" would read the environment.
UNICODE = "latest"

NO_LINE_STARTS_WITH = frozenset("，。、；：？！）】》」』〉〕…—～·％”’,.;:?!)]}%")
NO_LINE_ENDS_WITH = frozenset("（【《「『〈〔“‘([{")
BLANKS = " \n\N{NO-BREAK SPACE}\N{IDEOGRAPHIC SPACE}"
VISIBLE_BLANKS = {" ": "␠", "\n": "⏎", "\N{NO-BREAK SPACE}": "\\xa0", "\N{IDEOGRAPHIC SPACE}": "\\u3000"}


def width(text: str, screen: Screen) -> int:
    """Cells that a line of text takes."""
    if text.isascii() and text.isprintable():  # a matrix of numbers is measured in a fraction of the time
        return len(text)
    cells = cell_len(text, UNICODE)
    if screen.ambiguous == 2:
        cells += sum(east_asian_width(c) == "A" and cell_len(c, UNICODE) == 1 for c in text)
    return cells


def graphemes(text: str) -> list[str]:
    """The characters as a reader counts them: a letter with its accents, an emoji with its modifiers."""
    return [text[start:end] for start, end, _ in split_graphemes(text, UNICODE)[0]]


def pad(text: str, cells: int, screen: Screen, align: Align = "left") -> str:
    """Fill with spaces up to a number of cells; text that is longer stays as it is.

    Examples
    --------
    >>> pad("远", 4, Screen()), pad("远", 4, Screen(), "right"), pad("远", 4, Screen(), "centre")
    ('远  ', '  远', ' 远 ')
    """
    free = max(0, cells - width(text, screen))
    before = {"left": 0, "right": free, "centre": free // 2}[align]
    return " " * before + text + " " * (free - before)


def sign(symbol: str, plain: str, screen: Screen) -> str:
    """A one-cell sign, or its plain form where the encoding lacks it or it might take two cells."""
    certain = screen.ambiguous == 1 and printable(symbol, screen) == symbol
    return symbol if certain else plain


def cut(text: str, cells: int, screen: Screen) -> str:
    """Shorten to at most a number of cells, between graphemes, with an ellipsis to say so.

    Examples
    --------
    >>> cut("苹果树苗", 6, Screen())
    '苹果…'
    """
    if width(text, screen) <= cells:
        return text
    if cells < 1:
        return ""
    kept = ""
    for grapheme in graphemes(text):
        if width(kept + grapheme, screen) > cells - 1:
            break
        kept += grapheme
    return kept + sign("…", "~", screen)


def safe(text: str, screen: Screen) -> str:
    r"""Text that cannot move the cursor, change a colour or hide: controls are escaped, lines stay lines.

    Examples
    --------
    >>> print(safe("red\x1b[31m", Screen()))
    red\x1b[31m
    """
    return printable("".join(_shown(text, i) for i in range(len(text))), screen)


def label(text: str, screen: Screen) -> str:
    r"""A token on one line, its white space visible.

    Examples
    --------
    >>> print(label(" the\n", Screen()), label("\t", Screen()))
    ␠the⏎ \t
    """
    shown = "".join(VISIBLE_BLANKS.get(c) or _shown(text, i) for i, c in enumerate(text))
    return printable(shown, screen) or '""'


def _shown(text: str, i: int) -> str:
    character = text[i]
    if character.isprintable() and (i > 0 or cell_len(character, UNICODE) > 0):
        return character
    # A mark that opens a text has nothing to stand on but what the view drew before it, so it is escaped as well.
    if character in BLANKS or (character == "\N{ZERO WIDTH JOINER}" and _joins_pictures(text, i)):
        return character
    return repr(character)[1:-1] if character.isascii() else character.encode("ascii", "backslashreplace").decode()


def _joins_pictures(text: str, i: int) -> bool:
    before, after = text[i - 1 : i], text[i + 1 : i + 2]
    pictures = bool(before and after) and category(after) == "So"
    return pictures and (category(before) in ("So", "Sk") or before == "\N{VARIATION SELECTOR-16}")


def without_colour(text: str) -> str:
    """Text without the colour sequences that the views write: what can be measured."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def flow(items: Iterable[str], screen: Screen, gap: str = "  ", indent: int = 2) -> list[str]:
    """Set items one after another, a new line where the next does not fit; an item is never broken between lines.

    Parameters
    ----------
    items : iterable of str
        Single-line texts, coloured or not. One that is wider than a whole line is broken like a long word.
    gap : str
        What stands between two items of a line.
    indent : int
        Cells that every line but the first is moved in.

    Examples
    --------
    >>> flow(["keys", "0 远", "1 方", "2 有"], Screen(width=20))
    ['keys  0 远  1 方', '  2 有']
    """
    lines: list[str] = []
    for item in items:
        joined = lines[-1] + gap + item if lines else item
        if width(without_colour(joined), screen) <= screen.width:
            lines[-1:] = [joined]
            continue
        room = screen.width - indent
        parts = [item] if width(without_colour(item), screen) <= room else wrap(item, room, screen)
        lines += [" " * indent + part for part in parts]
    return lines


def wrap(text: str, cells: int, screen: Screen) -> list[str]:
    """Break text into lines of at most a number of cells.

    English breaks at spaces; Chinese anywhere, except before closing or after opening punctuation.

    Examples
    --------
    >>> wrap("远方有颗苹果树，the tree.", 16, Screen())
    ['远方有颗苹果树，', 'the tree.']
    """
    return [line for paragraph in text.split("\n") for line in _wrap_paragraph(paragraph, cells, screen)]


def _wrap_paragraph(text: str, cells: int, screen: Screen) -> list[str]:
    lines = [""]
    for piece in _pieces(text, screen):
        if width((lines[-1] + piece).rstrip(" "), screen) <= cells:
            lines[-1] += piece
            continue
        if lines[-1].strip(" "):
            lines.append("")
        for grapheme in graphemes(piece):  # usually fits whole; a word wider than the line is broken
            if lines[-1] and width((lines[-1] + grapheme).rstrip(" "), screen) > cells:
                lines.append("")
            lines[-1] += grapheme
    return [line.rstrip(" ") for line in lines]


def _pieces(text: str, screen: Screen) -> list[str]:
    """What must not be broken: words with the spaces after them, wide characters with their punctuation."""
    pieces: list[str] = []
    for grapheme in graphemes(text):
        before = pieces[-1] if pieces else ""
        if before and not _may_break(before, grapheme):
            pieces[-1] += grapheme
        else:
            pieces.append(grapheme)
    return pieces


def _may_break(before: str, grapheme: str) -> bool:
    if grapheme == " " or grapheme in NO_LINE_STARTS_WITH or before[-1] in NO_LINE_ENDS_WITH:
        return False
    return before.endswith(" ") or any(cell_len(g, UNICODE) == 2 for g in (before[-1], grapheme))
