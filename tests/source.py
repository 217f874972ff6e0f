"""The source of the package as syntax trees, for the tests of the house."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import qkv
import qkv.layers
import qkv.models
from qkv.contract import OPS, Op

PACKAGE = Path(qkv.__file__).parent
Function = ast.FunctionDef | ast.AsyncFunctionDef
WATCHED = sorted(name for name, op in OPS.items() if op.axes)


def files(*parts: str) -> list[Path]:
    """The modules of some parts of the package (`ops`, `errors.py`), or all of them."""
    found = [PACKAGE / part for part in parts] or [PACKAGE]
    return sorted(file for path in found for file in (path.rglob("*.py") if path.is_dir() else [path]))


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def nodes(*parts: str) -> Iterator[ast.AST]:
    return (node for file in files(*parts) for node in ast.walk(tree(file)))


def constants(*parts: str) -> set[str]:
    """Every string that is written in some parts of the package."""
    return {node.value for node in nodes(*parts) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def pieces(node: ast.JoinedStr) -> list[str | None]:
    """An f-string as its texts, None for each value between them."""
    return [str(part.value) if isinstance(part, ast.Constant) else None for part in node.values]


def literals(node: ast.expr | None) -> list[str]:
    """The strings that an expression may be, `{}` for each value in them."""
    if isinstance(node, ast.IfExp):
        return literals(node.body) + literals(node.orelse)
    if isinstance(node, ast.BoolOp):
        return [text for value in node.values for text in literals(value)]
    if isinstance(node, ast.JoinedStr):
        return ["".join("{}" if piece is None else piece for piece in pieces(node))]
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def callee(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def function_of(op: Op) -> Function:
    """The definition of an op. A code object begins at the first decorator."""
    for node in ast.walk(tree(Path(op.code.co_filename))):
        if isinstance(node, Function) and node.name == op.code.co_name and node.lineno >= op.code.co_firstlineno:
            first = min(line.lineno for line in (node, *node.decorator_list))
            if first == op.code.co_firstlineno:
                return node
    raise LookupError(op.name)


def parameters(op: Op) -> tuple[str, ...]:
    return op.code.co_varnames[: op.code.co_argcount + op.code.co_kwonlyargcount]


def bindings(body: list[ast.stmt], name: str) -> int:
    """How often a run through `body` can give `name` a value: of an if and its else only one is run."""
    total = 0
    for statement in body:
        if isinstance(statement, ast.If):
            total += max(bindings(statement.body, name), bindings(statement.orelse, name))
        elif isinstance(statement, Function):
            total += statement.name == name
        else:
            total += sum(target == name for target in _targets(statement))
            if isinstance(statement, ast.For | ast.While):  # once more in the second round
                total += sum(target == name for part in statement.body for target in _targets(part))
    return total


def _targets(node: ast.AST) -> Iterator[str]:
    """Names that a statement and what stands in it give a value to; what stands in a comprehension stays there."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.Lambda):
            yield from _targets(child)


def docstring(op: Op) -> str:
    """What is written of an op where its user reads it."""
    return inspect.getdoc(qkv.attention) or "" if op.name == "attention" else ast.get_docstring(function_of(op)) or ""


def sections(text: str) -> dict[str, list[str]]:
    """A numpydoc docstring by its headings; what stands in front of them under an empty one."""
    lines = text.splitlines()
    found: dict[str, list[str]] = {"": []}
    heading = ""
    for number, line in enumerate(lines):
        under = lines[number + 1] if number + 1 < len(lines) else ""
        if line and under and set(under) == {"-"}:
            heading = line
            found[heading] = []
        elif not (line and set(line) == {"-"}):
            found[heading].append(line)
    return found


def entries(lines: list[str]) -> dict[str, str]:
    """The names of a Parameters, Attributes or Returns section with their types; a type without a name under ''."""
    found = {}
    for line in lines:
        if line and not line.startswith(" "):
            names, colon, kind = line.partition(" : ")
            if colon or not line.startswith("("):
                found.update(dict.fromkeys((name.strip() for name in names.split(", ")), kind))
            else:
                found[""] = line
    return found


def axes_in(kind: str) -> tuple[str, ...] | None:
    """The axes with which a type begins, `(..., H, Tq, d_k) ndarray`; None if it names none."""
    inside = kind[1 : kind.index(")")] if kind.startswith("(") and ")" in kind else ""
    axes = tuple("..." if axis.strip().startswith("*") else axis.strip() for axis in inside.split(",") if axis.strip())
    return axes if set(axes) - {"..."} else None
