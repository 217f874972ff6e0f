"""A checkpoint's tensors as the tree of our own names: every one placed, none left over, all of the right shape."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from operator import attrgetter
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from ..errors import FileError
from ..ops.precision import Array
from .config import Config
from .floats import Dtype
from .fp8 import Block, Unscaled
from .reading import read_row
from .shards import open_model

MAX_LAYERS = 10_000
MAX_HEADS = 1 << 16  # where there is a number for each, before any weight is read
Progress = Callable[[int, int], None]
S = TypeVar("S")
NAMED = 20  # of the missing or left-over tensors of a broken file: a line, not a page


class Tensors(Protocol):
    """An open file of whatever format: the names and shapes of its tensors, and each of them."""

    path: Path
    shapes: dict[str, tuple[int, ...]]

    def size(self, name: str) -> int: ...

    def read(self, name: str, dtype: Dtype | None = None) -> Array: ...


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
        Its axes in the file, as names of the settings (`part.name` where it holds those of several parts), or numbers.
    transposed : bool
        Stored (out, in), as `torch.nn.Linear` does; our weights are (in, out).
    cut : callable (ndarray) -> ndarray, optional
        Takes our part out of a tensor that holds several, as it stands in the file.
    plus : float
        Added to every number: some norms are stored as what they differ from 1.
    stacked : str, optional
        The setting that counts tensors which become one here, with an axis before their own: a star in `foreign`
        stands for their numbers, from 0 on.
    scales : str, optional
        The name of the scales of a tensor that is packed in MXFP4. `axes` and `transposed` are those of what is packed.
    """

    ours: str
    foreign: str
    axes: str
    transposed: bool = False
    cut: Callable[[Array], Array] | None = None
    plus: float = 0.0
    stacked: str | None = None
    scales: str | None = None

    def names(self, settings: object) -> Iterator[str]:
        """The tensors of the file that it reads."""
        if self.stacked is None:
            yield self.foreign
        else:
            yield from (self.foreign.replace("*", str(i)) for i in range(getattr(settings, self.stacked)))
        if self.scales is not None:
            yield self.scales

    def shape(self, settings: object) -> tuple[int, ...]:
        """The shape of each tensor in the file."""
        return tuple(int(axis) if axis.isdigit() else attrgetter(axis)(settings) for axis in self.axes.split())


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
    left_out : callable (settings) -> collection of str
        Tensors that hold parts which are known and not read; likewise.
    """

    model_type: str
    heads: Mapping[str, tuple[str, ...]]
    settings: Callable[[Config], S]
    rows: Callable[[S, Collection[str]], Iterable[Row]]
    canonical: Callable[[str], str]
    buffers: Collection[str] = ()
    left_out: Callable[[S], Collection[str]] = lambda settings: ()


def linear(
    ours: str, letter: str, foreign: str, d_in: str, d_out: str, bias: bool = True,
    cut: Callable[[Array], Array] | None = None,
) -> Iterator[Row]:  # fmt: skip
    """The rows of a `torch.nn.Linear`, or of our part of one that holds several; no letter: W and b alone."""
    ending = f"_{letter}" if letter else ""
    yield Row(f"{ours}.W{ending}", f"{foreign}.weight", f"{d_out} {d_in}", transposed=True, cut=cut)
    if bias:
        yield Row(f"{ours}.b{ending}", f"{foreign}.bias", d_out, cut=cut)


def norm(ours: str, foreign: str, axis: str = "d_model", bias: bool = True, plus: float = 0.0) -> Iterator[Row]:
    """The one or two rows of a norm."""
    yield Row(f"{ours}.gamma", f"{foreign}.weight", axis, plus=plus)
    if bias:
        yield Row(f"{ours}.beta", f"{foreign}.bias", axis)


def read_weights(
    path: Path, family: Family[S], settings: S, architectures: Iterable[str],
    dtype: Dtype | None = None, progress: Progress | None = None, block: Block | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The tensors of a safetensors file, or of those an index names, as nested dicts by our names.

    `block` has the sizes of the blocks that share a scale, in a file with matrices of eight bits.

    Raises
    ------
    FileError
        tensor_missing and tensor_left_over with the names, tensor_shape, tensor_dtype, tensor_value, and what
        `open_model` raises.
    """
    with open_model(path) as file:
        tensors = file if block is None else Unscaled(file, block)
        return placed(tensors, family, settings, architectures, dtype, progress)


def placed(
    file: Tensors, family: Family[S], settings: S, architectures: Iterable[str],
    dtype: Dtype | None = None, progress: Progress | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The tensors of a file that is open, as `read_weights` gives them.

    `progress` is told after each row how many bytes have been read, and how many there are.
    """
    names: dict[str, str] = {}
    for name in file.shapes:
        names.setdefault(family.canonical(name), name)
    rows = list(family.rows(settings, names.keys()))
    _all_there(file, rows, names, family, architectures, settings)
    tree: dict[str, Any] = {}
    left = {names[name]: file.size(names[name]) for row in rows for name in row.names(settings)}
    done, total = 0, sum(left.values())
    for row in rows:
        place = tree
        *parents, leaf = row.ours.split(".")
        for parent in parents:
            place = place.setdefault(parent, {})
        place[leaf] = read_row(file, row, names, settings, dtype)
        done += sum(left.pop(names[name], 0) for name in row.names(settings))
        if progress is not None:
            progress(done, total)
    return tree


def _all_there(
    file: Tensors, rows: list[Row], names: Mapping[str, str], family: Family[S],
    architectures: Iterable[str], settings: S,
) -> None:  # fmt: skip
    """Every row has its tensors, every tensor has a row, is a buffer, or belongs to a head on top."""
    first_missing = (next((name for name in row.names(settings) if name not in names), None) for row in rows)
    if missing := [name for name in first_missing if name is not None]:
        raise FileError("tensor_missing", path=file.path, names=_listed(missing))
    used = {names[name] for row in rows for name in row.names(settings)}
    passed_over = [*family.buffers, *family.left_out(settings)]
    used |= {own for name, own in names.items() if any(fnmatchcase(name, known) for known in passed_over)}
    on_top = tuple(prefix for name in architectures for prefix in family.heads[name])
    left_over = [name for name in file.shapes if name not in used and not name.startswith(on_top)]
    if left_over:
        raise FileError("tensor_left_over", path=file.path, names=_listed(left_over))


def _listed(names: list[str]) -> str:
    more = f", … (+{len(names) - NAMED})" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
