"""Values between the judge and a learner's process: plain JSON, arrays as dtype, shape and bytes.

Nothing that arrives is run, unpickled or believed: the reader checks dtype, shape and length by itself.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

LARGEST = 1 << 22  # bytes of one array
DEEPEST = 8
KINDS = "biuf"


@dataclass(frozen=True)
class Stream:
    """An argument that is an iterator over values, made anew for each call."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class Unreadable:
    """Something that is no number, array or sequence of them: what it said it was."""

    what: str


def encode(value: Any, depth: int = 0) -> Any:
    """A value as JSON.

    A subclass has no say in it: the buffer is read through `ndarray` itself, whatever the class overrides.

    Examples
    --------
    >>> encode(np.array([1, 2], np.uint8))
    {'array': ['|u1', [2], 'AQI=']}
    >>> encode({1})
    {'unreadable': 'set'}
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return _encode_array(np.ndarray.view(np.asarray(value), np.ndarray))
    if (array := _foreign(value)) is not None:
        return _encode_array(array)
    if depth < DEEPEST:
        if isinstance(value, tuple):
            return {"tuple": [encode(item, depth + 1) for item in tuple.__iter__(value)]}
        if isinstance(value, list):
            return [encode(item, depth + 1) for item in list.__iter__(value)]
        if type(value) is dict:
            return {"dict": [[str(key), encode(item, depth + 1)] for key, item in value.items()]}
        if isinstance(value, Stream):
            return {"stream": [encode(item, depth + 1) for item in value.values]}
    return {"unreadable": type(value).__name__}


def _encode_array(array: Array) -> Any:
    if array.dtype.kind not in KINDS:
        return {"unreadable": f"array of {array.dtype}"}
    if array.nbytes > LARGEST:
        return {"unreadable": f"array of {array.nbytes} bytes"}
    plain = array.astype(array.dtype.newbyteorder("<"))
    return {"array": [plain.dtype.str, list(plain.shape), base64.b64encode(np.ndarray.tobytes(plain)).decode()]}


def _foreign(value: Any) -> Array | None:
    """The numbers of another library's array: PyTorch's or JAX's."""
    library = type(value).__module__.split(".")[0]
    if library == "torch" and hasattr(value, "detach"):
        value = value.detach().cpu()
        return np.asarray(value.float() if str(value.dtype) == "torch.bfloat16" else value)
    return np.asarray(value) if library in ("jax", "jaxlib") and hasattr(value, "dtype") else None


def decode(data: Any, depth: int = 0) -> Any:
    """The value again. What does not fit itself (bytes that are no such array) becomes `Unreadable`.

    Examples
    --------
    >>> decode(encode((np.eye(2)[0], 3)))
    (array([1., 0.]), 3)
    >>> decode({"array": ["<f8", [7, 7], "AAAA"]})
    Unreadable(what='damaged array')
    """
    if data is None or type(data) in (bool, int, float, str):
        return data
    if depth > DEEPEST:
        return Unreadable("nested too deep")
    if isinstance(data, list):
        return [decode(item, depth + 1) for item in data]
    if isinstance(data, dict) and len(data) == 1:
        ((kind, inner),) = data.items()
        if kind == "array":
            return _decode_array(inner)
        if kind == "unreadable":
            return Unreadable(str(inner)[:80])
        if isinstance(inner, list) and kind in ("tuple", "stream"):
            items = tuple(decode(item, depth + 1) for item in inner)
            return Stream(items) if kind == "stream" else items
        if kind == "dict" and isinstance(inner, list) and all(isinstance(p, list) and len(p) == 2 for p in inner):
            return {str(key): decode(item, depth + 1) for key, item in inner}
    return Unreadable("damaged value")


def _decode_array(data: Any) -> Any:
    try:
        name, shape, text = data
        dtype = np.dtype(str(name))
        size = math.prod(int(n) for n in shape)
        raw = base64.b64decode(text, validate=True)
        plain = dtype.kind in KINDS and all(type(n) is int and n >= 0 for n in shape)
        if not plain or len(raw) != size * dtype.itemsize:
            return Unreadable("damaged array")
        return np.frombuffer(raw, dtype).reshape(shape).copy()
    except (TypeError, ValueError):
        return Unreadable("damaged array")


def fresh(value: Any, library: str | None = None) -> Any:
    """A copy that a call may do anything to, its arrays as those of a library."""
    if isinstance(value, np.ndarray):
        return _as_library(value.copy(), library)
    if isinstance(value, Stream):
        return iter([fresh(item, library) for item in value.values])
    if isinstance(value, list | tuple):
        return type(value)(fresh(item, library) for item in value)
    if isinstance(value, dict):
        return {key: fresh(item, library) for key, item in value.items()}
    return value


def _as_library(array: Array, library: str | None) -> Any:
    if library == "torch":
        import importlib

        return importlib.import_module("torch").from_numpy(array)
    if library == "jax":
        import importlib

        return importlib.import_module("jax.numpy").asarray(array)
    return array


def arrays(value: Any) -> Iterator[Array]:
    """Every array in a value."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from arrays(item)
    elif isinstance(value, dict):
        yield from arrays(list(value.values()))
    elif isinstance(value, Stream):
        yield from arrays(value.values)
