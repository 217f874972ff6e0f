"""Matrices side by side in memory: one product gives what several gave, and the matrices are still one's own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from qkv.layers import GatedFeedForward, MultiHeadAttention
from qkv.layers.linear import linear

rng = np.random.default_rng(3)
x = rng.normal(size=(2, 5, 12))


def attention(**more: Any) -> MultiHeadAttention:
    layer = MultiHeadAttention.init(12, 6, n_kv_heads=2, d_k=3, seed=1)
    return replace(layer, b_Q=rng.normal(size=18), b_K=rng.normal(size=6), b_V=rng.normal(size=6), **more)


def gated(**more: Any) -> GatedFeedForward:
    return replace(GatedFeedForward.init(12, 7, seed=1), b_gate=rng.normal(size=7), b_up=rng.normal(size=7), **more)


@pytest.mark.parametrize("make", [attention, gated])
def test_joining_changes_nothing(make: Any) -> None:
    layer = make()
    apart = layer(x)
    layer.join()
    np.testing.assert_allclose(layer(x), apart, rtol=1e-12, atol=1e-14)
    assert layer.joined is not None


def test_cross_attention_is_left_apart() -> None:
    layer = attention()
    context = rng.normal(size=(2, 7, 12))
    apart = layer(x, context)
    layer.join()
    np.testing.assert_array_equal(layer(x, context), apart)


@pytest.mark.parametrize(("make", "name"), [(attention, f"W_{letter}") for letter in "QKV"] + [
    (gated, "W_gate"), (gated, "W_up")])  # fmt: skip
@pytest.mark.parametrize("in_place", [False, True])
def test_a_matrix_that_is_changed_counts(make: Any, name: str, in_place: bool) -> None:
    layer = make()
    expected = replace(layer, **{name: -getattr(layer, name)})(x)
    layer.join()
    if in_place:
        getattr(layer, name)[...] *= -1
    else:
        setattr(layer, name, -getattr(layer, name))
    np.testing.assert_allclose(layer(x), expected, rtol=1e-12, atol=1e-14)


def test_two_that_change_places_count() -> None:
    layer = attention()
    expected = replace(layer, W_K=layer.W_V, W_V=layer.W_K)(x)
    layer.join()
    layer.W_K, layer.W_V = layer.W_V, layer.W_K
    np.testing.assert_allclose(layer(x), expected, rtol=1e-12, atol=1e-14)


def test_dtypes_that_differ_stay_apart() -> None:
    layer = attention()
    layer.W_K = layer.W_K.astype(np.float16)
    layer.join()
    assert layer.joined is None
    assert layer.W_K.dtype == np.float16


def test_memory_is_taken_once() -> None:
    layer = attention()
    layer.join()
    assert all(W.base is layer.W_Q.base for W in (layer.W_K, layer.W_V))


@pytest.mark.parametrize("n_rows", [1, 2, 3, 5, 6, 7])
def test_a_few_rows_of_a_large_matrix(n_rows: int) -> None:
    """A few are multiplied one by one, as files store a matrix; more of them at once: both are the product."""
    W = rng.normal(size=(331, 257)).T
    given = rng.normal(size=(n_rows, 257))
    expected = np.einsum("ni,io->no", given, W)
    np.testing.assert_allclose(linear(given, W), expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(linear(given, np.ascontiguousarray(W)), expected, rtol=1e-11, atol=1e-12)
