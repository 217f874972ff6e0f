"""One argument, checked: what cannot be right is one line that names it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import ArgumentError


def is_integer(value: object) -> bool:
    """Whether it is Python's or NumPy's integer; True and False are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def integer(name: str, value: Any, least: int) -> int:
    """An integer of at least `least`.

    Raises
    ------
    ArgumentError

    Examples
    --------
    >>> integer("n_heads", np.int64(3), 1)
    3
    """
    if not is_integer(value) or value < least:
        raise ArgumentError("number", name=name, expected=f"an integer of at least {least}", value=value)
    return int(value)


def truth(name: str, value: Any) -> bool:
    """True or False. Nothing else counts as one, for `"no"` would be true."""
    if not isinstance(value, bool | np.bool_):
        raise ArgumentError("number", name=name, expected="True or False", value=value)
    return bool(value)


def finite(name: str, value: Any) -> float:
    """A number that is neither infinite nor NaN."""
    if type(value) is float and math.isfinite(value):  # nearly always, and asked for each token
        return value
    try:  # an older NumPy takes an array of one number for a number
        is_finite = np.ndim(value) == 0 and math.isfinite(value)
    except (TypeError, ValueError, OverflowError):
        is_finite = False
    if not is_finite:
        raise ArgumentError("number", name=name, expected="a finite number", value=value)
    return float(value)


def positive(name: str, value: Any) -> float:
    """A finite number above 0."""
    if finite(name, value) <= 0:
        raise ArgumentError("number", name=name, expected="a number above 0", value=value)
    return float(value)


def not_negative(name: str, value: Any) -> float:
    """A finite number of at least 0."""
    if finite(name, value) < 0:
        raise ArgumentError("number", name=name, expected="a number of at least 0", value=value)
    return float(value)


def axis_of(axis: Any, n_axes: int) -> int:
    """An axis of an array that has so many, counted from 0; a single number counts as one axis.

    Examples
    --------
    >>> axis_of(-1, 3)
    2
    """
    n_axes = max(n_axes, 1)
    if not is_integer(axis) or not -n_axes <= axis < n_axes:
        raise ArgumentError("number", name="axis", expected=f"an integer from {-n_axes} to {n_axes - 1}", value=axis)
    return int(axis) % n_axes


def axes_of(axis: Any, n_axes: int) -> tuple[int, ...]:
    """One axis or several different ones, in order and counted from 0.

    Examples
    --------
    >>> axes_of((-1, 0), 3)
    (0, 2)
    """
    if is_integer(axis):
        return (axis_of(axis, n_axes),)
    axes = sorted(axis_of(a, n_axes) for a in (axis if isinstance(axis, tuple) else (axis,)))
    if len(set(axes)) < len(axes):
        raise ArgumentError("number", name="axis", expected="an axis, or different ones", value=axis)
    return tuple(axes)
