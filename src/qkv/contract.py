"""`@op`: what the arrays of a function are called, and the one place where somebody may watch it.

The formulas stay free of hooks. The decorator only declares: these local variables have these axes.
While nobody watches, a call costs one look at a context variable.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import CodeType
from typing import Any, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Op:
    """A function whose values may be seen.

    Attributes
    ----------
    name : str
        The key under which its values are explained: `attention` in `attention.weights`.
    axes : mapping of str to tuple of str
        The axes of each declared variable, outermost first; a name with a star stands for any number of axes.
    code : code object
        The body, by which a watcher recognises its frame.
    path : str
        What a call adds to the path of its caller. Empty: nothing.
    kernel : str or None
        The op that this one dresses with weights: its values appear under the same path.
    step : str or None
        The variable of the calling op that this op's result is: one line of its formula, where an edit may cut in.
    """

    name: str
    axes: Mapping[str, tuple[str, ...]]
    code: CodeType
    path: str
    kernel: str | None
    step: str | None


class Watcher(Protocol):
    """Somebody who sees every call of an op and may change what it returns."""

    @property
    def editors(self) -> Sequence[object]: ...

    def call(self, op: Op, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...

    def within(self, run: object, name: str, number: int) -> Watcher: ...


watcher: ContextVar[Watcher | None] = ContextVar("qkv_watcher", default=None)
OPS: dict[str, Op] = {}


@contextmanager
def step(run: object, number: int, name: str = "step") -> Iterator[None]:
    """What is computed inside is a step of a longer run: its paths begin with `step.<number>`.

    Parameters
    ----------
    run : object
        One for all steps; another run in the same block gets `#2` behind the name.
    number : int
    name : str
    """
    watching = watcher.get()
    if watching is None:
        yield
        return
    token = watcher.set(watching.within(run, name, number))
    try:
        yield
    finally:
        watcher.reset(token)


def is_edited() -> bool:
    """Whether somebody may change what ops return now: what is computed then must not be used afterwards."""
    watching = watcher.get()
    return watching is not None and len(watching.editors) > 0


def op(
    *, name: str | None = None, path: str | None = None, kernel: str | None = None, step: str | None = None, **axes: str
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare the axes of a function's variables.

    Parameters
    ----------
    name, path, kernel, step : str, optional
        See `Op`. By default the function's own name, and that same word as its path.
    **axes : str
        For each variable its axes, separated by spaces, outermost first: `q="*B H Tq d_k"`.

    Raises
    ------
    NameError
        At import, when a declared name is no variable of the function.

    Examples
    --------
    >>> @op(x="*B n d", doubled="*B n d")
    ... def double(x):
    ...     doubled = x + x
    ...     return doubled
    >>> OPS.pop("double").axes["x"]
    ('*B', 'n', 'd')
    """

    def declare(function: Callable[P, R]) -> Callable[P, R]:
        code = function.__code__
        if unknown := sorted(axes.keys() - set(code.co_varnames) - set(code.co_cellvars)):
            raise NameError(f"{function.__qualname__} has no variable {', '.join(unknown)}")
        called = name or function.__name__
        own_path = path if path is not None else kernel or called
        declared = Op(called, {k: tuple(v.split()) for k, v in axes.items()}, code, own_path, kernel, step)
        if step is None:
            if called in OPS and OPS[called].code.co_qualname != code.co_qualname:
                raise NameError(f"two ops are called {called}")
            OPS[called] = declared

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            watching = watcher.get()
            if watching is None:
                return function(*args, **kwargs)
            return watching.call(declared, function, args, kwargs)

        call.op = declared  # type: ignore[attr-defined]
        return call

    return declare
