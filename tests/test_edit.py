"""Editing: a change where an op returns, and what follows from it."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import qkv
from qkv import edits, layers
from qkv.contract import watcher
from qkv.errors import ArgumentError, WatchError

DTYPES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32), np.dtype(np.float64)]


def arrays(dtype: Any = np.float64) -> Any:
    rng = np.random.default_rng(1)
    return tuple(rng.normal(size=s).astype(dtype) for s in ((2, 6, 5, 3), (2, 2, 7, 3), (2, 2, 7, 11)))


def with_edit(changes: dict[str, Any], *args: Any, **rules: Any) -> tuple[np.ndarray, qkv.Trace]:
    with qkv.record() as trace, qkv.edit(changes):
        out = qkv.attention(*(args or arrays()), **rules)
    return out, trace


@pytest.mark.parametrize("step", ["scores", "capped", "masked", "weights", "out"])
def test_every_step_of_attention_can_be_changed(step: str) -> None:
    """The steps before are as they were; this one and those that follow are not."""
    rules: dict[str, Any] = {"softcap": 2.0, "bias": np.zeros(7), "mask": np.arange(7) < 6}
    _, plain = with_edit({"*.out": lambda x: x}, **rules)
    out, trace = with_edit({f"attention.{step}": lambda x: 0.5 * x}, **rules)
    steps = ["q", "k", "v", "scores", "capped", "biased", "masked", "weights", "out"]
    assert list(trace) == [f"attention.{name}" for name in steps]
    for name in steps[: steps.index(step)]:
        np.testing.assert_array_equal(trace[f"attention.{name}"], plain[f"attention.{name}"])
    np.testing.assert_array_equal(trace[f"attention.{step}"], 0.5 * plain[f"attention.{step}"])
    for name in steps[steps.index(step) + 1 :]:
        assert (trace[f"attention.{name}"] != plain[f"attention.{name}"]).any()
    np.testing.assert_array_equal(trace["attention.out"], out)


@pytest.mark.parametrize("order", ["record in edit", "edit in record"])
def test_a_trace_shows_the_edited_values_in_either_nesting(order: str) -> None:
    q, k, v = arrays()
    change = {"attention.weights": edits.replacement(0.25)}
    if order == "record in edit":
        with qkv.edit(change), qkv.record() as trace:
            out = qkv.attention(q, k, v)
    else:
        with qkv.record() as trace, qkv.edit(change):
            out = qkv.attention(q, k, v)
    assert (trace["attention.weights"] == 0.25).all()
    np.testing.assert_allclose(out, np.broadcast_to(0.25 * v.sum(2, keepdims=True).repeat(3, 1), out.shape))
    np.testing.assert_array_equal(trace["attention.out"], out)


def test_scale() -> None:
    q, k, v = arrays()
    out, _ = with_edit({"attention.scores": edits.scale(0.5)})
    np.testing.assert_allclose(out, qkv.attention(q, k, v, scale=0.5 / np.sqrt(3)), rtol=1e-12)
    out, _ = with_edit({"attention.out": edits.scale(3.0, head=2)})
    expected = qkv.attention(q, k, v)
    expected[:, 2] *= 3
    np.testing.assert_array_equal(out, expected)


def test_zero() -> None:
    q, k, v = arrays()
    assert (with_edit({"attention.out": edits.zero()})[0] == 0).all()
    out, _ = with_edit({"attention.weights": edits.zero(head=1)})
    expected = qkv.attention(q, k, v)
    expected[:, 1] = 0
    np.testing.assert_array_equal(out, expected)


def test_replacement() -> None:
    new = np.random.default_rng(2).normal(size=(2, 6, 5, 11))
    np.testing.assert_array_equal(with_edit({"attention.out": edits.replacement(new)})[0], new)
    out, _ = with_edit({"attention.weights": edits.replacement(np.eye(5, 7), head=4)})
    np.testing.assert_array_equal(out[:, 4], arrays()[2][:, 1, :5])
    np.testing.assert_array_equal(out[:, :4], qkv.attention(*arrays())[:, :4])


def test_freeze() -> None:
    """Patching: the later steps are those of the other run."""
    q, k, v = arrays()
    with qkv.record() as other:
        frozen = qkv.attention(-q, k, v)
    np.testing.assert_array_equal(with_edit({"attention.scores": edits.freeze(other)})[0], frozen)
    out, trace = with_edit({"attention.scores": edits.freeze(other, head=3)})
    expected = qkv.attention(q, k, v)
    expected[:, 3] = frozen[:, 3]
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(trace["attention.scores"][:, 3], other["attention.scores"][:, 3])


def test_freeze_wants_the_same_shape_and_path() -> None:
    q, k, v = arrays()
    with qkv.record() as other:
        qkv.attention(q[:, :, :3], k, v)
    with pytest.raises(WatchError) as error:
        with_edit({"attention.scores": edits.freeze(other)})
    assert str(error.value) == (
        "edit at 'attention.scores': the other run has shape (2, 6, 3, 7) there, this one (2, 6, 5, 7)"
    )
    with pytest.raises(WatchError, match=r"^the trace holds no 'attention.capped'"):
        with_edit({"attention.capped": edits.freeze(other)}, softcap=2.0)


@pytest.mark.parametrize("head", [None, 0, 4])
@pytest.mark.parametrize("masked", [False, True])
def test_knock_out_is_the_masked_run(head: int | None, masked: bool) -> None:
    q, k, v = arrays()
    rules: dict[str, Any] = {"causal": True, "offset": 2, "sinks": np.ones(6)} if masked else {}
    mask = np.ones((6, 5, 7), bool)
    mask[slice(None) if head is None else head, 3, 1] = False
    out, trace = with_edit({"attention.masked": edits.knock_out(3, 1, head=head)}, **rules)
    expected, weights, lse = qkv.attention(q, k, v, mask=mask, return_weights=True, return_lse=True, **rules)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(trace["attention.weights"], weights)
    with qkv.edit({"attention.masked": edits.knock_out(3 - 5, 1 - 7, head=head)}):
        found = qkv.attention(q, k, v, return_lse=True, **rules)
    np.testing.assert_array_equal(found[0], expected)
    np.testing.assert_array_equal(found[1], lse)


def test_knocked_out_keys_have_no_influence() -> None:
    q, k, v = (np.ones((n, 2)) for n in (1, 2, 2))
    v[1] = np.nan
    assert np.isnan(qkv.attention(q, k, v)).all()
    with qkv.edit({"attention.masked": edits.knock_out(0, 1)}):
        np.testing.assert_array_equal(qkv.attention(q, k, v), [[1, 1]])
    with qkv.edit({"attention.masked": lambda x: np.full_like(x, -np.inf)}):
        np.testing.assert_array_equal(qkv.attention(q, k, v), [[0, 0]])


def test_only_the_path_that_is_named() -> None:
    q, k, v = arrays()
    plain = qkv.attention(q, k, v)
    with qkv.edit({"attention#2.weights": edits.zero()}):
        outs = [qkv.attention(q, k, v) for _ in range(3)]
    np.testing.assert_array_equal(outs[0], plain)
    assert (outs[1] == 0).all()
    np.testing.assert_array_equal(outs[2], plain)


def test_patterns_reach_parts_of_a_layer() -> None:
    block, x = layers.Block.init(12, 3, 7), np.random.default_rng(1).normal(size=(5, 12))
    with qkv.edit({"block.attention.weights": edits.zero(), "*.feed_forward.output": edits.zero()}):
        np.testing.assert_array_equal(block(x), x)
    with qkv.edit({"block.attention.output": lambda y: y * 0, "block.feed_forward.*": lambda y: y * 0}):
        np.testing.assert_array_equal(block(x), x)
    with qkv.edit({"block.resid_post": edits.scale(2.0)}):
        edited = block(x)
    np.testing.assert_array_equal(edited, 2 * block(x))
    norm, feed = block.norm_2, block.feed_forward
    with qkv.edit({"block.norm_1.out": edits.zero()}):
        np.testing.assert_allclose(block(x), x + feed(norm(x)), atol=1e-14)


def test_several_changes_of_one_value_are_made_in_order() -> None:
    with qkv.edit({"attention.out": lambda x: x + 1, "*.out": lambda x: x * 10}):
        out = qkv.attention(*arrays())
    np.testing.assert_allclose(out, 10 * (qkv.attention(*arrays()) + 1))


def test_edits_nest() -> None:
    q, k, v = arrays()
    plain = qkv.attention(q, k, v)
    with qkv.edit({"attention*.out": lambda x: x + 1}):
        with qkv.edit({"attention.out": lambda x: x * 10}):
            both = qkv.attention(q, k, v)
        outer = qkv.attention(q, k, v)
    np.testing.assert_array_equal(both, (plain + 1) * 10)
    np.testing.assert_array_equal(outer, plain + 1)
    np.testing.assert_array_equal(qkv.attention(q, k, v), plain)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_edit_keeps_the_dtype(dtype: Any) -> None:
    q, k, v = arrays(dtype)
    for step in ("scores", "weights", "out"):
        for change in (edits.scale(0.5), edits.zero(head=1), lambda x: x.astype(np.float64), lambda x: x.tolist()):
            with qkv.edit({f"attention.{step}": change}):
                assert qkv.attention(q, k, v).dtype == dtype


def test_arguments_are_not_changed_by_an_edit() -> None:
    q, k, v = arrays()
    before = [x.tobytes() for x in (q, k, v)]
    for change in (edits.scale(2.0), edits.zero(head=0), edits.replacement(1.0, head=5)):
        with_edit({"attention.scores": change, "attention.out": change}, q, k, v)
    assert [x.tobytes() for x in (q, k, v)] == before


# what cannot be


def nobody_watches() -> bool:
    return watcher.get() is None and sys.getprofile() is None


def test_a_path_that_never_ran() -> None:
    with pytest.raises(WatchError) as error:
        with_edit({"attention.weight": edits.zero(), "attention.out": edits.zero(), "nothing.*": edits.zero()})
    assert str(error.value) == (
        "edit: nothing ran at attention.weight, nothing.*; what ran: attention.weights, attention.out, attention.scores"
    )
    assert nobody_watches()
    with pytest.raises(WatchError, match=r"^edit: nothing ran at a; what ran: nothing$"), qkv.edit({"a": edits.zero()}):
        pass


def test_a_place_that_can_be_seen_but_not_changed() -> None:
    for path in ("attention.q", "attention.biased"):
        with pytest.raises(WatchError, match=rf"^edit: nothing ran at {path}; "):
            with_edit({path: edits.zero()}, bias=np.zeros(7))


def test_another_shape() -> None:
    with pytest.raises(WatchError) as error:
        with_edit({"attention.weights": lambda x: x[..., :3]})
    assert str(error.value) == (
        "edit at 'attention.weights' must keep the shape (2, 6, 5, 7), but returned (2, 6, 5, 3)"
    )
    assert nobody_watches()


@pytest.mark.parametrize(
    ("path", "change", "line"),
    [
        ("attention.out", edits.scale(2.0, head=6), "head must be from 0 to 5, but it is 6"),
        ("attention.out", edits.zero(head=-1), "head must be from 0 to 5, but it is -1"),
        ("attention.masked", edits.knock_out(5, 0), "query must be below 5, but it is 5"),
        ("attention.masked", edits.knock_out(0, 7), "key must be below 7, but it is 7"),
        ("attention.masked", edits.knock_out(0, 0, head=9), "head must be from 0 to 5, but it is 9"),
        (
            "attention.weights",
            edits.knock_out(0, 0),
            "the path of knock_out must be one of *.masked, but it is 'attention.weights'",
        ),
    ],
)
def test_one_line(path: str, change: Any, line: str) -> None:
    with pytest.raises(ArgumentError) as error:
        with_edit({path: change})
    assert str(error.value) == line
    assert nobody_watches()


def test_an_accident_inside_shows_itself() -> None:
    """Not the complaint about paths that never ran, which the accident kept from running."""
    with pytest.raises(ZeroDivisionError), qkv.edit({"attention.out": edits.zero()}):
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        with_edit({"attention.scores": lambda x: 1 / 0})
    assert nobody_watches()
