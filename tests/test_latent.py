"""Latent attention as DeepSeek has it, held to the form in which every head's keys and values are written out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.decoder_fixture import byte_tokenizer, known, tiny

import qkv
from qkv.layers import KVCache, LatentAttention, LayerNorm, RMSNorm, Rotary
from qkv.models import load
from qkv.ops import masks
from qkv.ops.scaling import Yarn
from qkv.walkthrough import see

H, D_K, D_V, D_ROPE, D_LATENT, D_Q, D_MODEL, T = 3, 7, 5, 4, 11, 13, 17, 19
STRETCHED = Rotary(100.0, "interleaved", scaling=Yarn(3.0, 5, mscale=0.7, mscale_all_dim=0.9))
CLOSE: dict[str, float] = {"rtol": 0, "atol": 1e-12}


def drawn(seed: int = 1, d_q: int | None = D_Q, **changes: Any) -> LatentAttention:
    """Every weight random, norms and biases too."""
    layer = LatentAttention.init(D_MODEL, H, D_LATENT, d_k=D_K, d_v=D_V, d_q=d_q, d_rope=D_ROPE, normed=True, seed=seed)
    random = np.random.default_rng(seed)
    for norm in (layer.q_norm, layer.latent_norm):
        if norm is not None:
            norm.gamma = random.normal(1, 0.3, norm.gamma.shape)
    biases = {"b_DQ": d_q, "b_DKV": D_LATENT, "b_KR": D_ROPE, "b_O": D_MODEL}
    values = {name: random.normal(size=size) for name, size in biases.items() if size}
    return replace(layer, rotary=STRETCHED, rules={"scale": 0.31}, **values, **changes)


def unfolded(layer: LatentAttention, x: np.ndarray, positions: np.ndarray, **rules: Any) -> np.ndarray:
    """(T, d_model): keys and values of each head, the turned key beside each, then plain attention head by head."""

    def rms(x: np.ndarray, gamma: np.ndarray) -> np.ndarray:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * gamma

    source = x if layer.W_DQ is None else rms(x @ layer.W_DQ + layer.b_DQ, layer.q_norm.gamma)
    latent = rms(x @ layer.W_DKV + layer.b_DKV, layer.latent_norm.gamma)
    turned = layer.rotary(x @ layer.W_KR + layer.b_KR, positions)
    outs = []
    for h in range(H):
        still, turning, out = (slice(h * d, (h + 1) * d) for d in (D_K, D_ROPE, D_V))
        q = np.hstack([source @ layer.W_Q[:, still], layer.rotary(source @ layer.W_QR[:, turning], positions)])
        k = np.hstack([latent @ layer.W_UK[:, still], turned])
        outs.append(qkv.attention(q, k, latent @ layer.W_UV[:, out], **{**layer.rules, **rules}))
    return np.hstack(outs) @ layer.W_O + layer.b_O


@pytest.mark.parametrize("unfolds", [True, False])
@pytest.mark.parametrize("d_q", [D_Q, None])
@pytest.mark.parametrize("rules", [{}, {"causal": True}, {"causal": True, "window": 5, "scale": 0.2, "softcap": 2.0}])
def test_equals_the_unfolded_form(
    unfolds: bool, d_q: int | None, rules: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LatentAttention, "_unfolds", lambda self, Tq, Tk: unfolds)
    layer, x = drawn(d_q=d_q), np.random.default_rng(2).normal(size=(2, T, D_MODEL))
    expected = np.stack([unfolded(layer, row, np.arange(T), **rules) for row in x])
    np.testing.assert_allclose(layer(x, **rules), expected, **CLOSE)
    np.testing.assert_allclose(layer(x[1], **rules), expected[1], **CLOSE)


def test_the_scale_is_that_of_both_parts_unless_a_rule_says_else() -> None:
    layer, x = drawn(), np.random.default_rng(2).normal(size=(T, D_MODEL))
    plain, said = replace(layer, rules={}), replace(layer, rules={"scale": 1 / np.sqrt(D_K + D_ROPE)})
    np.testing.assert_allclose(plain(x, causal=True), said(x, causal=True), **CLOSE)
    assert np.abs(plain(x, causal=True) - layer(x, causal=True)).max() > 1e-3


def test_positions_of_each_member_and_ready_tables() -> None:
    layer, x = drawn(), np.random.default_rng(3).normal(size=(2, T, D_MODEL))
    positions = np.stack([np.arange(T) - 2, np.arange(T) * 3])
    expected = np.stack([unfolded(layer, row, at, causal=True) for row, at in zip(x, positions)])
    np.testing.assert_allclose(layer(x, causal=True, positions=positions), expected, **CLOSE)
    tables = layer.rotary.tables(positions, D_ROPE)
    np.testing.assert_allclose(layer(x, causal=True, positions=tables), expected, **CLOSE)


def test_padding_on_the_left_changes_nothing() -> None:
    layer, start = drawn(), 5
    x = np.random.default_rng(4).normal(size=(2, T, D_MODEL))
    x[1, :start] = np.nan
    positions = np.stack([np.arange(T), np.arange(T) - start])
    hidden = ~masks.padding([0, start])
    cache, outs = KVCache(), []
    for part in np.split(np.arange(T), [7, 8]):
        rules = {"mask": hidden, "cache": cache, "causal": True, "positions": positions[:, part]}
        outs.append(layer(np.nan_to_num(x[:, part]), **rules))
    together = np.concatenate(outs, axis=1)
    np.testing.assert_allclose(together[0], layer(x[0], causal=True), **CLOSE)
    np.testing.assert_allclose(together[1, start:], layer(x[1, start:], causal=True), **CLOSE)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_cache_holds_the_latent_and_the_turned_key_alone(dtype: Any) -> None:
    layer, cache = drawn(), KVCache()
    for name in vars(layer):
        if isinstance(value := getattr(layer, name), np.ndarray):
            setattr(layer, name, value.astype(dtype))
    for norm in (layer.q_norm, layer.latent_norm):
        assert isinstance(norm, LayerNorm | RMSNorm)
        norm.gamma = norm.gamma.astype(dtype)
    x = np.random.default_rng(5).normal(size=(T, D_MODEL)).astype(dtype)
    parts = [layer(part, cache=cache, causal=True) for part in np.split(x, [2, 3, 11])]
    assert cache.nbytes == T * (D_LATENT + D_ROPE) * np.dtype(dtype).itemsize
    tolerance = 1e-5 if dtype is np.float32 else 1e-12
    np.testing.assert_allclose(np.concatenate(parts), layer(x, causal=True), rtol=0, atol=tolerance)


def test_the_size_of_a_published_cache() -> None:
    """DeepSeek-V3: 61 layers of a latent 512 wide and a turned key 64 wide, at 16 bits."""
    cache, random = KVCache(), np.random.default_rng(0)
    cache.append(random.normal(size=(1, 512)).astype(np.float16), random.normal(size=(1, 64)).astype(np.float16))
    assert 61 * cache.nbytes == 70272


def test_few_queries_stay_in_the_space_of_the_latents_unless_somebody_watches() -> None:
    layer = LatentAttention.init(D_MODEL, H, 512, d_k=128, d_v=128, d_rope=64)
    assert [layer._unfolds(Tq, 1000) for Tq in (1, 100, 300)] == [False, False, True]
    with qkv.record():
        assert layer._unfolds(1, 1000)


def test_what_is_seen() -> None:
    layer, x = drawn(), np.random.default_rng(6).normal(size=(T, D_MODEL))
    with qkv.record() as trace:
        layer(x, causal=True)
    assert trace["attention.compressed"].shape == (T, D_Q)
    assert trace["attention.latent"].shape == (T, D_LATENT)
    assert trace["attention.k_rot"].shape == (H, T, D_K + D_ROPE)
    assert trace["attention.weights"].shape == (H, T, T)
    assert trace["attention.out"].shape == (H, T, D_V)
    np.testing.assert_allclose(trace["attention.weights"].sum(-1), 1, **CLOSE)
    without = drawn(d_q=None)
    with qkv.record() as trace:
        without(x, causal=True)
    assert "attention.compressed" not in trace


@pytest.mark.parametrize("fault", ["q_norm", "latent_norm", "b_KR", "b_DQ"])
def test_every_part_counts(fault: str) -> None:
    layer, x = drawn(), np.random.default_rng(7).normal(size=(T, D_MODEL))
    assert np.abs(layer(x, causal=True) - replace(layer, **{fault: None})(x, causal=True)).max() > 1e-3


def test_a_whole_model_can_be_watched_and_edited() -> None:
    model, ids = tiny("deepseek_v3"), known("deepseek_v3")["7.ids"]
    with qkv.record("*.attention.weights") as trace:
        watched = model(ids)
    assert [trace[path].shape for path in trace] == [(5, 7, 7)] * 3
    assert list(trace) == [f"layers.{i}.attention.weights" for i in range(3)]
    np.testing.assert_allclose(watched, model(ids), rtol=0, atol=1e-5)
    with qkv.edit({"layers.1.attention.out": qkv.edits.zero(head=2)}):
        edited = model(ids)
    without = load(model.directory)
    without.layers[1].attention.W_O[2 * 3 : 3 * 3] = 0
    np.testing.assert_allclose(edited, without(ids), rtol=0, atol=1e-5)


def test_every_head_of_a_whole_model_can_be_seen(tmp_path: Path) -> None:
    model = load(tiny("deepseek_v3").directory)
    model.tokenizer = byte_tokenizer(tmp_path)
    seen = see(model, "ABBA!", layer=2, head=4)
    assert [weights.shape for weights in seen.weights] == [(5, 5, 5)] * 3
    shown = {name: seen.trace[f"layers.2.attention.{name}"][4] for name in ("q_rot", "k_rot", "scores")}
    scale = model.layers[2].attention.rules["scale"]
    np.testing.assert_allclose(shown["q_rot"] @ shown["k_rot"].T * scale, shown["scores"], rtol=0, atol=1e-5)


def test_cached_decoding_of_a_whole_model_stays_in_the_space_of_the_latents() -> None:
    """One token at a time gives what one pass gives, and the caches are as small as they are said to be."""
    model, ids = tiny("deepseek_v2"), known("deepseek_v2")["23.ids"]
    caches = model.new_caches()
    parts = [model.logits(ids[i : i + 1], caches) for i in range(23)]
    np.testing.assert_allclose(np.concatenate(parts), model.logits(ids), rtol=0, atol=1e-4)
    assert [cache.nbytes for cache in caches] == [23 * (8 + 4) * 4] * 3
