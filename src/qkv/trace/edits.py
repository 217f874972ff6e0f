"""`qkv.edit`: change a value where an op returns it, and see what follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from ..contract import watcher
from ..errors import ArgumentError, DtypeError, WatchError
from ..ops.precision import Array
from .trace import Trace, matches, near, within_step
from .watch import watching

__all__ = ["Edit", "edit", "freeze", "knock_out", "replacement", "scale", "zero"]

Change = Callable[[Array], ArrayLike]


@dataclass(frozen=True)
class Edit:
    """A change that also wants to know where it is applied."""

    change: Callable[[str, Array], ArrayLike]


def scale(factor: float, *, head: int | None = None, position: int | None = None) -> Edit:
    """Multiply a value, or one head of it (axis -3), or what it has at one position (axis -2; from the end below 0).

    Examples
    --------
    >>> scale(2.0).change("", np.ones(2))
    array([2., 2.])
    >>> scale(2.0, position=-1).change("", np.ones((3, 1))).tolist()
    [[1.0], [1.0], [2.0]]
    """
    return _on_part(head, position, lambda value: value * factor)


def zero(*, head: int | None = None, position: int | None = None) -> Edit:
    """Put zeros in the place of a value, of one head of it, or of one position: ablation."""
    return _on_part(head, position, np.zeros_like)


def replacement(value: ArrayLike, *, head: int | None = None, position: int | None = None) -> Edit:
    """Put another array, or a number, in the place of a value, of one head of it, or of one position."""
    return _on_part(head, position, lambda old: np.broadcast_to(np.asarray(value, old.dtype), old.shape))


def freeze(trace: Trace, *, head: int | None = None, position: int | None = None, source: int | None = None) -> Edit:
    """Put what another run computed at the same path in the place of a value: patching.

    Parameters
    ----------
    trace : Trace
        The other run.
    head : int, optional
        That head alone.
    position : int, optional
        That position alone; the other run may then have been longer or shorter.
    source : int, optional
        Another position of the other run, to stand at `position`.
    """
    if source is not None and position is None:
        raise ArgumentError("unused", name="source", reason="no position is given")

    def change(path: str, value: Array) -> ArrayLike:
        other = trace[path if path in trace else within_step(path)]
        if position is None and other.shape != value.shape:
            raise WatchError("frozen", path=path, other_shape=other.shape, shape=value.shape)
        old = _part(value, head, position)
        new = _part(other, head, position if source is None else source)
        if new.shape != old.shape:
            raise WatchError("frozen", path=path, other_shape=other.shape, shape=value.shape)
        return _with_part(value, head, position, new)

    return Edit(change)


def knock_out(query: int, key: int, *, head: int | None = None) -> Edit:
    """Hide one key from one query, as a mask would; for `attention.masked`, so that the other weights grow."""

    def change(path: str, value: Array) -> ArrayLike:
        if not path.endswith("masked"):
            raise ArgumentError("choice", name="the path of knock_out", choices="*.masked", value=path)
        for name, position, size in (("query", query, value.shape[-2]), ("key", key, value.shape[-1])):
            if not -size <= position < size:
                raise ArgumentError("number", name=name, expected=f"below {size}", value=position)
        cut = value.copy()
        (cut if head is None else _head(cut, head))[..., query, key] = -np.inf
        return cut

    return Edit(change)


def _head(value: Array, head: int) -> Array:
    n_heads = value.shape[-3] if value.ndim > 2 else 1
    if not 0 <= head < n_heads:
        raise ArgumentError("number", name="head", expected=f"from 0 to {n_heads - 1}", value=head)
    return value[..., head, :, :] if value.ndim > 2 else value


def _part(value: Array, head: int | None, position: int | None) -> Array:
    """One head of a value, one position of it, both, or all."""
    part = value if head is None else _head(value, head)
    if position is None:
        return part
    n = part.shape[-2] if part.ndim > 1 else 1
    if not -n <= position < n:
        raise ArgumentError("number", name="position", expected=f"from {-n} to {n - 1}", value=position)
    return part[..., position, :] if part.ndim > 1 else part


def _with_part(value: Array, head: int | None, position: int | None, new: ArrayLike) -> Array:
    changed = value.copy()
    _part(changed, head, position)[...] = new
    return changed


def _on_part(head: int | None, position: int | None, change: Change) -> Edit:
    if head is None and position is None:
        return Edit(lambda _, value: change(value))
    return Edit(lambda _, value: _with_part(value, head, position, change(_part(value, head, position))))


@dataclass
class _Editor:
    """The changes of one `edit`, and which of them were ever applied."""

    changes: Mapping[str, Change | Edit]
    fired: set[str] = field(default_factory=set)
    ran: dict[str, None] = field(default_factory=dict)

    def apply(self, path: str, value: Array) -> Array:
        self.ran[path] = None
        for pattern, change in self.changes.items():
            if matches(path, pattern):
                self.fired.add(pattern)
                value = self._changed(path, value, change)
        return value

    def _changed(self, path: str, value: Array, change: Change | Edit) -> Array:
        new = change.change(path, value) if isinstance(change, Edit) else change(value)
        given = np.asarray(new)
        if given.dtype.kind not in "biuf" and given.dtype != value.dtype:
            raise DtypeError("dtype", name=f"edit at {path!r}", expected="of real numbers", dtype=given.dtype)
        array = given.astype(value.dtype, copy=False)
        if array.shape != value.shape:
            raise WatchError("edit_shape", path=path, expected=value.shape, shape=array.shape)
        return array


@contextmanager
def edit(changes: Mapping[str, Change | Edit]) -> Iterator[None]:
    """Change values inside a block of code, each where an op returns it.

    Parameters
    ----------
    changes : mapping of path to function or Edit
        A path as a trace has it, or a pattern such as `"layers.*.attention.weights"`. One that names no step holds in
        every call of a model and every step of a generation. A function gets the value, which it must not write to, and
        returns one of the same shape. Ready ones: `edits.scale`, `zero`, `replacement`, `freeze`, `knock_out`.

    Raises
    ------
    WatchError
        When the block ends and a path was never computed, or a change returned another shape.

    Notes
    -----
    Everything can be observed, but a change is possible only where an op returns: in attention at `scores`, `capped`,
    `masked`, `weights` and `out`, in a layer at its last value. Nests: inner edits see what outer ones made.

    Examples
    --------
    >>> import qkv
    >>> q, k, v = [[0.0]], [[0.0], [0.0]], [[1.0], [3.0]]
    >>> with qkv.edit({"attention.masked": qkv.edits.knock_out(query=0, key=0)}):
    ...     qkv.attention(q, k, v)
    array([[3.]])
    """
    editor = _Editor(changes)
    watch = watching()
    token = watcher.set(replace(watch, editors=(*watch.editors, editor)))
    try:
        yield
    finally:
        watcher.reset(token)
    if silent := [path for path in changes if path not in editor.fired]:
        raise WatchError("never_fired", paths=", ".join(silent), near=near(silent[0], editor.ran))
