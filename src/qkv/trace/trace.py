"""What a run computed: every value under its path, in the order in which it came to be."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  (teaches NumPy, and so safetensors, the name bfloat16)
import numpy as np
from rich.cells import cell_len, set_cell_size
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from .. import words
from ..errors import FileError, WatchError
from ..io.files import existing, parse_json
from ..io.whole import write_whole
from ..ops.precision import Array

FORMAT = "qkv trace 1"
STEP = re.compile(r"^(step(#\d+)?\.\d+|#\d+)\.")  # of a generation; of a second call of a model


@dataclass(frozen=True)
class Entry:
    """One value of a run.

    Attributes
    ----------
    path : str
        Where it was computed: `layers.0.attention.weights`.
    op, name : str
        The op and the variable, under which it is explained.
    axes : tuple of str
        One name per axis, outermost first.
    value : ndarray
    """

    path: str
    op: str
    name: str
    axes: tuple[str, ...]
    value: Array

    @property
    def formula(self) -> str:
        """The line that computed it; empty for an input."""
        return words.formula(self.op, self.name)

    def meaning(self, lang: str | None = None) -> str:
        """What the value means, in a sentence."""
        sizes = dict(zip(self.axes, self.value.shape))
        return words.meaning(self.op, self.name, words.language(lang), sizes)


class Trace(Mapping[str, Array]):
    """A mapping of paths to values, in the order of computation.

    Examples
    --------
    >>> import qkv
    >>> with qkv.record() as trace:
    ...     out = qkv.attention([[1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], [[1.0], [2.0]])
    >>> list(trace)
    ['attention.q', 'attention.k', 'attention.v', 'attention.scores', 'attention.weights', 'attention.out']
    >>> trace["attention.weights"].round(3)
    array([[0.67, 0.33]])
    """

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}

    def __getitem__(self, path: str) -> Array:
        return self.entry(path).value

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"<Trace of {len(self)} values>"

    def entry(self, path: str) -> Entry:
        """The value at `path` with its axes.

        Raises
        ------
        WatchError
            When nothing was computed there; it names what is near.
        """
        if not isinstance(path, str) or path not in self.entries:
            raise WatchError("no_entry", path=path, near=near(path, self.entries))
        return self.entries[path]

    def table(self, lang: str | None = None) -> str:
        """Step, formula, axes, shape and range of every value, as text in aligned columns."""
        lang = words.language(lang)
        rows = [[words.say(f"table.{head}", lang) for head in ("step", "formula", "axes", "shape", "range")]]
        for entry in self.entries.values():
            shape = "(" + ", ".join(map(str, entry.value.shape)) + ")"
            rows.append([entry.path, entry.formula, " ".join(entry.axes), shape, value_range(entry.value)])
        widths = [max(map(cell_len, column)) for column in zip(*rows)]
        return "\n".join("  ".join(map(set_cell_size, row, widths)).rstrip() for row in rows)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all values to a safetensors file, their axes and order as JSON in its header.

        The file appears whole or not at all.
        """
        steps = [{"path": e.path, "op": e.op, "name": e.name, "axes": e.axes} for e in self.entries.values()]
        tensors = {e.path: np.asarray(e.value, order="C") for e in self.entries.values()}
        data = save(tensors, metadata={"format": FORMAT, "steps": json.dumps(steps)})
        write_whole(path, data)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """Read what `save` wrote.

        Raises
        ------
        FileError
            When the file is missing, damaged or no trace.
        """
        path = existing(Path(path))
        try:
            with safe_open(path, framework="np") as file:
                about = file.metadata() or {}
                values = {name: np.asarray(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118  # no dict
        except OSError as error:
            raise FileError("cannot_read", path=path, reason=error.strerror) from None
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            raise FileError("damaged", path=path, reason=str(error)) from None
        if about.get("format") != FORMAT:
            raise FileError("not_a_file", path=path, kind="trace of qkv")
        steps = parse_json(path, about.get("steps", ""), list)
        paths = [step["path"] for step in steps if _is_step(step, values)]
        if len(paths) < len(steps) or sorted(paths) != sorted(values):
            raise FileError("damaged", path=path, reason="its steps do not fit its tensors")
        trace = cls()
        for step in steps:
            name = step["path"]
            trace.entries[name] = Entry(name, step["op"], step["name"], tuple(step["axes"]), values[name])
        return trace


def _is_step(step: Any, values: Mapping[str, Array]) -> bool:
    """Whether a step of a file says what it has to say of one of the file's tensors."""
    if not isinstance(step, dict) or not all(isinstance(step.get(key), str) for key in ("path", "op", "name")):
        return False
    axes: Any = step.get("axes")
    if not isinstance(axes, list) or not all(isinstance(axis, str) for axis in axes):
        return False
    return step["path"] in values and values[step["path"]].ndim == len(axes)


def matches(path: str, pattern: str) -> bool:
    """Whether a path fits a pattern, written out or as file names do it.

    What names no call of a model holds in all of its calls, and in each step of a generation.

    Examples
    --------
    >>> matches("step.3.layers.0.attention.weights", "layers.*.weights")
    True
    >>> matches("step.3.layers.0.attention.weights", "step.4.*")
    False
    """
    return any(pattern == one or fnmatchcase(one, pattern) for one in {path, within_step(path)})


def within_step(path: str) -> str:
    """A path as the first call of a model would have it.

    Examples
    --------
    >>> within_step("step#2.3.layers.0.resid_mid"), within_step("attention.out")
    ('layers.0.resid_mid', 'attention.out')
    """
    return STEP.sub("", path)


def near(path: object, known: Any) -> str:
    """A few known paths that look like `path`."""
    known = list(known)
    close = difflib.get_close_matches(str(path), known, n=3, cutoff=0.5) or known[:3]
    return ", ".join(close) or "nothing"


def value_range(value: Array) -> str:
    """Smallest to largest, and how many are not finite."""
    if not value.size:
        return "empty"
    if value.dtype.kind in "biu":
        return f"{value.min()} .. {value.max()}"
    wide = value.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    shown = f"{finite.min():.4g} .. {finite.max():.4g}" if finite.size else "none finite"
    special = [f"{n} {what}" for what, n in (
        ("nan", np.isnan(wide).sum()), ("-inf", np.isneginf(wide).sum()), ("+inf", np.isposinf(wide).sum())
    ) if n]  # fmt: skip
    return ", ".join([shown, *special])
