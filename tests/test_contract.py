"""The declaration of an op: what it refuses, what it costs, what it catches."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import qkv
from qkv.contract import OPS, op, watcher
from qkv.errors import WatchError


@pytest.fixture(autouse=True)
def _registry() -> Iterator[None]:
    before = dict(OPS)
    yield
    OPS.clear()
    OPS.update(before)


def test_a_declared_name_that_is_no_variable() -> None:
    with pytest.raises(NameError, match=r"double has no variable doubeld, z$"):

        @op(x="n", doubeld="n", z="n")
        def double(x: Any) -> Any:
            doubled = x + x
            return doubled


def test_a_variable_that_an_inner_function_uses_is_one() -> None:
    @op(x="n", y="n")
    def closed_over(x: Any) -> Any:
        y = x + 1
        return (lambda: y)()

    with qkv.record() as trace:
        closed_over(np.ones(3))
    assert list(trace) == ["closed_over.x", "closed_over.y"]


def test_two_ops_of_one_name() -> None:
    def make() -> Any:
        @op(x="n")
        def twin(x: Any) -> Any:
            return x

        return twin

    make()
    make()  # the same function defined again, as a notebook does

    with pytest.raises(NameError, match=r"^two ops are called twin$"):

        @op(name="twin", x="n")
        def other(x: Any) -> Any:
            return x


def test_a_call_is_the_function_itself() -> None:
    @op(x="*B n")
    def same(x: Any, /, y: int = 2, *, z: int = 3) -> Any:
        """What it does."""
        return x, y, z

    assert same("x", z=5) == ("x", 2, 5)
    assert same.__doc__ == "What it does."
    assert same.__name__ == "same"
    assert str(inspect.signature(same)) == "(x: 'Any', /, y: 'int' = 2, *, z: 'int' = 3) -> 'Any'"
    assert same.op.axes == {"x": ("*B", "n")}
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        same()


def test_nobody_is_asked_while_nobody_watches() -> None:
    @op(x="rows columns")
    def unchecked(x: Any) -> Any:
        assert sys.getprofile() is None
        return x

    assert watcher.get() is None
    assert unchecked(3) == 3
    assert unchecked(np.ones(7)).shape == (7,), "the declared rank counts when somebody watches"


def test_axes_that_disagree() -> None:
    @op(x="n d", y="n d", out="n d")
    def wrong(x: Any, y: Any) -> Any:
        out = x[:2]
        return out

    with pytest.raises(WatchError) as error, qkv.record():
        wrong(np.ones((5, 3)), np.ones((7, 3)))
    assert str(error.value) == "wrong: y has n=7, but n is 5 in x"
    with pytest.raises(WatchError) as error, qkv.record():
        wrong(np.ones((5, 3)), np.ones((5, 3)))
    assert str(error.value) == "wrong: out has n=2, but n is 5 in x"
    assert sys.getprofile() is None
    assert watcher.get() is None


def test_an_axis_of_one_fits_all() -> None:
    @op(x="n d", y="n d")
    def broadcast(x: Any, y: Any) -> Any:
        return x + y

    with qkv.record() as trace:
        broadcast(np.ones((5, 3)), np.ones((1, 3)))
    assert trace["broadcast.y"].shape == (1, 3)


def test_a_rank_that_disagrees() -> None:
    @op(x="n d")
    def flat(x: Any) -> Any:
        return x

    with pytest.raises(WatchError) as error, qkv.record():
        flat(np.ones((2, 3, 5)))
    assert str(error.value) == "flat: x is declared n d, but its shape is (2, 3, 5)"


def test_only_arrays_are_kept() -> None:
    @op(x="n", half="n", text="n", number="", later="n")
    def mixed(x: Any) -> Any:
        half = x / 2
        text = "no array"
        number = np.float64(3)
        if text == "":
            later = half
        return half, number, (text, later) if text == "" else None

    with qkv.record() as trace:
        mixed(np.ones(3))
    assert list(trace) == ["mixed.x", "mixed.half", "mixed.number"]
    assert trace["mixed.number"].shape == ()


def test_values_come_in_the_order_in_which_they_are_computed() -> None:
    """Between calls of inner ops, whatever the order of the declaration."""

    @op(a="n")
    def step_a(x: Any) -> Any:
        a = x + 1
        return a

    @op(z="n", y="n", x="n")
    def outer(x: Any) -> Any:
        y = step_a(x)
        z = step_a(y)
        return z

    with qkv.record() as trace:
        outer(np.zeros(3))
    assert list(trace) == ["outer.x", "outer.step_a.a", "outer.y", "outer.step_a#2.a", "outer.z"]


def test_a_recursive_op() -> None:
    @op(n="", out="")
    def factorial(n: Any) -> Any:
        out = n if n <= 1 else n * factorial(n - 1)
        return np.asarray(out)

    with qkv.record() as trace:
        factorial(np.array(3))
    assert {path: int(trace[path]) for path in trace} == {
        "factorial.n": 3, "factorial.factorial.factorial.out": 1, "factorial.factorial.out": 2, "factorial.out": 6,
    }  # fmt: skip


def test_a_step_belongs_to_its_caller() -> None:
    @op(step="y")
    def line(x: Any) -> Any:
        return x * 2

    @op(x="n", y="n")
    def caller(x: Any) -> Any:
        y = line(x)
        return y

    assert "line" not in OPS
    with qkv.record() as trace:
        caller(np.ones(2))
    assert list(trace) == ["caller.x", "caller.y"]


def test_an_edit_is_made_once() -> None:
    @op(step="y")
    def line(x: Any) -> Any:
        return x * 2

    @op(name="plain_caller", x="n", y="n")
    def caller(x: Any) -> Any:
        y = line(x)
        return y

    with qkv.edit({"plain_caller.y": lambda y: y + 100}):
        assert caller(np.ones(2)).tolist() == [102, 102]


def test_every_name_is_registered_once() -> None:
    assert {"attention", "block", "layer_norm", "rope", "multi_head_attention"} <= set(OPS)
    for name, declared in OPS.items():
        assert declared.name == name
        assert declared.step is None
