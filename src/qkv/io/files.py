"""JSON and safetensors, read so that a damaged or hostile file is one line and does no harm."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from ..errors import FileError
from ..ops.precision import BFLOAT16, Array  # safetensors knows bfloat16 only if ml_dtypes came first
from .floats import Dtype, Kept, pieces

JSON_LIMIT = 64 * 2**20  # bytes; the largest tokenizers known take about half of it
FLOATS = {"F64": np.dtype(np.float64), "F32": np.dtype(np.float32), "F16": np.dtype(np.float16), "BF16": BFLOAT16}
BYTES = "U8"
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt")


def existing(path: Path) -> Path:
    """`path`, if it is a file."""
    if not there(path).is_file():  # a directory, or a pipe that would never end
        raise FileError("not_a_file", path=path, kind="file")
    return path


def there(path: Path) -> Path:
    """`path`, if there is anything."""
    try:
        if path.exists():
            return path
    except OSError as error:  # a name too long, a directory that may not be entered
        raise FileError("cannot_read", path=path, reason=error.strerror) from None
    raise FileError("no_file", path=path)


def read_text(path: Path, limit: int = JSON_LIMIT) -> str:
    """The text of a UTF-8 file of at most `limit` bytes.

    Raises
    ------
    FileError
        no_file, not_a_file, too_large, cannot_read or damaged.
    """
    try:
        return read_bytes(path, limit).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError("damaged", path=path, reason=f"no UTF-8 at byte {error.start}") from None


def read_bytes(path: Path, limit: int = JSON_LIMIT) -> bytes:
    """What a file of at most `limit` bytes holds."""
    size = existing(path).stat().st_size
    if size > limit:
        raise FileError("too_large", path=path, size=size, limit=limit)
    try:
        with path.open("rb") as file:
            data = file.read(size + 1)  # not limit + 1, which would take that much memory
            if len(data) > size:  # it grew, or is none whose size is known
                data += file.read(limit + 1 - len(data))
    except OSError as error:
        raise FileError("cannot_read", path=path, reason=error.strerror) from None
    if len(data) > limit:
        raise FileError("too_large", path=path, size=len(data), limit=limit)
    return data


def read_json(path: Path, kind: type = dict, limit: int = JSON_LIMIT) -> Any:
    """What a JSON file of at most `limit` bytes holds: a `kind`, each key once, no NaN.

    Raises
    ------
    FileError
        As `read_text`.
    """
    return parse_json(path, read_text(path, limit), kind)


def parse_json(path: Path, text: str, kind: type = dict) -> Any:
    """`text` as JSON, with `path` named where it is none."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                raise FileError("damaged", path=path, reason=f"{name!r} stands in it twice")
            found[name] = value
        return found

    def no_number(word: str) -> None:
        raise FileError("damaged", path=path, reason=f"{word} is no number in JSON")

    try:
        value = json.loads(text, object_pairs_hook=once, parse_constant=no_number)
    except json.JSONDecodeError as error:
        reason = f"no JSON from line {error.lineno}, column {error.colno}"
        raise FileError("damaged", path=path, reason=reason) from None
    except (RecursionError, ValueError) as error:  # nested too deeply; a number of thousands of digits
        if isinstance(error, FileError):
            raise
        raise FileError("damaged", path=path, reason=type(error).__name__) from None
    if not isinstance(value, kind):
        raise FileError("damaged", path=path, reason="no JSON array" if kind is list else "no JSON object")
    return value


class TensorFile:
    """A safetensors file: its names at once, its tensors one at a time.

    Attributes
    ----------
    path : Path
    shapes : dict of str to tuple of int
    dtypes : dict of str to str
        As the file spells them: F32, BF16, ...
    """

    def __init__(self, path: Path, opened: Any) -> None:
        self.path = path
        self._opened = opened
        slices = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118  # not a dict
        self.shapes = {name: tuple(s.get_shape()) for name, s in slices.items()}
        self.dtypes = {name: s.get_dtype() for name, s in slices.items()}

    def size(self, name: str) -> int:
        """How many bytes a tensor takes in the file; 0 for one that holds neither floats nor bytes."""
        itemsize = FLOATS[self.dtypes[name]].itemsize if self.dtypes[name] in FLOATS else self.dtypes[name] == BYTES
        return math.prod(self.shapes[name]) * itemsize

    def read(self, name: str, dtype: Dtype | None = None) -> Array:
        """A tensor in memory of its own, in `dtype` as `Kept` has it.

        Raises
        ------
        FileError
            tensor_dtype when it holds no floats of a width that is known, tensor_value when it holds NaN, inf, or what
            is too large for `dtype`.
        """
        if self.dtypes[name] not in FLOATS:
            raise FileError("tensor_dtype", path=self.path, name=name, dtype=self.dtypes[name])
        shape = self.shapes[name]
        kept = Kept(self.path, name, shape, dtype, FLOATS[self.dtypes[name]])
        if not shape:
            kept.add(self._opened.get_tensor(name))
            return kept.array
        rows = self._opened.get_slice(name)
        for piece in pieces(shape):
            kept.add(rows[piece])
        return kept.array

    def read_bytes(self, name: str) -> Array:
        """A tensor of bytes, as it stands; what they mean is somebody else's.

        Raises
        ------
        FileError
            tensor_value when it holds something else.
        """
        if self.dtypes[name] != BYTES:
            raise FileError("tensor_value", path=self.path, name=name, what="no bytes")
        array: Array = self._opened.get_tensor(name)
        return array

    def read_raw(self, name: str) -> Array:
        """A tensor's bytes (n,), of whatever dtype it is: the library gives none that NumPy has no name for."""
        start, end = self._offsets[name]
        with self.path.open("rb") as file:
            return np.fromfile(file, np.uint8, end - start, offset=start)

    @cached_property
    def _offsets(self) -> dict[str, tuple[int, int]]:
        """Where each tensor begins and ends in the file, by the header that the library has checked."""
        with self.path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = parse_json(self.path, file.read(length).decode())
        first = 8 + length
        places = {name: header[name]["data_offsets"] for name in self.shapes}
        return {name: (first + start, first + end) for name, (start, end) in places.items()}


@contextmanager
def open_tensors(path: Path) -> Iterator[TensorFile]:
    """A safetensors file, mapped into memory while it is open.

    Raises
    ------
    FileError
        no_file, not_a_file, pickle, cannot_read or damaged; nothing of a pickle is ever run.
    """
    try:
        with existing(path).open("rb") as file:
            start = file.read(8)
            if is_pickle(path, start):
                raise FileError("pickle", path=path)
            length = int.from_bytes(start, "little")
            header = file.read(length) if length <= JSON_LIMIT else b""
        opened = safe_open(path, framework="numpy")
    except SafetensorError as error:
        reason = str(error).removeprefix("Error while deserializing header: ")
        raise FileError("damaged", path=path, reason=reason) from None
    except OSError as error:
        raise FileError("cannot_read", path=path, reason=error.strerror) from None
    with opened:
        parse_json(path, header.decode())  # a name that stands twice: the library would take the last one
        yield TensorFile(path, opened)


def is_pickle(path: Path, start: bytes) -> bool:
    """Whether a file is a pickle by its name or its first bytes, a zip archive around one included."""
    protocol = start[:1] == b"\x80" and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")
    return path.suffix in PICKLES or protocol or start.startswith(b"PK\x03\x04")
