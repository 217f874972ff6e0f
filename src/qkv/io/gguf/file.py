"""The tensors of GGUF, the file format of llama.cpp, unpacked by the `gguf` library (extra `models`)."""

from __future__ import annotations

import math
import mmap
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import FileError, MissingExtraError
from ...ops.precision import Array
from ..files import existing
from ..floats import FLOAT32, Dtype, Kept
from .header import MAGIC, Entry, Header

# How numbers may be packed; the library knows how to unpack each. All but the first three share a scale in blocks.
PACKINGS = (
    "F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "MXFP4",
    "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0",
)  # fmt: skip
UNPACKED_AT_ONCE = 1 << 18  # numbers: what lies between the file and the result stays small


class GGUFFile:
    """A GGUF file: its metadata and names at once, its tensors one at a time.

    Parameters
    ----------
    path : Path
    data : mmap
        What it holds.

    Attributes
    ----------
    metadata : dict
    shapes : dict of str to tuple of int
    """

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path, self._data = path, data
        self._library = gguf_library()
        header = Header(path, data)
        self.metadata = header.metadata
        self._places = {entry.name: (entry, *self._place(header, entry)) for entry in header.tensors}
        self._check_places(header)
        self.shapes = {name: entry.shape for name, (entry, _, _) in self._places.items()}

    def size(self, name: str) -> int:
        """How many bytes a tensor takes in the file."""
        _, start, stop = self._places[name]
        return stop - start

    def read(self, name: str, dtype: Dtype | None = None) -> Array:
        """A tensor in memory of its own, whatever it is packed as, in `dtype` as `Kept` has it.

        Raises
        ------
        FileError
            tensor_value when it holds NaN, inf, or what is too large for `dtype`.
        """
        entry, start, stop = self._places[name]
        kind = self._library.GGMLQuantizationType(entry.kind)
        per_block, block_bytes = self._library.GGML_QUANT_SIZES[kind]
        kept = Kept(self.path, name, entry.shape, dtype, FLOAT32)
        step = UNPACKED_AT_ONCE // per_block * block_bytes
        for first in range(start, stop, step):
            packed = np.frombuffer(self._data[first : min(first + step, stop)], np.uint8)[None]
            with np.errstate(all="ignore"):  # what is no number is found by `add`
                kept.add(self._library.dequantize(packed, kind))  # as one row: it loops over few at a time
        if hasattr(mmap, "MADV_DONTNEED"):  # what was read of the file need not stay in memory
            self._data.madvise(mmap.MADV_DONTNEED, 0, stop)
        return kept.array

    def _place(self, header: Header, entry: Entry) -> tuple[int, int]:
        """Its first byte in the file, and the one after its last."""
        library = self._library
        known = {int(kind): kind.name for kind in library.GGMLQuantizationType}
        packing = known.get(entry.kind, f"number {entry.kind}")
        if packing not in PACKINGS:
            raise FileError("tensor_dtype", path=self.path, name=entry.name, dtype=packing)
        per_block, block_bytes = library.GGML_QUANT_SIZES[library.GGMLQuantizationType(entry.kind)]
        if not entry.shape or min(entry.shape) < 1 or entry.shape[-1] % per_block:
            raise header.damaged(f"tensor {entry.name!r} cannot have the shape {entry.shape}")
        start = header.origin + entry.offset
        return start, start + math.prod(entry.shape) // per_block * block_bytes

    def _check_places(self, header: Header) -> None:
        """Every tensor has a name of its own, and stands beside the others and within the file."""
        if len(self._places) < len(header.tensors):
            twice, _ = Counter(entry.name for entry in header.tensors).most_common(1)[0]
            raise header.damaged(f"{twice!r} stands in it twice")
        end = header.origin
        for name, (_, start, stop) in sorted(self._places.items(), key=lambda place: place[1][1:]):
            if start < end:
                raise header.damaged(f"tensor {name!r} overlaps another")
            if stop > len(self._data):
                raise header.damaged(f"tensor {name!r} ends behind the end of the file")
            end = stop


def gguf_library() -> Any:
    """The `gguf` library.

    Raises
    ------
    MissingExtraError
    """
    try:
        import gguf
    except ImportError:
        raise MissingExtraError("extra", package="gguf", extra="models") from None
    return gguf


def is_gguf(path: Path) -> bool:
    """Whether a file is GGUF by its name or its first bytes."""
    try:
        with path.open("rb") as file:
            return path.suffix == ".gguf" or file.read(len(MAGIC)) == MAGIC
    except OSError:
        return path.suffix == ".gguf"


@contextmanager
def open_gguf(path: Path) -> Iterator[GGUFFile]:
    """A GGUF file, mapped into memory while it is open.

    Raises
    ------
    FileError
        no_file, not_a_file, cannot_read, damaged, or tensor_dtype for a packing that is not known.
    MissingExtraError
        When the `gguf` library is not installed.
    """
    if existing(path).stat().st_size == 0:  # nothing to map
        raise FileError("damaged", path=path, reason="no GGUF")
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield GGUFFile(path, data)
    except OSError as error:
        raise FileError("cannot_read", path=path, reason=error.strerror) from None
