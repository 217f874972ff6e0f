"""The twelve rules of the edges, each under its number, in every dtype."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import qkv
from qkv import masks, ops
from qkv.errors import ArgumentError, DtypeError, QkvError, ShapeError

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype(np.float16), BFLOAT16, np.dtype(np.float32), np.dtype(np.float64)]
# Close enough to tell every planted mistake from rounding: a few units in the last place of values near 1.
CLOSE = {DTYPES[0]: 3e-3, BFLOAT16: 2e-2, DTYPES[2]: 3e-6, DTYPES[3]: 5e-15}
JUNK = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf, "huge": 6e4, "-0": -0.0}
LOOKS: dict[str, dict[str, Any]] = {
    "mask": {"mask": np.array([True] * 4 + [False] * 3)},
    "bias of -inf": {"bias": np.array([0.5, -0.25, 0.0, 1.0] + [-np.inf] * 3)},
    "rule": {"mask": masks.padding(4)},
    "softcap, sinks": {"mask": masks.padding(4), "softcap": 2.0, "sinks": np.array([0.5, -1.0])},
    "causal": {"causal": True, "offset": -1},
    "window": {"window": (None, 1), "offset": -2},
    "scale 0": {"mask": masks.padding(4), "scale": 0},
}
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def arrays(dtype: Any, H: int = 2, Hkv: int = 2, Tq: int = 5, Tk: int = 7, d_k: int = 3, d_v: int = 11) -> Any:
    rng = np.random.default_rng(2)
    shapes = (H, Tq, d_k), (Hkv, Tk, d_k), (Hkv, Tk, d_v)
    return tuple(rng.normal(size=shape).astype(dtype) for shape in shapes)


def everything(q: Any, k: Any, v: Any, **rules: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return qkv.attention(q, k, v, return_weights=True, return_lse=True, **rules)


def assert_same_bits(found: Any, expected: Any) -> None:
    for name, x, y in zip(("out", "weights", "lse"), found, expected):
        assert (x.dtype, x.shape) == (y.dtype, y.shape), name
        assert x.tobytes() == y.tobytes(), name


def wide(x: Any) -> np.ndarray:
    return np.asarray(x).astype(np.float64)


def by_loops(q: Any, k: Any, v: Any, visible: Any, scale: float) -> np.ndarray:
    """One head, written out: for rules that say where, not how exactly."""
    q, k, v = wide(q), wide(k), wide(v)
    out = np.zeros((len(q), v.shape[1]))
    for i in range(len(q)):
        seen = [j for j in range(len(k)) if visible[i][j]]
        e = np.array([np.exp(scale * sum(a * b for a, b in zip(q[i], k[j]))) for j in seen])
        for share, j in zip(e / e.sum() if seen else e, seen):
            out[i] += share * v[j]
    return out


# 1: a mask selects, a bias adds


@each_dtype
def test_rule_1_true_may_look(dtype: Any) -> None:
    q, k, v = arrays(dtype)
    visible = np.random.default_rng(3).random((5, 7)) < 0.5
    visible[:, 2] = True
    out, weights, _ = everything(q, k, v, mask=visible)
    assert (wide(weights)[:, ~visible] == 0).all()
    for h in range(2):
        expected = by_loops(q[h], k[h], v[h], visible, 3**-0.5)
        np.testing.assert_allclose(wide(out[h]), expected, atol=CLOSE[dtype], rtol=CLOSE[dtype])


@each_dtype
def test_rule_1_no_finite_fill_stands_for_a_mask(dtype: Any) -> None:
    """Scores so low that any finite fill value would win against them."""
    q, k, v = np.full((1, 1), 180, dtype), np.array([[-180], [-180.5], [0]], dtype), np.array([[1], [1], [9]], dtype)
    out, weights, _ = everything(q, k, v, mask=[True, True, False], scale=1e30 if dtype == np.float32 else 1.0)
    assert out.item() == 1
    assert weights[0, 2] == 0


@each_dtype
@pytest.mark.parametrize("kind", [np.int64, np.float32, np.uint8])
def test_rule_1_a_mask_of_numbers_is_refused(dtype: Any, kind: Any) -> None:
    q, k, v = arrays(dtype)
    with pytest.raises(DtypeError) as error:
        qkv.attention(q, k, v, mask=np.ones((5, 7), kind))
    assert isinstance(error.value, TypeError)
    assert str(error.value) == (
        f"mask must be boolean (True = may look), but its dtype is {np.dtype(kind)}; "
        "to add numbers to the scores use bias="
    )


@each_dtype
def test_rule_1_minus_infinity_in_a_bias_is_a_mask(dtype: Any) -> None:
    q, k, v = arrays(dtype)
    visible = np.arange(35).reshape(5, 7) % 3 != 0
    visible[4] = False
    assert_same_bits(everything(q, k, v, bias=np.where(visible, 0, -np.inf)), everything(q, k, v, mask=visible))


@each_dtype
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_rule_1_other_special_numbers_in_a_bias_show(dtype: Any, value: float) -> None:
    q, k, v = arrays(dtype)
    bias = np.zeros((5, 7))
    bias[1, 2] = value
    out, weights, lse = everything(q, k, v, bias=bias)
    assert np.isnan(wide(out)[:, 1]).all()
    assert np.isnan(wide(weights)[:, 1]).all()
    assert not np.isnan(wide(out)[:, [0, 2, 3, 4]]).any()
    assert np.isnan(lse[:, 1]).all() or value == np.inf
    hidden = everything(q, k, v, bias=bias, mask=np.arange(7) != 2)
    assert_same_bits(hidden, everything(q, k, v, mask=np.arange(7) != 2, bias=np.zeros((5, 7))))


# 2: scale -> softcap -> bias -> mask -> softmax -> weighted sum


@each_dtype
def test_rule_2_order(dtype: Any) -> None:
    """Numbers by hand. Scores 4 and 0, scale 1/2, cap 2, bias (0, 3), the third key hidden."""
    q, k, v = np.array([[2]], dtype), np.array([[2], [0], [9]], dtype), np.array([[1], [0], [100]], dtype)
    _, weights, lse = everything(q, k, v, scale=0.5, softcap=2.0, bias=[[0.0, 3.0, 0.0]], mask=[True, True, False])
    first, second = np.exp(2 * np.tanh(1.0)), np.exp(3.0)
    np.testing.assert_allclose(wide(weights)[0], [first / (first + second), second / (first + second), 0], atol=2e-3)
    np.testing.assert_allclose(lse, [np.log(first + second)], rtol=1e-6)


@each_dtype
def test_rule_2_a_capped_mask_would_leak(dtype: Any) -> None:
    """With the cap after the mask the hidden value would weigh 0.27 here."""
    zero = np.zeros((1, 2), dtype)
    out = qkv.attention(zero, np.zeros((2, 2), dtype), np.array([[0], [1000]], dtype), softcap=1.0, mask=[True, False])
    assert out.item() == 0


@each_dtype
def test_rule_2_default_scale(dtype: Any) -> None:
    q, k, v = np.ones((1, 4), dtype), np.array([[1.0] * 4, [0.0] * 4], dtype), np.eye(2).astype(dtype)
    np.testing.assert_allclose(wide(qkv.attention(q, k, v)), [[np.e**2 / (np.e**2 + 1), 1 / (np.e**2 + 1)]], atol=2e-3)


@each_dtype
def test_rule_2_any_finite_scale(dtype: Any) -> None:
    q, k, v = arrays(dtype)
    _, level, _ = everything(q, k, v, scale=0)
    np.testing.assert_allclose(wide(level), 1 / 7, rtol=CLOSE[dtype])
    assert_same_bits(everything(q, k, v, scale=-0.7), everything(-q, k, v, scale=0.7))


@pytest.mark.parametrize("scale", [np.nan, np.inf, -np.inf, "1", 10**400])
def test_rule_2_a_scale_that_is_not_finite_is_an_error(scale: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^scale must be a finite number, but it is "):
        qkv.attention(*arrays(np.float32), scale=scale)


# 3: what may not be looked at has no influence; what may, always shows


@each_dtype
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize(("place", "junk"), list(product(("k", "v", "both"), JUNK)))
def test_rule_3_hidden_rows_change_no_bit(dtype: Any, look: str, place: str, junk: str) -> None:
    q, k, v = arrays(dtype)
    k_junk, v_junk = k.copy(), v.copy()
    if place != "v":
        k_junk[:, 4:] = JUNK[junk]
    if place != "k":
        v_junk[:, 4:] = JUNK[junk]
    assert_same_bits(everything(q, k_junk, v_junk, **LOOKS[look]), everything(q, k, v, **LOOKS[look]))


@each_dtype
@pytest.mark.parametrize("junk", ["nan", "inf", "-inf"])
def test_rule_3_a_key_that_only_later_queries_see(dtype: Any, junk: str) -> None:
    q, k, v = arrays(dtype, Tq=7)
    k_junk, v_junk = k.copy(), v.copy()
    k_junk[:, 4], v_junk[:, 4] = JUNK[junk], JUNK[junk]
    for pair in ((k, v_junk), (k_junk, v), (k_junk, v_junk)):
        found, clean = everything(q, *pair, causal=True), everything(q, k, v, causal=True)
        assert_same_bits([x[:, :4] for x in found], [x[:, :4] for x in clean])
        if pair[0] is k:
            assert not np.isfinite(wide(found[0])[:, 4:]).any()


@each_dtype
@pytest.mark.parametrize("where", ["q", "k", "v"])
def test_rule_3_a_visible_nan_shows(dtype: Any, where: str) -> None:
    """Also for few keys, and where the weight of the NaN is so small that it rounds to nothing."""
    for Tk in (1, 2, 7, 17):
        q, k, v = arrays(dtype, Tk=Tk)
        {"q": q, "k": k, "v": v}[where][..., -1, -1] = np.nan
        low = np.where(np.arange(Tk) == Tk - 1, -1e4, 0) if Tk > 1 else None
        out = wide(qkv.attention(q, k, v, bias=low))
        rows = {"q": np.s_[:, -1], "k": np.s_[:, :], "v": np.s_[:, :, -1]}[where]
        assert np.isnan(out[rows]).all()
        if where != "k":
            assert np.isnan(out).sum() == np.isnan(out[rows]).sum(), "and nowhere else"


@each_dtype
def test_rule_3_a_score_that_overflows_upward_shows(dtype: Any) -> None:
    big = 1e200 if dtype == np.float64 else 1e30
    if dtype == np.float16:
        q, k, scale = np.full((1, 1), 6e4, dtype), np.array([[6e4], [0]], dtype), 1e30
    else:
        q, k, scale = np.full((1, 1), big, dtype), np.array([[big], [0]], dtype), 1.0
    out, weights, _ = everything(q, k, np.ones((2, 1), dtype), scale=scale)
    assert np.isnan(wide(out)).all()
    assert np.isnan(wide(weights)).all()


@each_dtype
def test_rule_3_a_row_of_scores_that_overflow_downward_is_unknown(dtype: Any) -> None:
    q, k = np.full((1, 1), 6e4, dtype), np.array([[-6e4], [-5e4]], dtype)
    scale = 1e300 if dtype == np.float64 else 1e30
    out, _, lse = everything(q, k, np.ones((2, 1), dtype), scale=scale)
    assert np.isnan(wide(out)).all()
    assert np.isnan(lse).all()


@pytest.mark.parametrize("rules", [{}, {"mask": np.arange(7) != 4}])
@each_dtype
def test_rule_3_infinite_values(dtype: Any, rules: Any) -> None:
    q, k, v = arrays(dtype, d_v=3)
    v[:, 1, 0], v[:, 2, 1], v[:, 3, 1], v[:, 5, 2] = np.inf, np.inf, -np.inf, -np.inf
    out = wide(qkv.attention(q, k, v, **rules))
    assert (out[..., 0] == np.inf).all()
    assert np.isnan(out[..., 1]).all()
    assert (out[..., 2] == -np.inf).all()


def test_rule_3_a_visible_nan_shows_beside_a_score_that_overflowed_downward() -> None:
    q, k, v = (
        np.array([[1e30]], np.float32),
        np.array([[-1e30], [1]], np.float32),
        np.array([[np.nan], [1]], np.float32),
    )
    assert np.isnan(qkv.attention(q, k, v)).all()


# 4: a query that may look at nothing


@each_dtype
@pytest.mark.parametrize("how", ["mask", "bias", "causal", "window", "padding"])
def test_rule_4_empty_rows(dtype: Any, how: str) -> None:
    q, k, v = arrays(dtype)
    v[0, 0] = np.nan
    rows, rules = {
        "mask": ([1, 3], {"mask": np.array([[True], [False], [True], [False], [True]])}),
        "bias": ([2], {"bias": np.where(np.arange(5) == 2, -np.inf, 0.0)[:, None]}),
        "causal": ([0, 1, 2], {"causal": True, "offset": -3}),
        "window": ([3, 4], {"window": 1, "offset": 4}),
        "padding": ([0, 1, 2, 3, 4], {"mask": masks.padding(0)}),
    }[how]
    out, weights, lse = everything(q, k, v, **rules)
    assert (wide(out)[:, rows] == 0).all()
    assert not np.signbit(wide(out)[:, rows]).any()
    assert (wide(weights)[:, rows] == 0).all()
    assert np.isneginf(lse[:, rows]).all()
    others = [i for i in range(5) if i not in rows]
    np.testing.assert_allclose(wide(weights)[:, others].sum(-1), 1, atol=CLOSE[dtype])


@each_dtype
@pytest.mark.parametrize(
    ("shapes", "out_shape"),
    [
        (((2, 3, 5, 7), (2, 3, 0, 7), (2, 3, 0, 11)), (2, 3, 5, 11)),
        (((2, 3, 0, 7), (2, 3, 5, 7), (2, 3, 5, 11)), (2, 3, 0, 11)),
        (((0, 3, 5, 7), (0, 3, 5, 7), (0, 3, 5, 11)), (0, 3, 5, 11)),
        (((2, 0, 5, 7), (2, 0, 5, 7), (2, 0, 5, 11)), (2, 0, 5, 11)),
        (((5, 7), (0, 7), (0, 11)), (5, 11)),
        (((0, 7), (0, 7), (0, 11)), (0, 11)),
        (((3, 5, 0), (3, 5, 0), (3, 5, 11)), (3, 5, 11)),
        (((3, 5, 7), (3, 5, 7), (3, 5, 0)), (3, 5, 0)),
    ],
)
@pytest.mark.parametrize("rules", [{}, {"causal": True}, {"window": (2, 0)}, {"softcap": 3.0}], ids=str)
def test_rule_4_empty_arrays(dtype: Any, shapes: Any, out_shape: Any, rules: dict[str, Any]) -> None:
    q, k, v = (np.ones(shape, dtype) for shape in shapes)
    out, weights, lse = everything(q, k, v, **rules)
    assert (out.shape, out.dtype) == (out_shape, dtype)
    assert weights.shape == (*out_shape[:-1], shapes[1][-2])
    assert lse.shape == out_shape[:-1]
    if not shapes[1][-2]:
        assert (wide(out) == 0).all()
        assert np.isneginf(lse).all()


# 5: causal, and where the queries stand


@each_dtype
@pytest.mark.parametrize("offset", [-9, -2, 0, 1, 2, 5, 100])
def test_rule_5_causal(dtype: Any, offset: int) -> None:
    q, k, v = arrays(dtype)
    visible = [[j <= offset + i for j in range(7)] for i in range(5)]
    assert_same_bits(everything(q, k, v, causal=True, offset=offset), everything(q, k, v, mask=np.array(visible)))


@each_dtype
def test_rule_5_no_offset_needed_for_a_square(dtype: Any) -> None:
    q, k, v = arrays(dtype, Tq=7)
    assert_same_bits(everything(q, k, v, causal=True), everything(q, k, v, causal=True, offset=0))


@pytest.mark.parametrize(
    ("rules", "asks"),
    [
        ({"causal": True}, "causal"),
        ({"window": 3}, "window(2, 0)"),
        ({"window": (None, 1)}, "window(None, 1)"),
        ({"mask": masks.causal() | masks.prefix(2)}, "(causal | prefix(2))"),
        ({"bias": qkv.biases.alibi(2)}, "alibi(2)"),
    ],
)
def test_rule_5_the_offset_must_be_said(rules: dict[str, Any], asks: str) -> None:
    with pytest.raises(ArgumentError) as error:
        qkv.attention(*arrays(np.float32), **rules)
    assert str(error.value) == (
        f"q has Tq=5 but k has Tk=7, so {asks} needs offset=: "
        "2 (Tk - Tq) to continue a sequence, 0 to align the first query with the first key"
    )


def test_rule_5_rules_on_keys_alone_need_no_offset() -> None:
    q, k, v = arrays(np.float32)
    for rule in (masks.padding(3), masks.prefix(3), ~~masks.padding(3), masks.padding(3) & masks.prefix(5)):
        assert_same_bits(everything(q, k, v, mask=rule), everything(q, k, v, mask=np.arange(7) < 3))


@each_dtype
def test_rule_5_the_alignment_of_two_libraries(dtype: Any) -> None:
    q, k, v = np.zeros((1, 2), dtype), np.zeros((4, 2), dtype), np.arange(4).reshape(4, 1).astype(dtype)
    assert qkv.attention(q, k, v, causal=True, offset=0).item() == 0
    assert qkv.attention(q, k, v, causal=True, offset=3).item() == 1.5


@each_dtype
@pytest.mark.parametrize("rules", [{"causal": True}, {"window": 2}, {"bias": qkv.biases.alibi(3)}], ids=", ".join)
def test_rule_5_an_offset_per_member(dtype: Any, rules: dict[str, Any]) -> None:
    rng = np.random.default_rng(5)
    q, k, v = (rng.normal(size=s).astype(dtype) for s in ((2, 3, 5, 7), (2, 3, 11, 7), (2, 3, 11, 2)))
    found = everything(q, k, v, offset=np.array([6, -2]), **rules)
    for b, offset in enumerate((6, -2)):
        one = everything(q[b], k[b], v[b], offset=offset, **rules)
        for x, y in zip(found, one):
            np.testing.assert_allclose(wide(x[b]), wide(y), atol=CLOSE[dtype], rtol=CLOSE[dtype])


@pytest.mark.parametrize(
    ("offset", "kind", "line"),
    [
        (1.5, DtypeError, "offset must be integer, but its dtype is float64"),
        (True, DtypeError, "offset must be integer, but its dtype is bool"),
        ([1, 2, 3], ShapeError, "offset must have shape () or (2,), one per batch member, but its shape is (3,)"),
        ([[1, 2]], ShapeError, "offset must have shape () or (2,), one per batch member, but its shape is (1, 2)"),
    ],
)
def test_rule_5_a_wrong_offset(offset: Any, kind: type[Exception], line: str) -> None:
    x = np.ones((2, 3, 5, 7))
    with pytest.raises(kind) as error:
        qkv.attention(x, x, x, causal=True, offset=offset)
    assert str(error.value) == line


# 6: windows


@each_dtype
@pytest.mark.parametrize("window", [1, 2, 5, 99, (0, 0), (2, 0), (0, 2), (1, 3), (None, 1), (1, None), (None, None)])
@pytest.mark.parametrize("offset", [-1, 0, 2])
def test_rule_6_window(dtype: Any, window: Any, offset: int) -> None:
    q, k, v = arrays(dtype)
    left, right = (window - 1, 0) if isinstance(window, int) else (99 if side is None else side for side in window)
    visible = [[i + offset - left <= j <= i + offset + right for j in range(7)] for i in range(5)]
    found = everything(q, k, v, window=window, offset=offset)
    assert_same_bits(found, everything(q, k, v, mask=np.array(visible)))


@each_dtype
def test_rule_6_a_window_and_causal_both_hold(dtype: Any) -> None:
    q, k, v = arrays(dtype, Tq=7)
    assert_same_bits(everything(q, k, v, window=(2, 3), causal=True), everything(q, k, v, window=(2, 0)))
    padded = everything(q, k, v, window=(2, 3), causal=True, mask=masks.padding(5))
    assert_same_bits(padded, everything(q, k, v, window=3, mask=np.arange(7) < 5))


@pytest.mark.parametrize("window", [0, -1, True, 1.5, [2, 0], (1, 2, 3), "3"])
def test_rule_6_a_wrong_window(window: Any) -> None:
    with pytest.raises(ArgumentError) as error:
        qkv.attention(*arrays(np.float32), window=window, offset=0)
    assert str(error.value) == (
        f"window must be a number of keys of at least 1, or (left, right) neighbours, but it is {window!r}"
    )


@pytest.mark.parametrize(("window", "side"), [((-1, 0), "left"), ((0, -2), "right"), ((1.5, 0), "left")])
def test_rule_6_a_wrong_side(window: Any, side: str) -> None:
    with pytest.raises(ArgumentError, match=rf"^{side} must be an integer of at least 0, or None, but it is "):
        qkv.attention(*arrays(np.float32), window=window, offset=0)


# 7: sinks


@each_dtype
@pytest.mark.parametrize("sink", [0.0, 0.5, -3.0, 100.0, -np.inf])
def test_rule_7_a_sink_is_a_logit_without_a_value(dtype: Any, sink: float) -> None:
    """Equal to one more key with that score and a value of 0."""
    q, k, v = arrays(dtype, H=2)
    sinks = np.array([sink, 1.25])
    out, weights, lse = everything(q, k, v, sinks=sinks)
    scores = wide(q) @ wide(k).swapaxes(1, 2) / np.sqrt(3)
    logits = np.concatenate([scores, np.broadcast_to(sinks[:, None, None], (2, 5, 1))], axis=-1)
    shares = np.exp(logits - logits.max(-1, keepdims=True))
    total = shares.sum(-1, keepdims=True)
    np.testing.assert_allclose(wide(weights), (shares / total)[..., :-1], atol=CLOSE[dtype])
    np.testing.assert_allclose(wide(out), (shares / total)[..., :-1] @ wide(v), atol=3 * CLOSE[dtype])
    np.testing.assert_allclose(lse, (np.log(total) + logits.max(-1, keepdims=True))[..., 0], rtol=1e-5)


@each_dtype
def test_rule_7_a_sink_beside_one_equal_score(dtype: Any) -> None:
    one = np.ones((1, 1), dtype)
    assert qkv.attention(one * 0, one, one * 6, sinks=0.0).item() == 3


@each_dtype
@pytest.mark.parametrize("sink", [0.5, 100.0, -np.inf])
def test_rule_7_nothing_visible_beside_a_sink(dtype: Any, sink: float) -> None:
    q, k, v = arrays(dtype)
    k[:], v[:] = np.nan, np.nan
    for Tk in (7, 0):
        found = everything(q, k[:, :Tk], v[:, :Tk], mask=np.zeros(Tk, bool), sinks=[sink, sink])
        assert (wide(found[0]) == 0).all()
        assert (wide(found[1]) == 0).all()
        np.testing.assert_array_equal(found[2], np.full((2, 5), sink))


def test_rule_7_one_sink_per_query_head() -> None:
    q, k, v = arrays(np.float64, H=6, Hkv=2)
    sinks = np.arange(6.0)
    out = qkv.attention(q, k, v, sinks=sinks)
    for h in range(6):
        np.testing.assert_allclose(out[h], qkv.attention(q[h], k[h // 3], v[h // 3], sinks=sinks[h]), rtol=1e-12)


# 8: dtypes


@each_dtype
def test_rule_8_dtypes(dtype: Any) -> None:
    out, weights, lse = everything(*arrays(dtype), sinks=np.zeros(2), bias=np.zeros(7), softcap=5.0)
    assert out.dtype == weights.dtype == dtype
    assert lse.dtype == (np.float64 if dtype == np.float64 else np.float32)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.bool_], ids=str)
def test_rule_8_integers_are_computed_in_float64(dtype: Any) -> None:
    q, k, v = (np.abs(x).astype(dtype) for x in arrays(np.float64))
    found = everything(q, k, v)
    assert {x.dtype for x in found} == {np.dtype(np.float64)}
    assert_same_bits(found, everything(*(x.astype(np.float64) for x in (q, k, v))))


def test_rule_8_the_widest_input_decides() -> None:
    q, k, v = arrays(np.float32)
    assert qkv.attention(q, k, v.astype(np.float64)).dtype == np.float64
    assert qkv.attention(q.astype(np.float16), k, v.astype(np.float16)).dtype == np.float32
    assert qkv.attention(q.astype(np.float16), k.astype(BFLOAT16), v.astype(np.float16)).dtype == np.float32
    assert qkv.attention(q, k, v, bias=np.zeros((5, 7)), sinks=np.zeros(2)).dtype == np.float32, "no part of the data"


@each_dtype
def test_rule_8_one_rounding_at_the_end(dtype: Any) -> None:
    q, k, v = arrays(dtype, d_k=64, Tk=257)
    out, weights, _ = everything(q, k, v)
    inside = np.float64 if dtype == np.float64 else np.float32
    wide_out, wide_weights, _ = everything(*(x.astype(inside) for x in (q, k, v)))
    assert out.tobytes() == wide_out.astype(dtype).tobytes()
    assert weights.tobytes() == wide_weights.astype(dtype).tobytes()


def test_rule_8_narrow_products_do_not_overflow() -> None:
    """40000 * 8 is more than float16 holds; the answer is not."""
    q = np.full((1, 8), 200, np.float16)
    k = np.stack([q[0], q[0] * 0])
    assert qkv.attention(q, k, np.array([[1], [2]], np.float16)).item() == 1


@pytest.mark.parametrize("dtype", [np.complex128, np.longdouble, object, "U1"])
def test_rule_8_other_dtypes_are_refused(dtype: Any) -> None:
    q, k, v = arrays(np.float64)
    with pytest.raises(
        DtypeError, match=r"^k must be float16, bfloat16, float32, float64 or integer, but its dtype is "
    ):
        qkv.attention(q, k.astype(dtype), v)


# 9: what is returned


@each_dtype
@pytest.mark.parametrize("sinks", [None, [0.5, -1.0]])
def test_rule_9_weights_are_the_ones_used(dtype: Any, sinks: Any) -> None:
    q, k, v = arrays(dtype)
    rules = {"causal": True, "offset": -1, "sinks": sinks}
    out, weights, lse = everything(q, k, v, **rules)
    share = np.zeros_like(lse) if sinks is None else np.exp(np.array(sinks)[:, None] - lse)
    expected = np.where(np.isneginf(lse), 0, 1 - share)
    np.testing.assert_allclose(wide(weights).sum(-1), expected, atol=CLOSE[dtype])
    np.testing.assert_allclose(wide(out), wide(weights) @ wide(v), atol=3 * CLOSE[dtype])


@each_dtype
def test_rule_9_asking_changes_nothing(dtype: Any) -> None:
    q, k, v = arrays(dtype)
    rules = {"causal": True, "offset": 1, "softcap": 3.0, "bias": np.linspace(-1, 1, 7)}
    plain = qkv.attention(q, k, v, **rules)
    weights, lse = (everything(q, k, v, **rules)[n] for n in (1, 2))
    assert_same_bits([plain], everything(q, k, v, **rules))
    assert_same_bits(qkv.attention(q, k, v, return_weights=True, **rules), (plain, weights))
    found = qkv.attention(q, k, v, return_lse=True, **rules)
    assert found[0].tobytes() == plain.tobytes()
    assert found[1].tobytes() == lse.tobytes()
    with qkv.record():
        assert qkv.attention(q, k, v, **rules).tobytes() == plain.tobytes()


# 10 is in test_properties.py: cached decoding in any chunking equals one pass.
# 11: nothing is changed but the answer


def calls(dtype: Any) -> dict[str, tuple[Callable[..., Any], list[np.ndarray], dict[str, Any]]]:
    q, k, v = arrays(dtype)
    square = np.ones((3, 3), dtype)
    v[0, 0] = np.nan
    bias = np.where(np.arange(7) == 2, -np.inf, 1).astype(dtype)
    rules = {"mask": np.arange(7) > 0, "bias": bias, "sinks": np.ones(2, dtype), "offset": np.array(1), "causal": True}
    return {
        "attention": (everything, [q, k, v], rules),
        "sdpa": (qkv.scaled_dot_product_attention, [q, k, v], {"attn_mask": bias, "dropout_p": 0.5, "is_causal": True}),
        "softmax": (qkv.softmax, [q], {}),
        "log_softmax": (qkv.log_softmax, [q], {}),
        "logsumexp": (qkv.logsumexp, [q], {}),
        "layer_norm": (qkv.layer_norm, [q, k[0, 0], k[0, 1]], {}),
        "rms_norm": (qkv.rms_norm, [q, k[0, 0]], {}),
        "gelu": (qkv.gelu, [q], {}),
        "silu": (qkv.silu, [q], {}),
        "swiglu": (ops.swiglu, [q, square, square, square], {}),
        "rope": (qkv.rope, [q[..., :2], np.arange(5)], {}),
        "linear": (ops.linear_attention, [q, k, v], {}),
        "linear causal": (ops.linear_attention, [q, k[:, :5], v[:, :5]], {"causal": True}),
        "latent": (ops.latent_attention, [q, k[0], square[None].repeat(2, 0), square[None].repeat(2, 0)], {}),
        "cross_entropy": (qkv.cross_entropy, [q, np.ones((2, 5), int)], {}),
    }


@each_dtype
@pytest.mark.parametrize("name", calls(np.float32))
def test_rule_11_no_argument_is_changed(dtype: Any, name: str) -> None:
    function, args, rules = calls(dtype)[name]
    held = [*args, *(x for x in rules.values() if isinstance(x, np.ndarray))]
    before = [(x.tobytes(), x.dtype, x.shape) for x in held]
    result = function(*args, **rules)
    for x in result if isinstance(result, tuple) else (result,):
        assert not any(np.shares_memory(x, y) for y in held), "writing to the answer would change an argument"
    for x in held:
        x.setflags(write=False)
    function(*args, **rules)
    assert [(x.tobytes(), x.dtype, x.shape) for x in held] == before


def global_state() -> tuple[Any, ...]:
    name, keys, *rest = np.random.get_state()
    return np.geterr(), np.geterrcall(), name, keys.tobytes(), rest, random.getstate(), threading.active_count()


@pytest.mark.parametrize("name", calls(np.float32))
def test_rule_11_no_global_state_is_changed(name: str) -> None:
    function, args, rules = calls(np.float32)[name]
    with np.errstate(over="warn", invalid="ignore", divide="raise", under="print"):
        before = global_state()
        function(*args, **rules)
        assert global_state() == before
        with pytest.raises((QkvError, TypeError)):
            function(np.array(["x"]), *args[1:], **rules)
        assert global_state() == before


@each_dtype
def test_rule_11_answers_that_are_not_numbers_are_no_accidents(dtype: Any) -> None:
    """NaN, overflow and empty rows raise nothing, whatever the caller's error state."""
    q, k, v = arrays(dtype)
    q[0, 0], k[0, 1], v[1, 2] = np.nan, np.inf, np.inf
    with np.errstate(all="raise"):
        everything(q, k, v, mask=np.arange(35).reshape(5, 7) > 7, scale=1e30)


