"""The header of a GGUF file: its metadata, and where each tensor stands. Nothing is believed without bytes for it."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import FileError

MAGIC = b"GGUF"
VERSIONS = (2, 3)  # of version 1, from 2023, hardly a file is left
ALIGNMENT = 32  # where `general.alignment` says nothing
# The types of metadata by the numbers that the format gives them, as `struct` spells them: 8 is text, 9 a list.
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, LIST = 8, 9
MAX_NAME, MAX_AXES = 1024, 4
MOST_TENSORS, LONGEST = 1 << 16, 64 * 2**20  # a header and its bytes; those of known models take a sixth of that
LEAST_VALUE, LEAST_TENSOR = 13, 32  # bytes that an entry takes at least


@dataclass(frozen=True)
class Entry:
    """What the header says of a tensor.

    Attributes
    ----------
    name : str
    shape : tuple of int
        Outermost axis first, as NumPy has it; the file has the other order.
    kind : int
        How its numbers are packed: a value of `gguf.GGMLQuantizationType`.
    offset : int
        Where it begins, in bytes after `Header.origin`.
    """

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int


class Header:
    """A header, read once from its beginning to its end.

    Attributes
    ----------
    metadata : dict
    tensors : list of Entry
    origin : int
        The byte of the file at which the tensors begin.

    Raises
    ------
    FileError
        damaged.
    """

    def __init__(self, path: Path, data: Any) -> None:
        self._path, self._data, self._at = path, data, 0
        if self._take(len(MAGIC)) != MAGIC:
            raise self.damaged("no GGUF")
        version = self._number("I")
        if version not in VERSIONS:
            raise self.damaged(f"GGUF of version {version}")
        n_tensors, n_values = self._count(LEAST_TENSOR), self._count(LEAST_VALUE)
        if n_tensors > MOST_TENSORS:
            raise self.damaged(f"it has more than {MOST_TENSORS} tensors")
        self.metadata = self._metadata(n_values)
        self.tensors = [self._entry() for _ in range(n_tensors)]
        alignment = self.metadata.get("general.alignment", ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
            raise self.damaged(f"general.alignment is {alignment!r}")
        self.origin = -(-self._at // alignment) * alignment

    def damaged(self, reason: str) -> FileError:
        return FileError("damaged", path=self._path, reason=reason)

    def _metadata(self, n_values: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for _ in range(n_values):
            name = self._text()
            if name in found:
                raise self.damaged(f"{name!r} stands in it twice")
            found[name] = self._value()
        return found

    def _entry(self) -> Entry:
        name, n_axes = self._text(MAX_NAME), self._number("I")
        if n_axes > MAX_AXES:
            raise self.damaged(f"tensor {name!r} has {n_axes} axes")
        shape = tuple(self._number("Q") for _ in range(n_axes))[::-1]
        return Entry(name, shape, self._number("I"), self._number("Q"))

    def _value(self) -> Any:
        kind = self._number("I")
        return self._list() if kind == LIST else self._text() if kind == TEXT else self._number(self._scalar(kind))

    def _list(self) -> list[Any]:
        kind = self._number("I")
        if kind == TEXT:
            return [self._text() for _ in range(self._count(8))]
        code = self._scalar(kind)
        width = struct.calcsize(f"<{code}")
        n = self._count(width)
        return list(struct.unpack(f"<{n}{code}", self._take(n * width)))

    def _scalar(self, kind: int) -> str:
        if kind not in SCALARS:
            raise self.damaged(f"metadata of type {kind}")
        return SCALARS[kind]

    def _text(self, limit: int | None = None) -> str:
        size = self._count(1)
        if limit is not None and size > limit:
            raise self.damaged(f"a name of {size} bytes")
        start = self._at
        try:
            return self._take(size).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.damaged(f"no UTF-8 at byte {start + error.start}") from None

    def _count(self, least_bytes: int) -> int:
        """A number of things, for each of which the file still has bytes, and few enough to be kept in memory."""
        n = int(self._number("Q"))
        if n * least_bytes > len(self._data) - self._at:
            raise self.damaged(f"it ends before {n} things that it announces")
        if n * least_bytes > LONGEST - self._at:
            raise self.damaged(f"its header has more than {LONGEST} bytes")
        return n

    def _number(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self._take(struct.calcsize(f"<{code}")))[0]

    def _take(self, n: int) -> bytes:
        taken: bytes = self._data[self._at : self._at + n]
        if len(taken) != n:
            raise self.damaged("it ends within its header")
        self._at += n
        return taken
