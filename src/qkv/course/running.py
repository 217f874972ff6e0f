"""The lines of a question, run one by one, so that each can be shown with its value."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

import qkv

LONGEST = 48  # characters of an array that is written out
DIGITS = 4


@dataclass(frozen=True)
class Line:
    """A line of a computation, with what it gave, written; empty where it gave nothing to see."""

    code: str
    value: str = ""


def namespace(rng: np.random.Generator) -> dict[str, Any]:
    """What the lines of a question know, see `qkv.course`."""

    def pick(*choices: Any) -> Any:
        return choices[int(rng.integers(len(choices)))]

    return {"np": np, "qkv": qkv, "rng": rng, "pick": pick}


def run_lines(source: str, space: dict[str, Any]) -> tuple[Line, ...]:
    """Run lines of Python in a namespace. They come with the package, so they are trusted.

    Examples
    --------
    >>> run_lines("x = np.arange(3)\\ntotal = x.sum()", namespace(np.random.default_rng(0)))
    (Line(code='x = np.arange(3)', value='[0, 1, 2]'), Line(code='total = x.sum()', value='3'))
    """
    lines = []
    for statement in ast.parse(source).body:
        code = ast.get_source_segment(source, statement) or ""
        exec(compile(ast.Module([statement], []), "<question>", "exec"), space)
        space.pop("__builtins__", None)
        *before, last = code.split("\n")
        lines += [*map(Line, before), Line(last, ", ".join(written(space[name]) for name in _bound(statement)))]
    return tuple(lines)


def _bound(statement: ast.stmt) -> list[str]:
    """The names that a line gives a value to; of a block, those of its last line."""
    if isinstance(statement, ast.With):
        return _bound(statement.body[-1])
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    return [name.id for name in names if isinstance(name, ast.Name)]


def written(value: Any) -> str:
    """A value as it stands in a sentence: rounded, a large array by its shape.

    Examples
    --------
    >>> written(np.array([1.0, 2.5])), written(np.zeros((7, 9))), written(2 / 3), written((np.int64(2), 3))
    ('[1, 2.5]', 'shape (7, 9)', '0.6667', '(2, 3)')
    """
    if isinstance(value, np.ndarray) and value.ndim:
        text = "[" + ", ".join(written(item) for item in value) + "]" if value.size <= LONGEST else ""
        return text if 0 < len(text) <= LONGEST else f"shape {tuple(value.shape)}"
    if isinstance(value, tuple):
        return "(" + ", ".join(written(item) for item in value) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, np.ndarray | np.generic):
        return written(value.item())
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.{DIGITS}g}" if 0 < abs(value) < 10**-DIGITS else _rounded(value)
    return str(value)


def _rounded(value: float) -> str:
    text = f"{value:.{DIGITS}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
