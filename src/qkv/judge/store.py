"""Where progress is kept: one JSON file, changed under a lock, written whole, set aside when it is damaged."""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import platformdirs

from ..errors import FileError
from ..io.files import read_json
from ..io.whole import write_whole

NAME, VERSION = "progress.json", 1
PATIENCE = 5.0  # seconds to wait for another process, which holds the lock for some milliseconds
TICK = 0.005
TAKEN = (errno.EACCES, errno.EAGAIN)


def location(environ: Mapping[str, str] | None = None) -> Path:
    """The file: in the folder that `QKV_DATA` names, or in the user's data directory.

    Examples
    --------
    >>> location({"QKV_DATA": "kept"}).as_posix()
    'kept/progress.json'
    """
    given = (os.environ if environ is None else environ).get("QKV_DATA")
    folder = Path(given).expanduser() if given else platformdirs.user_data_path("qkv", appauthor=False)
    return folder / NAME


def read(path: Path) -> dict[str, Any]:
    """What a file holds; nothing if there is none.

    Raises
    ------
    FileError
        As `read_json` does; `store_version` when another version of qkv wrote it.
    """
    try:
        data: dict[str, Any] = read_json(path)
    except FileError as error:
        if error.key == "no_file":
            return {}
        raise
    version = data.pop("version", None)
    if type(version) is not int:
        raise FileError("damaged", path=path, reason="no version")
    if version != VERSION:
        raise FileError("store_version", path=path, version=version, known=VERSION)
    return data


def write(path: Path, data: Mapping[str, Any]) -> None:
    """Replace the file, whole."""
    text = json.dumps({"version": VERSION, **data}, ensure_ascii=False, indent=1)
    write_whole(path, text.encode("utf-8") + b"\n")


def set_aside(path: Path) -> Path:
    """Give a damaged file another name, under which a person can look at it."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    names = (path.with_name(f"{path.stem}.damaged-{stamp}{f'-{n}' if n else ''}{path.suffix}") for n in count())
    aside = next(name for name in names if not name.exists())
    try:
        path.rename(aside)
    except OSError as error:
        raise FileError("cannot_write", path=path, reason=error.strerror) from None
    return aside


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Nobody else changes the file meanwhile. The system lets go of the lock, however the process ends.

    Raises
    ------
    FileError
        cannot_write, or `store_busy` when another process holds it for too long.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise FileError("cannot_write", path=path, reason=error.strerror) from None
    try:
        deadline = time.monotonic() + PATIENCE
        while not _take(descriptor):
            if time.monotonic() > deadline:
                raise FileError("store_busy", path=path, seconds=f"{PATIENCE:g}")
            time.sleep(TICK)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> bool:
    """Lock an open file; False while somebody else has it. A file system without locks gives none, and says nothing."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in TAKEN
    return True
