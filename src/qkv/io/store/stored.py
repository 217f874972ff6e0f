"""Where fetched models are kept: a folder for each in the user's data directory, there whole or not at all."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from ...errors import FileError
from ..files import existing, read_json
from ..gguf.header import Header

PARTIAL = ".partial-"  # a download that is not finished, or was interrupted


@dataclass(frozen=True)
class Stored:
    """A model that was fetched.

    Attributes
    ----------
    name : str
        What it is called: `owner/name`, `owner/name/file.gguf`, or a word.
    family : str
        What its files call it.
    size : int
        Bytes on the disk.
    path : Path
        What `qkv.load` takes.
    """

    name: str
    family: str
    size: int
    path: Path


def models_folder(environ: Mapping[str, str] | None = None) -> Path:
    """The folder of all models: in the folder that `QKV_DATA` names, or in the user's data directory.

    Examples
    --------
    >>> models_folder({"QKV_DATA": "kept"}).as_posix()
    'kept/models'
    """
    given = (os.environ if environ is None else environ).get("QKV_DATA")
    folder = Path(given).expanduser() if given else platformdirs.user_data_path("qkv", appauthor=False)
    return folder / "models"


def folder_of(name: str) -> Path:
    """The folder of a model by its name; there need not be one."""
    return models_folder() / name.replace("/", "--")


def unfinished(name: str) -> Path:
    """Where a model is put together before it gets its place. What an earlier attempt left there is gone on with."""
    folder = folder_of(name)
    path = folder.with_name(PARTIAL + folder.name)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError("cannot_write", path=path, reason=error.strerror) from None
    return path


def finish(name: str) -> Stored:
    """Give a model that is complete its place."""
    partial, folder = unfinished(name), folder_of(name)
    try:
        partial.rename(folder)
    except OSError as error:
        raise FileError("cannot_write", path=folder, reason=error.strerror) from None
    return _described(folder)


def find(name: str) -> Path | None:
    """What `qkv.load` takes of the model of that name; None where none was fetched."""
    folder = folder_of(name)
    if not name or name.startswith((".", "/")) or folder.parent != models_folder():
        return None
    try:
        return _described(folder).path if folder.is_dir() else None
    except (OSError, ValueError):  # no name that a folder may have
        return None


def all_stored() -> list[Stored]:
    """The models that were fetched, by name."""
    folder = models_folder()
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
    return [_described(path) for path in sorted(found)]


def _described(folder: Path) -> Stored:
    files = [path for path in folder.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    packed = [path for path in files if path.suffix == ".gguf"]
    path = packed[0] if len(packed) == 1 and not (folder / "config.json").exists() else folder
    return Stored(folder.name.replace("--", "/"), _family(path), size, path)


def _family(path: Path) -> str:
    """What a model's files call its kind; a question mark where they cannot be read."""
    try:
        if path.is_dir():
            return str(read_json(path / "config.json").get("model_type", "?"))
        with existing(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return str(Header(path, data).metadata.get("general.architecture", "?"))
    except (FileError, OSError, ValueError):
        return "?"
