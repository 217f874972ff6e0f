"""Where chat templates run: a template is a program, and comes with a model that anybody may have made (Jinja2)."""

from __future__ import annotations

import datetime
import functools
import json
import math
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from ...errors import MissingExtraError

SECONDS = 2.0  # of the processor; a long chat takes a hundredth of that
LONGEST = 1 << 24  # characters of a chat
LARGEST = 1 << 20  # of what says how wide, how often
REPEATED = 1 << 10  # parts of a list that is repeated
MOST = 1 << 28  # characters that one call may put together
# Calls that make long texts of a width, and of a text for each part of another.
WIDENING = frozenset(
    ["center", "expandtabs", "format", "indent", "ljust", "rjust", "round", "tojson", "wordwrap", "zfill"]
)
JOINING = frozenset(["indent", "join", "replace", "translate"])
WIDE = re.compile(r"%[^%\s]*(\d{6}|\*)|\{[^{}]*(\d{6}|\{)")  # a format with a large width, or one that comes later


def rendered(source: str, values: dict[str, Any]) -> str:
    """What a template makes of values.

    Raises
    ------
    MissingExtraError
        When Jinja2 is not installed.
    Exception
        Whatever the template does; OverflowError and TimeoutError for what would take too much memory or time.
    """
    environment = _sandbox()
    pieces, size = [], 0
    with _hurried():
        for piece in environment.from_string(source).generate(**values):
            pieces.append(piece)
            size += len(piece)
            _check_length(size)
    return "".join(pieces)


def _joined(parts: Iterable[Any]) -> str:
    """Parts one after the other, as text."""
    texts = [str(part) for part in parts]
    _check_length(sum(map(len, texts)))
    return "".join(texts)


def _check_length(length: int) -> None:
    if length > LONGEST:
        raise OverflowError(f"more than {LONGEST} characters")


@contextmanager
def _hurried() -> Iterator[None]:
    """Whatever of Python runs inside is stopped after a while; a debugger sees nothing of it."""
    before, last = sys.gettrace(), time.thread_time() + SECONDS

    def watch(frame: FrameType, event: str, value: Any) -> Any:
        if time.thread_time() > last:
            raise TimeoutError(f"more than {SECONDS:g} s of computing")
        return watch

    sys.settrace(watch)
    try:
        yield
    finally:
        sys.settrace(before)


def _sandbox() -> Any:
    """As the templates of transformers run: without access to anything but what they are given."""
    try:
        from jinja2 import nodes
        from jinja2.exceptions import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
        from jinja2.visitor import NodeTransformer
    except ImportError:
        raise MissingExtraError("extra", package="jinja2", extra="models") from None

    class Joins(NodeTransformer):
        """a ~ b, which nothing could look at, as a filter."""

        def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:
            parts = nodes.List([self.visit(part) for part in node.nodes])
            return nodes.Filter(parts, _joined.__name__, [], [], None, None, lineno=node.lineno)

    class Sandbox(ImmutableSandboxedEnvironment):
        """One in which no single step makes something huge of something small."""

        intercepted_binops = frozenset(["+", "*", "**", "%"])
        concat = staticmethod(_joined)  # of blocks and macros

        def _parse(self, *args: Any) -> Any:
            return Joins().visit(super()._parse(*args))

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            _check_operator(operator, left, right)
            return super().call_binop(context, operator, left, right)

        def call(self, context: Any, called: Any, *args: Any, **named: Any) -> Any:
            method = getattr(called, "__wrapped__", called)  # of `format`, Jinja2 has its own
            _check_call(getattr(method, "__name__", ""), getattr(method, "__self__", None), *args, *named.values())
            return super().call(context, called, *args, **named)

    def raise_exception(reason: str) -> None:
        raise TemplateError(reason)

    def tojson(value: Any, indent: int | None = None) -> str:
        return json.dumps(value, ensure_ascii=False, indent=indent)

    environment = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    environment.filters |= {"tojson": tojson, _joined.__name__: _joined}
    environment.filters |= {name: _checked(name, function) for name, function in environment.filters.items()}
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    del environment.globals["lipsum"]  # text without end
    return environment


def _checked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that is called only after a look at what it is given."""

    @functools.wraps(function)
    def checked(*args: Any, **named: Any) -> Any:
        _check_call(name, *args, *named.values())
        return function(*args, **named)

    return checked


def _check_call(name: str, *given: Any) -> None:
    """No call makes something huge of a large width, or of a long text for each part of another.

    Examples
    --------
    >>> _check_call("center", "a", 80)
    >>> _check_call("center", "a", 10**9)
    Traceback (most recent call last):
        ...
    OverflowError: center makes too long a text
    """
    numbers = [value for value in given[1:] if isinstance(value, int | float)]
    lengths = sorted(len(value) for value in given if isinstance(value, str | list | tuple | dict))
    is_long = (
        (name in WIDENING and any(abs(number) > LARGEST for number in numbers))
        or (name in JOINING and math.prod(length + 1 for length in lengths[-2:]) > MOST)
        or (name in ("format", "format_map") and any(isinstance(text, str) and WIDE.search(text) for text in given))
    )
    if is_long:
        raise OverflowError(f"{name} makes too long a text")


def _check_operator(operator: str, left: Any, right: Any) -> None:
    """A product, a power or a formatted text is no larger than what is kept easily."""
    if operator == "%" and isinstance(left, str):
        _check_call("format", left, *(right if isinstance(right, tuple) else (right,)))
    if operator == "+" and hasattr(left, "__len__") and hasattr(right, "__len__"):
        _check_length(len(left) + len(right))
    sizes = [len(x) if hasattr(x, "__len__") else abs(x) if isinstance(x, int) else 1 for x in (left, right)]
    kinds = {type(left), type(right)}
    largest = LARGEST if str in kinds else REPEATED if kinds & {list, tuple} else 2**64
    if operator == "*" and math.prod(sizes) > largest:
        raise OverflowError("too large a product")
    if operator == "**" and sizes[1] > 64:
        raise OverflowError("too large a power")