# 12: a wrong call is one line

WRONG: list[tuple[str, dict[str, Any], type[QkvError], str]] = [
    ("d_k", {"k": (2, 7, 4)}, ShapeError, "k has d_k=4 but q has d_k=3"),
    ("Tk", {"v": (2, 5, 11)}, ShapeError, "v has Tk=5 but k has Tk=7"),
    ("Hkv", {"v": (1, 7, 11)}, ShapeError, "v has Hkv=1 but k has Hkv=2"),
    ("heads", {"q": (3, 5, 3)}, ShapeError, "q has 3 heads, which is no multiple of the 2 heads of k and v"),
    ("more heads", {"q": (1, 5, 3)}, ShapeError, "q has 1 heads, which is no multiple of the 2 heads of k and v"),
    ("flat q", {"q": (3,)}, ShapeError, "q must have at least 2 axes (..., H, Tq, d_k), but its shape is (3,)"),
    ("number v", {"v": ()}, ShapeError, "v must have at least 2 axes (..., Hkv, Tk, d_v), but its shape is ()"),
    (
        "batch", {"q": (5, 2, 5, 3), "k": (7, 2, 7, 3)}, ShapeError,
        "the leading axes of q, k, v do not broadcast: (5, 2, 5, 3), (7, 2, 7, 3), (2, 7, 11)",
    ),
    (
        "mask", {"mask": np.ones((7, 5), bool)}, ShapeError,
        "mask has shape (7, 5), which does not broadcast to the scores (2, 5, 7)",
    ),
    (
        "a mask that would enlarge", {"mask": np.ones((3, 1, 1, 7), bool)}, ShapeError,
        "mask has shape (3, 1, 1, 7), which does not broadcast to the scores (2, 5, 7)",
    ),
    (
        "bias", {"bias": np.zeros((4, 5, 7))}, ShapeError,
        "bias has shape (4, 5, 7), which does not broadcast to the scores (2, 5, 7)",
    ),
    (
        "boolean bias", {"bias": np.zeros(7, bool)}, DtypeError,
        "bias must be a number to add to each score, but its dtype is bool; to hide keys use mask=",
    ),
    ("softcap 0", {"softcap": 0}, ArgumentError, "softcap must be positive, or None for none, but it is 0"),
    ("softcap -1", {"softcap": -1.0}, ArgumentError, "softcap must be positive, or None for none, but it is -1.0"),
    ("softcap nan", {"softcap": np.nan}, ArgumentError, "softcap must be a finite number, but it is nan"),
    ("sinks", {"sinks": np.zeros(3)}, ShapeError, "sinks must have shape (2,), one per head, but its shape is (3,)"),
    ("ragged k", {"k": [[1.0], [2.0, 3.0]]}, ShapeError, "k is no array: its rows are not of one length"),
    ("ragged mask", {"mask": [[True], [True, False]]}, ShapeError, "mask is no array: its rows are not of one length"),
    ("ragged bias", {"bias": [[1.0], [2.0, 3.0]]}, ShapeError, "bias is no array: its rows are not of one length"),
    ("ragged offset", {"offset": [[1], [2, 3]]}, ShapeError, "offset is no array: its rows are not of one length"),
    (
        "masked q", {"q": np.ma.masked_array(np.ones((2, 5, 3)))}, DtypeError,
        "q is a masked array, whose mask would be ignored; give q.data, or q.filled(...)",
    ),
    (
        "masked mask", {"mask": np.ma.masked_array(np.ones(7, bool))}, DtypeError,
        "mask is a masked array, whose mask would be ignored; give mask.data, or mask.filled(...)",
    ),
    ("causal in words", {"causal": "no"}, ArgumentError, "causal must be True or False, but it is 'no'"),
    ("causal 1", {"causal": 1}, ArgumentError, "causal must be True or False, but it is 1"),
    (
        "causal array", {"causal": np.ones((2, 2), bool)}, ArgumentError,
        "causal must be True or False, but it is array([[ True,  True],\\n       [ True,  True]])",
    ),
    ("scale [0.5]", {"scale": np.array([0.5])}, ArgumentError, "scale must be a finite number, but it is array([0.5])"),
    ("one sink", {"sinks": 1.0}, ShapeError, "sinks must have shape (2,), one per head, but its shape is ()"),
]  # fmt: skip


