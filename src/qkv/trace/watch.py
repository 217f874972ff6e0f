"""Watching ops run: where a call stands in the tree of calls, what it has computed so far, who changes it.

While somebody watches, an op runs under a profile function of this thread that notes its frame. The declared local
variables are read from that frame whenever an inner op is called and once more at the return, so values come in the
order of the formula's lines.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass, replace
from types import FrameType
from typing import Any, Protocol

import numpy as np

from ..contract import Op, watcher
from ..errors import WatchError
from ..ops.precision import Array
from .trace import Entry


class Recorder(Protocol):
    """Somebody who keeps values."""

    def add(self, entry: Entry) -> None: ...


class Editor(Protocol):
    """Somebody who changes values: gets a path and what is there, gives what shall be there."""

    def apply(self, path: str, value: Array) -> Array: ...


@dataclass
class Place:
    """One call of an op, while it runs."""

    path: str
    op: Op | None = None
    part: object = None
    parent: Place | None = None
    frame: FrameType | None = None
    counts: dict[str, int] = field(default_factory=dict)
    seen: dict[str, Array] = field(default_factory=dict)
    sizes: dict[str, tuple[int, str]] = field(default_factory=dict)
    steps: set[str] = field(default_factory=set)
    runs: dict[str, list[object]] = field(default_factory=dict)

    @property
    def is_outermost(self) -> bool:
        return self.parent is None or self.parent.op is None

    @property
    def last(self) -> str | None:
        """The variable that the op returns: the last one it declares."""
        return next(reversed(list(self.op.axes)), None) if self.op is not None else None

    def under(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def inner_path(self, op: Op, part: object) -> str:
        """The path of a call from here: a part's field in the part above it, else the op's own word."""
        if self.op is not None and self.op.kernel == op.name and not self.counts.get(op.name):
            self.counts[op.name] = 1
            return self.path
        name = (self._field_of(part) if part is not None else None) or op.path
        self.counts[name] = self.counts.get(name, 0) + 1
        if self.counts[name] > 1:
            name = f"{name}#{self.counts[name]}"
        return self.under(name) if name else self.path

    def _field_of(self, part: object) -> str | None:
        place: Place | None = self
        while place is not None and place.part is None:
            place = place.parent
        if place is None:
            return None
        return next((name for name, value in members(place.part) if value is part), None)


def members(part: object) -> Iterator[tuple[str, object]]:
    """The parts that a part holds, by field name; those in a list by name and number."""
    if not is_dataclass(part):
        return
    for f in fields(part):
        value = getattr(part, f.name)
        if isinstance(value, list | tuple):
            yield from ((f"{f.name}.{i}", item) for i, item in enumerate(value))
        else:
            yield f.name, value


@dataclass(frozen=True)
class Watch:
    """All who watch in this context, and where in the tree of calls it stands."""

    recorders: tuple[Recorder, ...] = ()
    editors: tuple[Editor, ...] = ()
    place: Place = field(default_factory=lambda: Place(""))

    def call(self, op: Op, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an op: keep what it computes, and let the editors change what it returns."""
        self._keep_so_far(self.place)
        if op.step is not None:
            self.place.steps.add(op.step)
            return self._edited(self.place, op.step, function(*args, **kwargs))
        part = args[0] if op.code.co_varnames[:1] == ("self",) else None
        place = Place(self.place.inner_path(op, part), op, part, self.place)
        token = watcher.set(replace(self, place=place))
        try:
            result = self._run(place, function, args, kwargs) if self.recorders else function(*args, **kwargs)
        finally:
            watcher.reset(token)
            place.frame = None
        if place.last is not None and place.last not in place.steps and isinstance(result, np.ndarray):
            return self._edited(place, place.last, result)
        return result

    def within(self, run: object, name: str, number: int) -> Watch:
        """The same watchers at one step of a run, under a path of its own."""
        runs = self.place.runs.setdefault(name, [])
        if not any(run is known for known in runs):
            runs.append(run)
        place = next(i for i, known in enumerate(runs) if known is run)
        named = name if place == 0 else f"{name}#{place + 1}"
        return replace(self, place=Place(self.place.under(f"{named}.{number}")))

    def _run(self, place: Place, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        code = place.op.code if place.op else None

        def notice(frame: FrameType, event: str, _: object) -> None:
            if frame.f_code is not code:
                return
            if event == "call" and place.frame is None:
                place.frame = frame
            elif event == "return" and place.frame is frame:
                self._keep_so_far(place)

        before = sys.getprofile()
        sys.setprofile(notice)
        try:
            return function(*args, **kwargs)
        finally:
            sys.setprofile(before if callable(before) else None)

    def _keep_so_far(self, place: Place) -> None:
        """Keep the declared variables of a running op that are bound by now and were not kept before."""
        if not self.recorders or place.frame is None or place.op is None:
            return
        names = place.op.code.co_varnames[: place.op.code.co_argcount + place.op.code.co_kwonlyargcount]
        local = place.frame.f_locals
        for name in place.op.axes:
            value = local.get(name)
            if name in place.seen or not isinstance(value, np.ndarray | np.generic):
                continue
            if name in names:
                if place.is_outermost:  # an inner call's arguments are values that its caller already holds
                    self._keep(place, name, np.array(value))
            elif name == place.last or not any(value is other for other in place.seen.values()):
                self._keep(place, name, np.array(value), value)  # a copy: the caller may write to what it gets

    def _keep(self, place: Place, name: str, value: Array, identity: object = None) -> None:
        assert place.op is not None
        axes = bind(place, name, value)
        place.seen[name] = value if identity is None else identity  # type: ignore[assignment]
        for recorder in self.recorders:
            recorder.add(Entry(place.under(name), place.op.name, name, axes, value))

    def _edited(self, place: Place, name: str, value: Any) -> Any:
        """What the editors make of a value; kept again if they changed it."""
        path = place.under(name)
        edited = value
        for editor in self.editors:
            edited = editor.apply(path, edited)
        known = place.op is not None and name in place.op.axes
        if self.recorders and known and (edited is not value or name not in place.seen):
            same = any(edited is other for other in place.seen.values())
            if not same:
                place.seen.pop(name, None)
                self._keep(place, name, np.array(edited), edited)
        return edited


def bind(place: Place, name: str, value: Array) -> tuple[str, ...]:
    """The axis names of a value, after a check that each name means one size in all values of a call."""
    assert place.op is not None
    declared = place.op.axes[name]
    starred = bool(declared) and declared[0].startswith("*")
    named = declared[1:] if starred else declared
    if not starred and value.ndim != len(named):
        raise WatchError("rank", op=place.op.name, name=name, axes=" ".join(declared), shape=value.shape)
    named = named[max(0, len(named) - value.ndim) :]
    for axis, size in zip(named[::-1], value.shape[::-1]):
        first_size, where = place.sizes.setdefault(axis, (size, name))
        if size != first_size and 1 not in (size, first_size):
            raise WatchError(
                "contract", op=place.op.name, name=name, axis=axis, size=size, other=where, other_size=first_size
            )
    extra = value.ndim - len(named)
    star = declared[0][1:] if starred else ""
    lead = (star,) if extra == 1 else tuple(f"{star}{i + 1}" for i in range(extra))
    return lead + named


def watching() -> Watch:
    """Who watches in this context; nobody at first."""
    current: ContextVar[Any] = watcher
    found = current.get()
    return found if isinstance(found, Watch) else Watch()
