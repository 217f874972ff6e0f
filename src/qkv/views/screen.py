"""The screen that text is made for: how wide, how many colours, which characters.

Only `Screen.of` looks at the outside, and only through what it is given. All else is arrays and strings in, text out.
"""

from __future__ import annotations

import codecs
import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TextIO

from rich.cells import cell_len

from qkv.errors import ArgumentError, FileError

Depth = Literal["none", "256", "truecolor"]
Colour = Literal["auto", "always", "never"]

PIPE_WIDTH = 100
TERMINAL_WIDTH = 80
NARROWEST = 20

# Consoles with these encodings draw East-Asian-ambiguous characters two cells wide.
WIDE_ENCODINGS = {"gbk", "gb2312", "gb18030", "big5", "big5hkscs", "cp950", "cp932", "shift_jis", "euc_jp", "cp949"}

# The signs that the views draw with, and what stands for each where an encoding lacks it.
SYMBOLS = {
    "…": "~", "·": ".", "√": "sqrt", "→": "->", "←": "<-", "↓": "v", "↑": "^", "×": "x", "ᵀ": "^T", "Σ": "sum",
    "⏎": "\\n", "␠": "\\s", "–": "-", "—": "--", "−": "-", "≤": "<=", "≥": ">=", "≠": "!=", "≈": "~", "∞": "inf",
    "▀": '"', "▄": "_", "█": "#", "▓": "#", "▒": "=", "░": "-", "■": "#", "□": "o", "•": "*", "✓": "ok", "✗": "x",
    "─": "-", "│": "|", "┌": "+", "┐": "+", "└": "+", "┘": "+", "├": "+", "┤": "+", "┬": "+", "┴": "+", "┼": "+",
    "‘": "'", "’": "'", "“": '"', "”": '"', "\N{NO-BREAK SPACE}": " ",
}  # fmt: skip


@dataclass(frozen=True)
class Screen:
    """What text may assume about the place where it will be read.

    Attributes
    ----------
    width : int
        Cells in a line. No line of a view is longer.
    depth : {'none', '256', 'truecolor'}
        Colours. With 'none' a view holds no escape sequence at all.
    encoding : str
        Characters that it lacks are replaced, see `printable`.
    ambiguous : {1, 2}
        Cells taken by characters whose width Unicode leaves open (East Asian Width A, such as the middle dot).
    ascii : bool
        Draw heat maps with a ramp of ASCII characters.
    """

    width: int = PIPE_WIDTH
    depth: Depth = "none"
    encoding: str = "utf-8"
    ambiguous: int = 1
    ascii: bool = False

    @classmethod
    def of(
        cls,
        stream: TextIO,
        environ: Mapping[str, str],
        *,
        color: Colour = "auto",
        width: int | None = None,
        ascii: bool = False,
    ) -> Screen:
        """Look at a stream and an environment.

        Parameters
        ----------
        stream : text stream
            Where the text will go. A pipe or a file is 100 cells wide unless COLUMNS says otherwise.
        environ : mapping of str to str
            NO_COLOR, FORCE_COLOR, CLICOLOR_FORCE, TERM, COLORTERM, COLUMNS, WT_SESSION and QKV_AMBIGUOUS are read.
        color : {'auto', 'always', 'never'}
            What the person asked for; it wins over the environment.
        width : int, optional
            Cells in a line, instead of what was found. At least 20.
        ascii : bool
            See `Screen`.

        Raises
        ------
        ArgumentError
            When `color` is none of the three.

        Examples
        --------
        >>> import io
        >>> Screen.of(io.StringIO(), {"FORCE_COLOR": "1", "COLUMNS": "60"})
        Screen(width=60, depth='256', encoding='utf-8', ambiguous=1, ascii=False)
        """
        if color not in ("auto", "always", "never"):
            raise ArgumentError("choice", name="color", choices="auto, always, never", value=color)
        encoding = _known(getattr(stream, "encoding", None) or "utf-8")
        asked = environ.get("QKV_AMBIGUOUS")
        ambiguous = int(asked) if asked in ("1", "2") else 2 if encoding in WIDE_ENCODINGS else 1
        cells = width if width is not None else _width(stream, environ)
        return cls(max(cells, NARROWEST), _depth(stream, environ, color), encoding, ambiguous, ascii)


def _on(environ: Mapping[str, str], name: str) -> bool:
    return environ.get(name, "") not in ("", "0")


def _depth(stream: TextIO, environ: Mapping[str, str], color: Colour) -> Depth:
    term = environ.get("TERM", "")
    forced = color == "always"
    if color == "never":
        return "none"
    if not forced:
        if environ.get("NO_COLOR") or term == "dumb":
            return "none"
        forced = _on(environ, "FORCE_COLOR") or _on(environ, "CLICOLOR_FORCE")
    if not forced and not stream.isatty():
        return "none"
    if environ.get("COLORTERM") in ("truecolor", "24bit") or "WT_SESSION" in environ:
        return "truecolor"
    return "256" if forced or "256color" in term else "none"


def _width(stream: TextIO, environ: Mapping[str, str]) -> int:
    columns = environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns) > 0:
        return int(columns)
    if not stream.isatty():
        return PIPE_WIDTH
    try:
        return os.get_terminal_size(stream.fileno()).columns or TERMINAL_WIDTH
    except (OSError, ValueError):  # a stream without a descriptor, or one that only says it is a terminal
        return TERMINAL_WIDTH


def _known(encoding: str) -> str:
    try:
        return codecs.lookup(encoding).name
    except LookupError:
        return "ascii"


@lru_cache(maxsize=4096)
def _fits(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeError:
        return False
    return True


def _spell(text: str, encoding: str) -> str:
    if _fits(text, encoding):
        return text
    return "".join(c if _fits(c, encoding) else SYMBOLS.get(c) or "?" * cell_len(c, "latest") for c in text)


def printable(text: str, screen: Screen) -> str:
    """Replace what the screen's encoding lacks: the signs of the views by plain forms, anything else by `?` a cell.

    Examples
    --------
    >>> printable("Q·Kᵀ → 远", Screen(encoding="cp1252"))
    'Q·K^T -> ??'
    """
    return _spell(text, screen.encoding)


def write(stream: TextIO, text: str) -> bool:
    """Write text, whatever the stream's encoding, and be quiet when the reader has gone.

    Returns
    -------
    bool
        False when nobody reads any more (`| head`): the caller may stop.
    """
    try:
        stream.write(_spell(text, _known(getattr(stream, "encoding", None) or "utf-8")))
        stream.flush()
    except OSError as error:
        _drop(stream)
        if error.errno not in (errno.EPIPE, errno.EINVAL):  # Windows says EINVAL for a closed pipe
            raise FileError("cannot_write", path=getattr(stream, "name", "output"), reason=error.strerror) from None
        return False
    return True


def _drop(stream: TextIO) -> None:
    """Let the interpreter's own flush at exit go nowhere instead of complaining."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        return
