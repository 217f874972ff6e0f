"""What another implementation computed: a trace of qkv, or what the stand-alone script saved of transformers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from ..errors import FileError
from ..io.files import existing
from ..io.modules import OUT
from ..ops.precision import Array
from .trace import FORMAT

FOREIGN = "transformers trace 1"


@dataclass(frozen=True, eq=False)
class Reference:
    """A run to be held to.

    Attributes
    ----------
    path : Path
    arrays : mapping of str to ndarray
    foreign : bool
        Whether they have the names of transformers' modules, not those of our paths.
    about : mapping of str to str
        What the file says of itself: model_type, architecture, dtype, versions.
    """

    path: Path
    arrays: Mapping[str, Array]
    foreign: bool
    about: Mapping[str, str]

    @property
    def ids(self) -> Array:
        """The token ids that were run.

        Raises
        ------
        FileError
            When the file does not say, or they are none.
        """
        ids = self.arrays.get("ids")
        if ids is None:
            raise FileError("no_ids", path=self.path)
        if ids.ndim != 1 or ids.dtype.kind not in "iu" or not ids.size:
            raise FileError("damaged", path=self.path, reason="its ids are no sequence of token ids")
        return ids.astype(np.intp)

    @property
    def modules(self) -> list[str]:
        """The modules whose output it holds."""
        return [name.removeprefix(OUT) for name in self.arrays if name.startswith(OUT)]


def read_reference(path: str | os.PathLike[str]) -> Reference:
    """Read a reference trace.

    Raises
    ------
    FileError
        When the file is missing, damaged, or neither kind of trace.
    """
    path = existing(Path(path))
    try:
        with safe_open(path, framework="np") as file:
            about = dict(file.metadata() or {})
            if about.get("format") not in (FORMAT, FOREIGN):
                raise FileError("not_a_file", path=path, kind="trace of qkv or of its script")
            arrays = {name: np.asarray(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118  # no dict
    except OSError as error:
        raise FileError("cannot_read", path=path, reason=error.strerror) from None
    except FileError:
        raise
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise FileError("damaged", path=path, reason=str(error)) from None
    return Reference(path, arrays, about["format"] == FOREIGN, about)


def script() -> str:
    """The program that saves a reference trace of a model of transformers; it needs nothing of qkv."""
    return files(__package__).joinpath("save_trace.py.txt").read_text(encoding="utf-8")
