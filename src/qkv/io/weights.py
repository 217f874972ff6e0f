"""A checkpoint's tensors as the tree of our own names: every one placed, none left over, all of the right shape."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from ..errors import FileError
from ..ops.precision import Array
from .config import Config
from .shards import open_model

MAX_LAYERS = 10_000
S = TypeVar("S")
NAMED = 20  # of the missing or left-over tensors of a broken file: a line, not a page


class Tensors(Protocol):
    """An open file of whatever format: the names and shapes of its tensors, and each of them."""

    path: Path
    shapes: dict[str, tuple[int, ...]]

    def read(self, name: str) -> Array: ...


@dataclass(frozen=True)
class Settings:
    """What the weights of a model do not say themselves. Sizes carry the names of the axes.

    Attributes
    ----------
    d_model, d_ff, n_heads, n_layers, vocab_size : int
    n_positions : int
        The longest sequence.
    n_types : int
        How many kinds of segment an encoder tells apart.
    activation : str
        One of `qkv.layers.parts.ACTIVATIONS`.
    eps : float
        Of the norms.
    """

    d_model: int
    d_ff: int
    n_heads: int
    n_layers: int
    vocab_size: int
    n_positions: int
    n_types: int
    activation: str
    eps: float


@dataclass(frozen=True)
class Row:
    """Where one tensor of a checkpoint belongs.

    Attributes
    ----------
    ours : str
        Its path in our tree.
    foreign : str
        Its name in the file.
    axes : str
        Its axes in the file, as names of `Settings`.
    transposed : bool
        Stored (out, in), as `torch.nn.Linear` does; our weights are (in, out).
    cut : callable (ndarray) -> ndarray, optional
        Takes our part out of a tensor that holds several, as it stands in the file.
    plus : float
        Added to every number: some norms are stored as what they differ from 1.
    """

    ours: str
    foreign: str
    axes: str
    transposed: bool = False
    cut: Callable[[Array], Array] | None = None
    plus: float = 0.0


@dataclass(frozen=True)
class Family(Generic[S]):
    """Models that differ only in sizes: how their files are read.

    Attributes
    ----------
    model_type : str
        What `config.json` calls them.
    heads : mapping of str to tuple of str
        Each known architecture, and how the names of the tensors begin that it puts on top and that are not read.
    settings : callable (Config) -> settings
        The sizes by the names that `Row.axes` uses, and what else the weights do not say.
    rows : callable (settings, names) -> iterable of Row
        `names` are those of the file, for parts that a file may have or not.
    canonical : callable (str) -> str
        A tensor's name without what differs between writers of the same model.
    buffers : collection of str
        Tensors that hold nothing learnt; a star stands for anything.
    """

    model_type: str
    heads: Mapping[str, tuple[str, ...]]
    settings: Callable[[Config], S]
    rows: Callable[[S, Collection[str]], Iterable[Row]]
    canonical: Callable[[str], str]
    buffers: Collection[str] = ()


def linear(ours: str, W: str, b: str, foreign: str, d_in: str, d_out: str) -> Iterator[Row]:
    """The two rows of a `torch.nn.Linear`."""
    yield Row(f"{ours}.{W}", f"{foreign}.weight", f"{d_out} {d_in}", transposed=True)
    yield Row(f"{ours}.{b}", f"{foreign}.bias", d_out)


def norm(ours: str, foreign: str) -> Iterator[Row]:
    """The two rows of a layer norm over d_model."""
    yield Row(f"{ours}.gamma", f"{foreign}.weight", "d_model")
    yield Row(f"{ours}.beta", f"{foreign}.bias", "d_model")


def read_weights(path: Path, family: Family[S], settings: S, architectures: Iterable[str]) -> dict[str, Any]:
    """The tensors of a safetensors file, or of those an index names, as nested dicts by our names.

    Raises
    ------
    FileError
        tensor_missing and tensor_left_over with the names, tensor_shape, tensor_dtype, tensor_value, and what
        `open_model` raises.
    """
    with open_model(path) as file:
        return placed(file, family, settings, architectures)


def placed(file: Tensors, family: Family[S], settings: S, architectures: Iterable[str]) -> dict[str, Any]:
    """The tensors of a file that is open, as `read_weights` gives them."""
    names: dict[str, str] = {}
    for name in file.shapes:
        names.setdefault(family.canonical(name), name)
    rows = list(family.rows(settings, names.keys()))
    _all_there(file, rows, names, family, architectures)
    tree: dict[str, Any] = {}
    for row in rows:
        place = tree
        *parents, leaf = row.ours.split(".")
        for parent in parents:
            place = place.setdefault(parent, {})
        place[leaf] = _read(file, row, names[row.foreign], settings)
    return tree


def _all_there(
    file: Tensors, rows: list[Row], names: Mapping[str, str], family: Family[S],
    architectures: Iterable[str],
) -> None:  # fmt: skip
    """Every row has its tensor, every tensor has a row, is a buffer, or belongs to a head on top."""
    missing = [row.foreign for row in rows if row.foreign not in names]
    if missing:
        raise FileError("tensor_missing", path=file.path, names=_listed(missing))
    used = {names[row.foreign] for row in rows}
    used |= {own for name, own in names.items() if any(fnmatchcase(name, known) for known in family.buffers)}
    on_top = tuple(prefix for name in architectures for prefix in family.heads[name])
    left_over = [name for name in file.shapes if name not in used and not name.startswith(on_top)]
    if left_over:
        raise FileError("tensor_left_over", path=file.path, names=_listed(left_over))


def _read(file: Tensors, row: Row, name: str, settings: object) -> Array:
    expected = tuple(getattr(settings, axis) for axis in row.axes.split())
    if file.shapes[name] != expected:
        raise FileError("tensor_shape", path=file.path, name=name, expected=expected, shape=file.shapes[name])
    array = file.read(name)
    if row.cut is not None:
        array = row.cut(array)
    if row.plus:
        array = array + array.dtype.type(row.plus)
    return array.T if row.transposed else array


def _listed(names: list[str]) -> str:
    more = f", … (+{len(names) - NAMED})" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
