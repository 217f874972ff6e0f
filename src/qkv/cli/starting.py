"""Starter files: written where there is none, never over what somebody made."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

from ..errors import FileError


def write_new(path: Path, text: str) -> bool:
    """Write a file that is not there; False, and nothing is touched, when it is."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        if not path.parent.is_dir():
            raise FileError("no_folder", path=path.parent) from None
        return False
    except OSError as error:
        raise FileError("cannot_write", path=path, reason=error.strerror) from None
    return True


def free_name(path: Path) -> Path:
    """`path` itself, or with the first number behind it that is still free."""
    numbered = (path if n == 1 else path.with_name(f"{path.stem}_{n}{path.suffix}") for n in count(1))
    return next(candidate for candidate in numbered if not os.path.lexists(candidate))


def start_anew(path: Path, text: str) -> Path:
    """Put the starter in the place of a file, which is kept under another name: that name."""
    kept = free_name(path.with_name(f"{path.stem}_before{path.suffix}"))
    try:
        path.rename(kept)
    except OSError as error:
        raise FileError("cannot_write", path=kept, reason=error.strerror) from None
    write_new(path, text)
    return kept
