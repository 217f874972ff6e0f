"""One array out of a file: a tensor, a part of one, several that become one, or one that is packed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import FileError
from ..ops.precision import Array
from .floats import FLOAT32, Dtype, Kept
from .mxfp4 import BLOCK, unpacked

if TYPE_CHECKING:
    from .weights import Row, Tensors


def read_row(file: Tensors, row: Row, names: Mapping[str, str], settings: object, dtype: Dtype | None) -> Array:
    """What a row has of a file, as one array; `names` are the file's own by those that the row uses.

    Raises
    ------
    FileError
        tensor_shape, tensor_dtype or tensor_value.
    """
    expected = row.shape(settings)
    own = [names[name] for name in row.names(settings)]
    if row.scales is not None:
        array = _unpacked(file, row, own, expected, dtype)
    elif row.stacked is not None:
        array = _stacked(file, own, expected, dtype)
    else:
        array = _tensor(file, own[0], expected, dtype)
    if row.cut is not None and row.scales is None:
        part = row.cut(array)
        array = part.copy() if part.nbytes < array.nbytes and part.base is not None else part  # the rest can go
    if row.plus:
        array = array + array.dtype.type(row.plus)
    return array.swapaxes(-2, -1) if row.transposed else array


def _check_shape(file: Tensors, name: str, expected: tuple[int, ...]) -> None:
    if file.shapes[name] != expected:
        raise FileError("tensor_shape", path=file.path, name=name, expected=expected, shape=file.shapes[name])


def _tensor(file: Tensors, name: str, expected: tuple[int, ...], dtype: Dtype | None) -> Array:
    _check_shape(file, name, expected)
    return file.read(name, dtype)


def _stacked(file: Tensors, names: list[str], expected: tuple[int, ...], dtype: Dtype | None) -> Array:
    """Tensors of one shape as one, each put into its place as it comes."""
    first = _tensor(file, names[0], expected, dtype)
    array = np.empty((len(names), *expected), first.dtype)
    array[0] = first
    for place, name in zip(array[1:], names[1:]):
        place[...] = _tensor(file, name, expected, dtype)
    return array


def _unpacked(file: Any, row: Row, names: list[str], expected: tuple[int, ...], dtype: Dtype | None) -> Array:
    """What is packed in MXFP4, as only safetensors hold it: `row.cut` takes its part before that grows."""
    by_block = (*expected[:-1], -(-expected[-1] // BLOCK))
    for name, shape in zip(names, ((*by_block, BLOCK // 2), by_block)):
        _check_shape(file, name, shape)
    blocks, scales = (file.read_bytes(name) for name in names)
    if row.cut is not None:
        blocks, scales = row.cut(blocks), row.cut(scales)
    kept = Kept(file.path, names[0], (*scales.shape[:-1], expected[-1]), dtype, FLOAT32)
    for packed, scale in zip(blocks, scales):
        kept.add(unpacked(packed, scale)[..., : expected[-1]])  # a last block may be filled up
    return kept.array