@each_dtype
@pytest.mark.parametrize(("changes", "kind", "line"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_rule_12_one_line(dtype: Any, changes: dict[str, Any], kind: type[QkvError], line: str) -> None:
    call = dict(zip("qkv", arrays(dtype)))
    call |= {name: np.ones(x, dtype) if isinstance(x, tuple) else x for name, x in changes.items()}
    with pytest.raises(kind) as error:
        qkv.attention(**call)
    assert str(error.value) == line
    assert isinstance(error.value, ValueError | TypeError)
    assert error.value.__cause__ is None


ONES, RAGGED = np.ones((2, 3)), [[1.0], [2.0, 3.0]]
Q = np.ones((1, 2, 3))
AXIS = "axis must be an integer from -2 to 1, but it is "
EPS = "eps must be a number of at least 0, but it is "
BEYOND: list[tuple[Callable[[], Any], str]] = [
    (lambda: qkv.softmax(ONES, axis=2), AXIS + "2"),
    (lambda: qkv.softmax(ONES, axis=1.0), AXIS + "1.0"),
    (lambda: qkv.softmax(ONES, axis=None), AXIS + "None"),
    (lambda: qkv.softmax(RAGGED), "x is no array: its rows are not of one length"),
    (
        lambda: qkv.softmax(np.ma.masked_array([1.0, 2.0], [True, False])),
        "x is a masked array, whose mask would be ignored; give x.data, or x.filled(...)",
    ),
    (lambda: qkv.logsumexp(ONES, axis=-3), AXIS + "-3"),
    (lambda: qkv.log_softmax(ONES, axis="last"), AXIS + "'last'"),
    (lambda: qkv.layer_norm(ONES, axis=2), AXIS + "2"),
    (lambda: qkv.rms_norm(ONES, axis=(0, 7)), AXIS + "7"),
    (lambda: qkv.rms_norm(ONES, axis=(1, -1)), "axis must be an axis, or different ones, but it is (1, -1)"),
    (lambda: qkv.layer_norm(ONES, eps=-1e-5), EPS + "-1e-05"),
    (lambda: qkv.rms_norm(ONES, eps=np.nan), "eps must be a finite number, but it is nan"),
    (lambda: qkv.layer_norm(ONES, eps="a"), "eps must be a finite number, but it is 'a'"),
    (lambda: qkv.layer_norm(3.0), "x must have at least 1 axes (..., d_model), but its shape is ()"),
    (lambda: qkv.layer_norm(ONES, RAGGED), "gamma is no array: its rows are not of one length"),
    (lambda: ops.linear_attention(Q, Q, Q, causal="no"), "causal must be True or False, but it is 'no'"),
    (
        lambda: qkv.scaled_dot_product_attention(Q, Q, Q, dropout_p="a"),
        "dropout_p must be a finite number, but it is 'a'",
    ),
    (lambda: qkv.scaled_dot_product_attention(Q, Q, Q, dropout_p=1.5), "dropout_p must be from 0 to 1, but it is 1.5"),
    (
        lambda: qkv.scaled_dot_product_attention(Q, Q, Q, is_causal="no"),
        "is_causal must be True or False, but it is 'no'",
    ),
    (lambda: qkv.scaled_dot_product_attention(Q, Q, Q, enable_gqa=2), "enable_gqa must be True or False, but it is 2"),
    (
        lambda: qkv.scaled_dot_product_attention(Q, Q, Q, attn_mask=np.ones((2, 2), int)),
        "attn_mask must be boolean (True = may look) or floating-point (added to the scores), "
        "but its dtype is int64: attn_mask.astype(bool) or attn_mask.astype(float) says which",
    ),
    (
        lambda: qkv.scaled_dot_product_attention(Q, Q, Q, attn_mask=RAGGED),
        "attn_mask is no array: its rows are not of one length",
    ),
    (lambda: qkv.rope(ONES[:, :2], [0, np.nan]), "positions must be finite everywhere, but it is nan"),
    (lambda: qkv.rope(ONES[:, :2], [-np.inf, 0]), "positions must be finite everywhere, but it is -inf"),
    (
        lambda: qkv.rope(ONES[:, :2], [0, 1], scaling="linear"),
        "scaling must be one of qkv.ops.scaling, or None, but it is 'linear'",
    ),
    (lambda: qkv.rope(ONES[:, :2], [0, 1], base=0), "base must be a number above 0, but it is 0"),
    (lambda: qkv.rope(ONES[:, :2], [0, 1], base=-2.0), "base must be a number above 0, but it is -2.0"),
    (lambda: qkv.rope(ONES[:, :2], [0, 1], base=np.inf), "base must be a finite number, but it is inf"),
    (lambda: qkv.rope(ONES[:, :2], [0, 1], base="a"), "base must be a finite number, but it is 'a'"),
    (lambda: qkv.rope(ONES, [0, 1], rotary_dim=2.0), "rotary_dim must be even and at most d=3, but it is 2.0"),
    (lambda: qkv.rope(ONES, [0, 1], rotary_dim=-2), "rotary_dim must be even and at most d=3, but it is -2"),
    (
        lambda: qkv.rope(ONES[:, :2], (RAGGED, ONES)),  # type: ignore[arg-type]
        "positions is no array: its rows are not of one length",
    ),
    (
        lambda: qkv.rope(ONES[:, :2], (ONES,)),  # type: ignore[arg-type]
        "positions has shape (1, 2, 3), which does not fit the rows (2,) of x",
    ),
    (lambda: ops.rope_frequencies("a"), "rotary_dim must be even and not negative, but it is 'a'"),
    (lambda: ops.rope_tables([0, 1], 4, base=-2), "base must be a number above 0, but it is -2"),
    (lambda: qkv.sinusoidal_positions(-4, 8), "n must be an integer of at least 0, but it is -4"),
    (lambda: qkv.sinusoidal_positions(4, 8.0), "d_model must be an integer of at least 0, but it is 8.0"),
    (lambda: qkv.sinusoidal_positions(4, 8, base=0), "base must be a number above 0, but it is 0"),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("call", "line"), BEYOND, ids=[row[1][:40] for row in BEYOND])
def test_rule_12_one_line_beyond_attention(call: Callable[[], Any], line: str) -> None:
    with pytest.raises(QkvError) as error:
        call()
    assert str(error.value) == line
    assert error.value.__cause__ is None


@pytest.mark.filterwarnings("error")
def test_rule_11_norms_without_eps_give_nan_without_a_warning() -> None:
    assert np.isnan(qkv.layer_norm(np.ones((2, 3)), eps=0)).all()
    assert np.isnan(qkv.rms_norm(np.zeros((2, 3)), eps=0)).all()
    assert np.isnan(qkv.layer_norm([[np.inf, 1.0]])).all()


def unfitting() -> dict[str, Callable[[], Any]]:
    x = np.ones
    return {
        "linear_attention, batch": lambda: ops.linear_attention(x((2, 3, 4)), x((3, 3, 4)), x((3, 3, 4))),
        "swiglu, d_model": lambda: ops.swiglu(x((5, 7)), x((3, 2)), x((3, 2)), x((2, 3))),
        "geglu, d_ff": lambda: ops.geglu(x((5, 3)), x((3, 2)), x((3, 7)), x((2, 3))),
        "latent_attention, T of q_rope": lambda: ops.latent_attention(
            x((2, 3, 5)), x((7, 6)), x((2, 6, 5)), x((2, 6, 5)), q_rope=x((2, 4, 2)), k_rope=x((7, 2))
        ),
        "SelfAttention, d_model": lambda: qkv.layers.SelfAttention.init(5, 3)(x((7, 4))),
        "MultiHeadAttention, d_model": lambda: qkv.layers.MultiHeadAttention.init(12, 3)(x((7, 11))),
        "MultiHeadAttention, d_context": lambda: qkv.layers.MultiHeadAttention.init(12, 3)(x((7, 12)), x((5, 11))),
        "LatentAttention, d_model": lambda: qkv.layers.LatentAttention.init(12, 3, 5)(x((7, 11))),
        "FeedForward, d_model": lambda: qkv.layers.FeedForward.init(5, 3)(x((7, 4))),
        "GatedFeedForward, d_model": lambda: qkv.layers.GatedFeedForward.init(5, 3)(x((7, 4))),
        "MultiHeadAttention, return_weights": lambda: qkv.layers.MultiHeadAttention.init(12, 3)(
            x((7, 12)), return_weights=True
        ),
    }


@pytest.mark.parametrize("name", unfitting())
def test_rule_12_holds_beyond_attention(name: str) -> None:
    with pytest.raises(QkvError):
        unfitting()[name]()
