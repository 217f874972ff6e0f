"""Writing a file so that it is there whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from ..errors import FileError


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write `data` beside `path` under another name, then rename: what stood there before is never half lost.

    A link is followed. What is no ordinary file (a device, a pipe) is written to, not replaced.

    Raises
    ------
    FileError
        cannot_write, with the system's reason.
    """
    if not os.fspath(path):
        raise FileError("cannot_write", path=repr(""), reason="no name")
    try:
        target = Path(os.path.realpath(path))
        about = target.stat() if target.exists() else None
        if about is not None and not stat.S_ISREG(about.st_mode):
            with open(target, "wb") as stream:
                stream.write(data)
            return
        if about is not None and not os.access(target, os.W_OK):
            raise PermissionError(0, "it may not be written to")
        _replace(target, data, None if about is None else stat.S_IMODE(about.st_mode))
    except OSError as error:
        raise FileError("cannot_write", path=path, reason=error.strerror) from None
    except ValueError:  # a zero, half a surrogate pair
        raise FileError("cannot_write", path=path, reason="no name that a file may have") from None


def _replace(target: Path, data: bytes, mode: int | None) -> None:
    unfinished = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.tmp")
    try:
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            file.write(data)
        if mode is not None:
            os.chmod(unfinished, mode)
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)
