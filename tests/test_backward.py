"""Gradients: against PyTorch's, against differences of the function itself, and under every rule of the edges."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.test_torch_goldens import INPUTS, called, golden, growth, of
from tests.tiled_cases import HKV, LOOKS, SCORES, SMALL_TILES, B, H, N, agree, arrays, draw

import qkv
from qkv.errors import ShapeError
from qkv.ops import attention_backward, config

FLOAT64 = 1e-14
TILES = [{}, SMALL_TILES, {"threads": 5, "key_tile": 31}]
NAMES = ("q", "k", "v", "bias", "sinks")


def gradients(d_out: Any, q: Any, k: Any, v: Any, **rules: Any) -> dict[str, np.ndarray]:
    out, lse = qkv.attention(q, k, v, return_lse=True, **rules)
    found = attention_backward(d_out, q, k, v, out, lse, **rules)
    given = [name for name in NAMES if name in "qkv" or isinstance(rules.get(name), np.ndarray)]
    assert len(given) == len(found)
    return dict(zip(given, found))


def reference(d_out: Any, q: Any, k: Any, v: Any, **rules: Any) -> dict[str, np.ndarray]:
    """The formulas on whole arrays, from the weights that attention returns."""
    out, weights, lse = qkv.attention(q, k, v, return_weights=True, return_lse=True, **rules)
    group, scale, cap = q.shape[-3] // k.shape[-3], rules.get("scale", q.shape[-1] ** -0.5), rules.get("softcap")
    k, v = np.repeat(k, group, -3), np.repeat(v, group, -3)
    delta = (d_out * out).sum(-1, keepdims=True)
    d_biased = weights * (d_out @ v.mT - delta)
    slope = 1 if cap is None else 1 - np.tanh(q @ k.mT * scale / cap) ** 2
    d_scores = d_biased * slope * scale
    found = {"q": d_scores @ k}
    for name, x in (("k", d_scores.mT @ q), ("v", weights.mT @ d_out)):
        found[name] = x.reshape(*x.shape[:-3], -1, group, *x.shape[-2:]).sum(-3)
    if isinstance(rules.get("bias"), np.ndarray):
        shape = rules["bias"].shape
        extra = tuple(range(d_biased.ndim - len(shape)))
        found["bias"] = d_biased.sum(extra).sum(tuple(a for a, n in enumerate(shape) if n == 1), keepdims=True)
    if "sinks" in rules:
        found["sinks"] = -(np.exp(rules["sinks"][:, None] - lse) * delta[..., 0]).sum((0, -1))
    return found


@of("attention.", 36)
@pytest.mark.parametrize("settings", [{}, {"query_tile": 2, "key_tile": 3, "threads": 3}], ids=str)
def test_torch(case: str, settings: dict[str, Any]) -> None:
    stored, call = golden(case), called(case)
    given = {name: array for name, array in stored.items() if name in INPUTS}
    with config(**settings):
        found = gradients(stored["d_out"], **given, **call)
    for name, gradient in found.items():
        agree(gradient, stored[f"d_{name}"], FLOAT64 * growth(call))


@pytest.mark.parametrize(("look", "scores"), list(itertools.product(LOOKS, SCORES)))
def test_each_rule_with_each_other(look: str, scores: str) -> None:
    rules = {**LOOKS[look], **SCORES[scores]}
    q, k, v = arrays(3, np.float64)
    d_out = draw(B, H, N, v.shape[-1], seed=9, dtype=np.float64)
    expected = reference(d_out, q, k, v, **rules)
    for settings in TILES[:2]:
        with config(**settings):
            for name, gradient in gradients(d_out, q, k, v, **rules).items():
                agree(gradient, expected[name], FLOAT64)


@pytest.mark.parametrize("size", [1, 30, 300])
@pytest.mark.parametrize("settings", TILES, ids=str)
def test_large_scores(size: float, settings: dict[str, Any]) -> None:
    """Rows whose log-sum-exp is far from 0 take another way to their weights."""
    q, k, v = arrays(size, np.float64)
    d_out = draw(B, H, N, v.shape[-1], seed=9, dtype=np.float64)
    expected = reference(d_out, q, k, v, causal=True)
    with config(**settings):
        for name, gradient in gradients(d_out, q, k, v, causal=True).items():
            agree(gradient, expected[name], FLOAT64 * size)


@pytest.mark.parametrize("score", [-200.0, -120.0, 120.0])
def test_every_score_far_below_what_exp_can_hold(score: float) -> None:
    """All equal: weights are even whatever the score, also in a half-filled tile."""
    n = 130
    q, k, v = np.full((n, 1), score, np.float32), np.ones((n, 1), np.float32), draw(n, 3)
    d_out = draw(n, 3, seed=9)
    with config(**SMALL_TILES):
        found = gradients(d_out, q, k, v, scale=1.0)
    # The log-sum-exp itself is a float32: half a unit of 128 is 4e-6, and the weights have that as a relative error.
    agree(found["v"], np.broadcast_to(d_out.mean(0, dtype=np.float64), (n, 3)), 1e-5)
    assert np.isfinite(found["q"]).all()


@pytest.mark.parametrize("rules", ["causal", "window", "padding"])
def test_differences_of_the_function_itself(rules: str) -> None:
    """Central differences with a step of 1e-6 are good to 1e-9 or so."""
    random = np.random.default_rng(1)
    asked = {"mask": qkv.masks.padding([3, 5])} if rules == "padding" else LOOKS[rules]
    shapes = {"q": (2, 4, 5, 3), "k": (2, 2, 5, 3), "v": (2, 2, 5, 7), "sinks": (4,), "bias": (4, 1, 5)}
    given = {name: random.normal(size=shape) for name, shape in shapes.items()}
    d_out = random.normal(size=(2, 4, 5, 7))
    found = gradients(d_out, **given, softcap=2.0, **asked)
    for name, x in given.items():
        direction = random.normal(size=x.shape)
        ends = [qkv.attention(**{**given, name: x + step * direction}, softcap=2.0, **asked) for step in (1e-6, -1e-6)]
        slope = (d_out * (ends[0] - ends[1])).sum() / 2e-6
        np.testing.assert_allclose((found[name] * direction).sum(), slope, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38])
@pytest.mark.parametrize("settings", TILES[:2], ids=str)
@pytest.mark.parametrize("look", sorted(LOOKS.keys() - {"everything"}))
def test_a_hidden_key_changes_no_bit(look: str, settings: dict[str, Any], bad: float) -> None:
    rules = {**LOOKS[look], "softcap": 3.0} if settings else LOOKS[look]
    q, k, v = arrays()
    d_out = draw(B, H, N, v.shape[-1], seed=9)
    poisoned = [x.copy() for x in (k, v)]
    for x in poisoned:
        x[:, :, 70] = bad
    weights = qkv.attention(q, k, v, return_weights=True, **rules)[1]
    sees = weights[..., 70] != 0
    beside = ((weights > 0) & sees[..., None]).any(-2).reshape(B, HKV, -1, N).any(2)
    with config(force="tiled", **settings):
        clean, dirty = (gradients(d_out, q, *kv, **rules) for kv in ((k, v), poisoned))
    assert clean["q"][~sees].tobytes() == dirty["q"][~sees].tobytes()
    for name in "kv":
        assert clean[name][~beside].tobytes() == dirty[name][~beside].tobytes()
    if np.isnan(bad):
        assert np.isnan(dirty["q"][sees]).all()
        assert np.isnan(dirty["k"][beside]).all()


def test_a_row_that_sees_nothing_has_no_gradient_whatever_comes_from_above() -> None:
    q, k, v = arrays(dtype=np.float64)
    d_out = draw(B, H, N, v.shape[-1], seed=9, dtype=np.float64)
    rules = {"causal": True, "offset": -3, "sinks": np.ones(H)}
    expected = gradients(d_out, q, k, v, **rules)
    d_out[:, :, :3], q[:, :, :3] = np.nan, np.inf
    found = gradients(d_out, q, k, v, **rules)
    for name, gradient in found.items():
        assert gradient.tobytes() == expected[name].tobytes()
    np.testing.assert_array_equal(found["q"][:, :, :3], 0)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32], ids=lambda d: d.__name__)
def test_dtypes(dtype: Any) -> None:
    q, k, v = arrays(dtype=dtype)
    d_out = draw(B, H, N, v.shape[-1], seed=9, dtype=dtype)
    found = gradients(d_out, q, k, v, causal=True)
    expected = reference(*(x.astype(np.float64) for x in (d_out, q, k, v)), causal=True)
    rounding = {np.float16: 2e-3, ml_dtypes.bfloat16: 2e-2, np.float32: 3e-6}[dtype]
    for name, gradient in found.items():
        assert gradient.dtype == dtype
        agree(gradient, expected[name], rounding)


def test_axes_that_were_broadcast_are_summed() -> None:
    q, k, v = (draw(*shape, dtype=np.float64) for shape in [(5, 1, 4, 7, 3), (3, 2, 11, 3), (5, 1, 2, 11, 2)])
    d_out = draw(5, 3, 4, 7, 2, seed=9, dtype=np.float64)
    found = gradients(d_out, q, k, v)
    whole = [np.broadcast_to(x, (5, 3, *x.shape[-3:])) for x in (q, k, v)]
    expected = reference(d_out, *whole)
    agree(found["q"], expected["q"].sum(1, keepdims=True), FLOAT64)
    agree(found["k"], expected["k"].sum(0), FLOAT64)
    agree(found["v"], expected["v"].sum(1, keepdims=True), FLOAT64)
    plain = gradients(d_out[0, 0, 0], q[0, 0, 0], k[0, 0], v[0, 0, 0])
    assert [x.shape for x in plain.values()] == [(7, 3), (11, 3), (11, 2)]


@pytest.mark.parametrize("shapes", [((2, 5, 3), (2, 0, 3)), ((2, 0, 3), (2, 5, 3)), ((0, 2, 5, 3), (0, 2, 5, 3))])
def test_empty(shapes: Any) -> None:
    q, k = (np.ones(shape) for shape in shapes)
    for gradient, x in zip(gradients(q, q, k, k).values(), (q, k, k)):
        np.testing.assert_array_equal(gradient, np.zeros_like(x))


@pytest.mark.parametrize("name", ["d_out", "out", "lse"])
def test_a_wrong_shape_is_one_line(name: str) -> None:
    q = np.ones((2, 5, 3))
    given = {"d_out": q, "out": q, "lse": q[..., 0]}
    given[name] = given[name][:1]
    with pytest.raises(ShapeError, match=rf"{name} must have shape \(2, 5(, 3)?\), but its shape is \(1, 5(, 3)?\)"):
        attention_backward(given["d_out"], q, q, q, given["out"], given["lse"])
