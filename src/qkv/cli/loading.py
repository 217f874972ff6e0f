"""Loading a model for a command: how far it is, told to whoever watches."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from rich.cells import cell_len

from .. import words
from ..models import load
from ..views.screen import Screen, printable, write


def load_shown(path: Path, lang: str) -> Any:
    """The model at `path`. While it is read a line of standard error says how far, and is gone after; not in a pipe."""
    if not sys.stderr.isatty():
        return load(path)
    screen, shown = Screen.of(sys.stderr, os.environ, color="never"), ""

    def show(line: str) -> None:
        nonlocal shown
        if line != shown:
            blank = " " * max(0, cell_len(shown) - cell_len(line))
            write(sys.stderr, printable(f"\r{line}{blank}" + ("" if line else "\r"), screen))
            shown = line

    def progress(done: int, total: int) -> None:
        show(words.say("cli.loading", lang, name=path.name, percent=100 * done // total))

    try:
        return load(path, progress=progress)
    finally:
        show("")
