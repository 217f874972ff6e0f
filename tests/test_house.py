"""The rules of the house that a reader relies on, and that no type checker knows."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import subprocess
import sys

import pytest
from tests.source import (
    PACKAGE,
    WATCHED,
    axes_in,
    bindings,
    docstring,
    entries,
    files,
    function_of,
    parameters,
    sections,
)

import qkv
import qkv.layers
import qkv.ops
from qkv.contract import OPS

CJK = re.compile("[\u3000-\u303f\u3400-\u9fff\uff00-\uffef]")
FACE = [
    "QkvError", "Trace", "attention", "attention_backward", "attention_chunks", "biases", "check", "compare", "config",
    "cross_entropy", "edit", "edits", "explain",
    "first_difference", "gelu", "layer_norm", "layers", "load", "log_softmax", "logsumexp", "masks", "ops", "record",
    "rms_norm", "rope", "scaled_dot_product_attention", "see", "silu", "sinusoidal_positions", "softmax",
]  # fmt: skip
# Its mean over the targets is one number, which no edit can reach.
RETURNS_A_NUMBER = {"cross_entropy"}
FUNCTIONS = sorted(name for name in qkv.ops.__all__ if inspect.isfunction(getattr(qkv.ops, name)))
PARTS = sorted(name for name in qkv.layers.__all__ if dataclasses.is_dataclass(getattr(qkv.layers, name)))


def test_the_mathematics_speaks_no_language():
    spoken = [
        f"{file.relative_to(PACKAGE)}:{number}"
        for file in files("errors.py", "contract.py", "ops", "layers", "io", "models")
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if CJK.search(line)
    ]
    assert spoken == []


# the public face


def test_the_public_face_is_pinned():
    assert sorted(qkv.__all__) == FACE
    assert len(FACE) <= 30


@pytest.mark.parametrize("name", FACE)
def test_everything_public_can_be_had(name):
    assert getattr(qkv, name) is not None
    assert name in dir(qkv)


def test_import_qkv_loads_only_the_mathematics():
    program = "import sys; before = set(sys.modules); import qkv; print(*sorted(set(sys.modules) - before))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = run.stdout.split()
    foreign = {name.split(".")[0] for name in loaded} - set(sys.stdlib_module_names)
    assert {name for name in foreign if not name.startswith("_")} == {"qkv", "numpy", "ml_dtypes"}
    assert {name.split(".")[1] for name in loaded if name.startswith("qkv.")} == {"contract", "errors", "ops"}


# what @op declares


@pytest.mark.parametrize("name", WATCHED)
def test_a_watched_name_is_bound_once(name):
    """A watcher reads a variable once, so a second value would never be seen. A parameter may be converted once."""
    body = function_of(OPS[name]).body
    assert [variable for variable in OPS[name].axes if bindings(body, variable) > 1] == []


@pytest.mark.parametrize("name", WATCHED)
def test_an_op_returns_the_last_name_it_declares(name):
    """An edit at the end of an op's path changes what the op returns. Parts of a tuple are edited in its steps."""
    returns = [node.value for node in ast.walk(function_of(OPS[name])) if isinstance(node, ast.Return)]
    assert returns
    if not any(isinstance(value, ast.Tuple) for value in returns):
        names, last = {returned_name(value) for value in returns}, list(OPS[name].axes)[-1]
        assert last in names if name in RETURNS_A_NUMBER else names == {last}


def returned_name(node: ast.expr | None) -> str | None:
    """x for `x`, `x[...]` and `x.astype(...)`."""
    while isinstance(node, ast.Subscript) or (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        node = node.value if isinstance(node, ast.Subscript) else node.func.value
    return node.id if isinstance(node, ast.Name) else None


# docstrings


def declared_and_documented() -> list[tuple[str, str]]:
    """Every op's variables whose docstring gives a shape."""
    found = []
    for name in WATCHED:
        parts = sections(docstring(OPS[name]))
        given = entries(parts.get("Parameters", [])) | entries(parts.get("Returns", []))
        last = list(OPS[name].axes)[-1]
        given = {variable or last: kind for variable, kind in given.items()}
        found += [(name, variable) for variable in OPS[name].axes if axes_in(given.get(variable, ""))]
    return found


SHAPES = declared_and_documented()


def test_docstrings_give_shapes():
    assert {("attention", variable) for variable in ("q", "k", "v", "weights", "out")} <= set(SHAPES)
    assert ("swiglu", "out") in SHAPES


@pytest.mark.parametrize(("name", "variable"), SHAPES)
def test_a_docstring_gives_the_axes_that_are_declared(name, variable):
    parts, declared = sections(docstring(OPS[name])), OPS[name].axes
    written = entries(parts.get("Parameters", [])) | entries(parts.get("Returns", []))
    kind = written.get(variable) or written[""]
    assert axes_in(kind) == tuple("..." if axis.startswith("*") else axis for axis in declared[variable])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_operation_documents_its_arguments_its_result_and_an_example(name):
    function = getattr(qkv.ops, name)
    parts = sections(inspect.getdoc(function) or "")
    assert parts.keys() >= {"", "Parameters", "Returns", "Examples"}
    assert set(entries(parts["Parameters"])) == {
        ("**" if p.kind is p.VAR_KEYWORD else "") + p.name for p in inspect.signature(function).parameters.values()
    }
    assert any(line.startswith(">>>") for line in parts["Examples"])


@pytest.mark.parametrize("module", [qkv.masks, qkv.biases], ids=lambda module: module.__name__)
def test_a_rule_on_positions_shows_an_example(module):
    public = [
        f for n, f in vars(module).items() if inspect.isfunction(f) and f.__module__ == module.__name__ and n[0] != "_"
    ]
    assert len(public) > 3
    assert [f.__name__ for f in public if ">>>" not in (inspect.getdoc(f) or "")] == []


@pytest.mark.parametrize("name", PARTS)
def test_a_part_documents_what_it_holds(name):
    part = getattr(qkv.layers, name)
    held = [field.name for field in dataclasses.fields(part) if not field.name.startswith("_")]
    assert set(entries(sections(inspect.getdoc(part) or "").get("Attributes", []))) == set(held)


def test_parameters_are_told_from_local_variables():
    assert parameters(OPS["layer_norm"]) == ("x", "gamma", "beta", "eps", "axis")
