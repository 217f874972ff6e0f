"""Writing a file so that it is there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ..errors import FileError


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write `data` beside `path` under another name, then rename: what stood there before is never half lost.

    Raises
    ------
    FileError
        cannot_write, with the system's reason.
    """
    path = Path(path)
    unfinished: str | None = None
    try:
        descriptor, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        mode = path.stat().st_mode if path.exists() else 0o666 & ~_umask()
        os.chmod(unfinished, mode & 0o777)
        os.replace(unfinished, path)
        unfinished = None
    except OSError as error:
        raise FileError("cannot_write", path=path, reason=error.strerror) from None
    finally:
        if unfinished is not None:
            Path(unfinished).unlink(missing_ok=True)


def _umask() -> int:
    """The mask of this process, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
