"""Matrices in eight bits, as DeepSeek-V3 is published: float8 numbers, and a scale for every block of them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ..errors import FileError
from ..ops.precision import Array
from .config import Config
from .files import TensorFile
from .floats import FLOAT32, Dtype, Kept
from .shards import TensorFiles

FLOAT8 = np.dtype(ml_dtypes.float8_e4m3fn)
SPELLED, SUFFIX = "F8_E4M3", "_scale_inv"
Block = tuple[int, int]


def read_block(config: Config) -> Block | None:
    """The rows and columns that share a scale; None where nothing is packed in this way.

    Raises
    ------
    FileError
        For numbers of another form, or scales of anything but blocks.
    """
    packing = config.values.get("quantization_config")
    if not isinstance(packing, dict) or packing.get("quant_method") != "fp8":
        return None
    config.raw("quantization_config")
    block: Any = packing.get("weight_block_size")
    sizes = isinstance(block, list) and len(block) == 2 and all(isinstance(n, int) and 0 < n < 2**31 for n in block)
    if packing.get("fmt", "e4m3") != "e4m3" or not sizes:
        raise config.wrong("quantization_config", "fp8 of the form e4m3, with weight_block_size [rows, columns]")
    # How activations would be rounded while computing, which is not done here; and what the dtypes in the file say.
    Config(config.path, packing).finish(harmless={
        "activation_scheme", "dequantize", "fmt", "modules_to_not_convert", "quant_method", "scale_fmt",
        "weight_block_size",
    })  # fmt: skip
    return block[0], block[1]


class Unscaled:
    """A file of tensors in which those of eight bits are multiplied with their scales as they are read.

    Attributes
    ----------
    path : Path
    shapes : dict of str to tuple of int
        Without the scales.
    """

    def __init__(self, file: TensorFile | TensorFiles, block: Block) -> None:
        self.path, self._file, self._block = file.path, file, block
        packed = {name for name, dtype in file.dtypes.items() if dtype == SPELLED}
        if missing := [name for name in packed if name + SUFFIX not in file.shapes or len(file.shapes[name]) != 2]:
            raise FileError("tensor_missing", path=file.path, names=min(missing) + SUFFIX)
        self._packed = packed
        self.shapes = {name: shape for name, shape in file.shapes.items() if name.removesuffix(SUFFIX) not in packed
                       or name in packed}  # fmt: skip

    def size(self, name: str) -> int:
        """How many bytes a tensor takes in the file, with its scales."""
        if name not in self._packed:
            return self._file.size(name)
        rows, columns = self.shapes[name]
        return rows * columns + self._file.size(name + SUFFIX)

    def read(self, name: str, dtype: Dtype | None = None) -> Array:
        """As `TensorFile.read`."""
        if name not in self._packed:
            return self._file.read(name, dtype)
        rows, columns = self.shapes[name]
        high, wide = self._block
        expected = (-(-rows // high), -(-columns // wide))
        if (shape := self._file.shapes[name + SUFFIX]) != expected:
            raise FileError("tensor_shape", path=self.path, name=name + SUFFIX, expected=expected, shape=shape)
        scales = self._file.read(name + SUFFIX)
        numbers = self._file.read_raw(name).view(FLOAT8).reshape(rows, columns)
        kept = Kept(self.path, name, (rows, columns), dtype, FLOAT32)
        for i, of_row in enumerate(scales):
            part = numbers[i * high : (i + 1) * high].astype(FLOAT32)
            kept.add(part * np.repeat(of_row, wide)[:columns])
        return kept.array

    def read_bytes(self, name: str) -> Array:
        """As `TensorFile.read_bytes`."""
        return self._file.read_bytes(name)
