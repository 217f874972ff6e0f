"""The tensors of a model that is too large for one file: an index names the file of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ..errors import FileError
from ..ops.precision import Array
from .files import TensorFile, open_tensors, read_json
from .floats import Dtype

INDEX = ".index.json"


class TensorFiles:
    """Several safetensors files, read as if they were one.

    Attributes
    ----------
    path : Path
        The index.
    shapes : dict of str to tuple of int
    dtypes : dict of str to str
    """

    def __init__(self, path: Path, places: Mapping[str, TensorFile]) -> None:
        self.path = path
        self._places = places
        self.shapes = {name: file.shapes[name] for name, file in places.items()}
        self.dtypes = {name: file.dtypes[name] for name, file in places.items()}

    def size(self, name: str) -> int:
        """As `TensorFile.size`."""
        return self._places[name].size(name)

    def read(self, name: str, dtype: Dtype | None = None) -> Array:
        """As `TensorFile.read`."""
        return self._places[name].read(name, dtype)

    def read_bytes(self, name: str) -> Array:
        """As `TensorFile.read_bytes`."""
        return self._places[name].read_bytes(name)

    def read_raw(self, name: str) -> Array:
        """As `TensorFile.read_raw`."""
        return self._places[name].read_raw(name)


@contextmanager
def open_model(path: Path) -> Iterator[TensorFile | TensorFiles]:
    """The tensors of a safetensors file, or of all files that an index names.

    Raises
    ------
    FileError
        What `open_tensors` raises; config_value for an index that names no file beside it, damaged where the index
        and its files disagree.
    """
    with ExitStack() as stack:
        if not path.name.endswith(INDEX):
            yield stack.enter_context(open_tensors(path))
            return
        index = _weight_map(path)
        files = {name: stack.enter_context(open_tensors(path.parent / name)) for name in sorted(set(index.values()))}
        for tensor, name in index.items():
            if tensor not in files[name].shapes:
                raise FileError("tensor_missing", path=files[name].path, names=tensor)
        for name, file in files.items():
            if unnamed := [tensor for tensor in file.shapes if index.get(tensor) != name]:
                raise FileError("tensor_left_over", path=file.path, names=", ".join(unnamed[:20]))
        yield TensorFiles(path, {tensor: files[name] for tensor, name in index.items()})


def _weight_map(path: Path) -> dict[str, str]:
    """The file of each tensor; only names of files beside the index."""
    index = read_json(path).get("weight_map")
    if not isinstance(index, dict) or not index:
        raise FileError("config_missing", path=path, name="weight_map")
    for name in index.values():
        if not isinstance(name, str) or Path(name).name != name or not name.endswith(".safetensors"):
            expected = "names of safetensors files beside it"
            raise FileError("config_value", path=path, name="weight_map", expected=expected, value=name)
    return index
