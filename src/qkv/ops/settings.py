"""How the fast path runs: tiles, threads, and a switch that forces one path. None of it changes a result
beyond rounding.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import Any

from ..errors import ArgumentError

PATHS = (None, "dense", "tiled")


@dataclass(frozen=True)
class Settings:
    """What `config` can set; None leaves the choice to the call.

    Attributes
    ----------
    threads : int or None
        By default `QKV_NUM_THREADS`, else the setting of NumPy's BLAS, else the cores the process may use.
    query_tile, key_tile : int or None
        Rows and columns of a tile of scores. By default about a megabyte, which stays in a core's own cache.
    force : "dense", "tiled" or None
        Take that path, however small the call. Whoever watches or asks for the weights gets "dense" all the same.
    """

    threads: int | None = None
    query_tile: int | None = None
    key_tile: int | None = None
    force: str | None = None


_settings: ContextVar[Settings] = ContextVar("qkv_settings", default=Settings())  # noqa: B039 - frozen


def settings() -> Settings:
    """The settings in force here."""
    return _settings.get()


@contextmanager
def config(**changes: Any) -> Iterator[Settings]:
    """Set how the fast path runs, inside a `with` block and in this thread or task only.

    Parameters
    ----------
    **changes
        `threads`, `query_tile`, `key_tile` or `force`: see `Settings`.

    Returns
    -------
    context manager
        It gives the settings that hold inside.

    Raises
    ------
    ArgumentError

    Examples
    --------
    >>> with config(threads=1, query_tile=64) as inside:
    ...     inside.threads, inside.key_tile
    (1, None)
    """
    known = {field.name for field in fields(Settings)}
    for name, value in changes.items():
        if name not in known:
            raise ArgumentError("choice", name="config", choices=", ".join(sorted(known)), value=name)
        if name == "force":
            if value not in PATHS:
                raise ArgumentError("choice", name=name, choices=", ".join(map(repr, PATHS)), value=value)
        elif value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise ArgumentError("number", name=name, expected="a count of at least 1, or None", value=value)
    token = _settings.set(replace(_settings.get(), **changes))
    try:
        yield _settings.get()
    finally:
        _settings.reset(token)


def asked_threads() -> int | None:
    """The number of threads that was asked for: in `config`, else in the environment."""
    if (threads := settings().threads) is not None:
        return threads
    given = os.environ.get("QKV_NUM_THREADS", "").strip()
    if not given:
        return None
    if not given.isdecimal() or int(given) < 1:
        raise ArgumentError("number", name="QKV_NUM_THREADS", expected="a count of at least 1", value=given)
    return int(given)


def allowed_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
