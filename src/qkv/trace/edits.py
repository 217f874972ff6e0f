"""`qkv.edit`: change a value where an op returns it, and see what follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import ArrayLike

from ..contract import watcher
from ..errors import ArgumentError, DtypeError, WatchError
from ..ops.precision import Array
from .trace import Trace, near
from .watch import watching

__all__ = ["Edit", "edit", "freeze", "knock_out", "replacement", "scale", "zero"]

Change = Callable[[Array], ArrayLike]


@dataclass(frozen=True)
class Edit:
    """A change that also wants to know where it is applied."""

    change: Callable[[str, Array], ArrayLike]


def scale(factor: float, *, head: int | None = None) -> Edit:
    """Multiply a value, or one head of it (axis -3).

    Examples
    --------
    >>> scale(2.0).change("", np.ones(2))
    array([2., 2.])
    """
    return _on_head(head, lambda value: value * factor)


def zero(*, head: int | None = None) -> Edit:
    """Put zeros in the place of a value, or of one head of it: ablation."""
    return _on_head(head, np.zeros_like)


def replacement(value: ArrayLike, *, head: int | None = None) -> Edit:
    """Put another array, or a number, in the place of a value, or of one head of it."""
    return _on_head(head, lambda old: np.broadcast_to(np.asarray(value, old.dtype), old.shape))


def freeze(trace: Trace, *, head: int | None = None) -> Edit:
    """Put what another run computed at the same path in the place of a value: patching."""

    def change(path: str, value: Array) -> ArrayLike:
        other = trace[path]
        if other.shape != value.shape:
            raise WatchError("frozen", path=path, other_shape=other.shape, shape=value.shape)
        return other if head is None else _with_head(value, head, _head(other, head))

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


def _with_head(value: Array, head: int, new: ArrayLike) -> Array:
    changed = value.copy()
    _head(changed, head)[...] = new
    return changed


def _on_head(head: int | None, change: Change) -> Edit:
    if head is None:
        return Edit(lambda _, value: change(value))
    return Edit(lambda _, value: _with_head(value, head, change(_head(value, head))))


@dataclass
class _Editor:
    """The changes of one `edit`, and which of them were ever applied."""

    changes: Mapping[str, Change | Edit]
    fired: set[str] = field(default_factory=set)
    ran: dict[str, None] = field(default_factory=dict)

    def apply(self, path: str, value: Array) -> Array:
        self.ran[path] = None
        for pattern, change in self.changes.items():
            if pattern == path or fnmatchcase(path, pattern):
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
        A path as a trace has it, or a pattern such as `"layers.*.attention.weights"`. A function gets the value, which
        it must not write to, and returns one of the same shape. Ready ones: `edits.scale`, `zero`, `replacement`,
        `freeze`, `knock_out`.

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
