"""In which order to study the tasks: lists of names, kept as data."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from .tasks import names

ORDERS = ("course", "interview")


@cache
def listed() -> Mapping[str, list[str]]:
    """The orders as they are written."""
    return tomllib.loads(files(__package__).joinpath("orders.toml").read_text(encoding="utf-8"))


def order(name: str) -> tuple[str, ...]:
    """Every task once, in that order; those that it does not list come last.

    Examples
    --------
    >>> order("course")[0]
    'softmax'
    """
    wanted = [task for task in listed()[name] if task in names()]
    return (*wanted, *(task for task in names() if task not in wanted))
