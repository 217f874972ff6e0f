"""Loading a model for a command: how far it is, told to whoever watches."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.cells import cell_len

from .. import words
from ..errors import ArgumentError, FileError, one_line
from ..io.store.packaged import NAME as SMALL
from ..io.store.stored import find
from ..models import load
from ..views.screen import Screen, printable, write


def model_option(lang: str) -> Callable[[Any], Any]:
    """`--model` of the commands that take the small model where none is named."""
    return click.option("--model", type=click.Path(path_type=Path), help=words.say("help.option.model", lang))


def model_path(given: Path | None) -> Path:
    """Where a model is: at a path, or by its name among those that were fetched; without either the small one."""
    if given is None:
        if (small := find(SMALL)) is None:
            raise ArgumentError("no_model", small=SMALL)
        return small
    if os.path.lexists(given):
        return given
    if (fetched := find(given.as_posix())) is None:
        raise FileError("no_model_there", path=given)
    return fetched


def load_shown(given: Path | None, lang: str) -> Any:
    """The model of a path or name. While it is read, a line of standard error says how far, unless that is a pipe."""
    path = model_path(given)
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
        show(words.say("cli.loading", lang, name=one_line(path.name), percent=100 * done // total))

    try:
        return load(path, progress=progress)
    finally:
        show("")
