"""Values that PyTorch computed in float64, stored; `scripts/make_torch_goldens.py` says how."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qkv
import qkv.ops

DATA = Path(__file__).parent / "data" / "torch_goldens.npz"
# Both sides sum the same float64 products in different orders. Sums of up to 7 terms and one exp leave a few units of
# 2^-53 = 1.1e-16; measured against the largest value of the array. Scores of size s carry an error of s units into
# the exponential, hence the factor for a large scale.
FLOAT64 = 4e-15
# Inputs are exact in float32, so only the arithmetic differs: the same few units, of 2^-24 = 6e-8.
FLOAT32 = 2e-6


@functools.cache
def stored() -> tuple[dict[str, dict[str, Any]], dict[str, np.ndarray]]:
    with np.load(DATA) as file:
        arrays = {name: file[name] for name in file.files}
    return json.loads(str(arrays.pop("calls"))), arrays


def golden(case: str) -> dict[str, np.ndarray]:
    """The arrays of one case, numbers as float64."""
    found = {name.split("/")[1]: a for name, a in stored()[1].items() if name.split("/")[0] == case}
    return {name: a.astype(np.float64) if a.dtype == np.float16 else a for name, a in found.items()}


def called(case: str) -> dict[str, Any]:
    """Keyword arguments; JSON has no tuples."""
    return {name: tuple(v) if isinstance(v, list) else v for name, v in stored()[0][case].items()}


def of(family: str, count: int) -> Any:
    """Every case of a family; the count is stated so that a file with fewer cases fails."""
    found = [case for case in stored()[0] if case.startswith(family)]
    assert len(found) == count, f"{family}: {len(found)} cases"
    return pytest.mark.parametrize("case", found)


def agree(result: Any, expected: np.ndarray, tolerance: float = FLOAT64) -> None:
    """Same shape, same NaN and infinities, and no further apart than `tolerance` of the largest value."""
    result = np.asarray(result)
    assert result.shape == expected.shape
    size = np.abs(expected[np.isfinite(expected)]).max(initial=0)
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=0, atol=tolerance * max(size, 1e-300))


def growth(call: dict[str, Any]) -> float:
    return max(1.0, abs(call.get("scale") or 1.0))


@of("attention.", 36)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, FLOAT64), (np.float32, FLOAT32)])
def test_attention(case: str, dtype: type, tolerance: float) -> None:
    arrays, call = golden(case), called(case)
    given = {n: a.astype(dtype) if a.dtype == np.float64 else a for n, a in arrays.items() if n in INPUTS}
    out, weights, lse = qkv.attention(**given, **call, return_weights=True, return_lse=True)
    assert out.dtype == weights.dtype == lse.dtype == dtype
    tolerance *= growth(call)
    agree(out, arrays["out"], tolerance)
    agree(weights, arrays["weights"], tolerance)
    agree(lse, arrays["lse"], tolerance)
    np.testing.assert_array_equal(qkv.attention(**given, **call), out)


INPUTS = ("q", "k", "v", "mask", "bias", "sinks")


@of("poison.", 8)
def test_a_hidden_key_is_never_read(case: str) -> None:
    arrays, call = golden(case), called(case)
    out = qkv.attention(arrays["q"], arrays["k"], arrays["v"], mask=arrays["mask"], **call)
    agree(out, arrays["out"])
    clean = qkv.attention(arrays["q"], arrays["clean_k"], arrays["clean_v"], mask=arrays["mask"], **call)
    unread = ~np.isnan(arrays["out"])
    np.testing.assert_array_equal(out[unread], clean[unread])


@of("sdpa.", 10)
def test_scaled_dot_product_attention(case: str) -> None:
    arrays = golden(case)
    given = [arrays[n] for n in "qkv"]
    out = qkv.scaled_dot_product_attention(*given, attn_mask=arrays.get("attn_mask"), **called(case))
    agree(out, arrays["out"])


@of("attention.", 36)
def test_stored_gradients_are_gradients_of_the_definition(case: str) -> None:
    """d_out . (change of out) = sum over inputs of gradient . change, for a small step in a random direction.

    Keeps the stored gradients honest until a backward pass is compared with them, and checks that the definition and
    torch agree on what every input does. Central difference: error step^2, about 1e-8 of the size of the terms.
    """
    arrays, call = golden(case), called(case)
    moved = [n for n in INPUTS if n in arrays and n != "mask"]
    random = np.random.default_rng(3)
    ways = {n: random.standard_normal(arrays[n].shape) for n in moved}
    step = 1e-5 / growth(call)

    def out(sign: int) -> np.ndarray:
        there = {n: arrays[n] + sign * step * ways[n] for n in moved}
        mask = {"mask": arrays["mask"]} if "mask" in arrays else {}
        return qkv.attention(**there, **mask, **call)

    slope = np.sum(arrays["d_out"] * (out(1) - out(-1))) / (2 * step)
    terms = [np.sum(arrays[f"d_{n}"] * ways[n]) for n in moved]
    size = sum(np.abs(arrays[f"d_{n}"]).sum() for n in moved)
    assert abs(slope - sum(terms)) <= 1e-8 * growth(call) * size


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
def test_softmax(name: str, axis: int) -> None:
    arrays = golden("softmax")
    agree(getattr(qkv.ops, name)(arrays["x"], axis=axis), arrays[f"{name}_{axis % 3}"])


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(approximate: str) -> None:
    arrays = golden("gelu")
    result, expected = qkv.ops.gelu(arrays["x"], approximate=approximate), arrays[approximate]
    agree(result, expected)
    # Far to the left the value is tiny. erfc keeps its digits there; torch's 1 + erf and 1 + tanh lose them below
    # about 1e-16 of x, so a comparison relative to each value ends where the golden itself has no digits left.
    known = arrays["x"] > -5
    np.testing.assert_allclose(result[known], expected[known], rtol=1e-10, atol=0)


def test_silu() -> None:
    arrays = golden("silu")
    np.testing.assert_allclose(qkv.ops.silu(arrays["x"]), arrays["out"], rtol=1e-15, atol=0)


@of("norm.", 3)
def test_norms(case: str) -> None:
    arrays, call = golden(case), called(case)
    x, gamma, beta = arrays["x"], arrays["gamma"], arrays["beta"]
    agree(qkv.ops.layer_norm(x, gamma, beta, **call), arrays["layer"])
    agree(qkv.ops.layer_norm(x, **call), arrays["layer_plain"])
    agree(qkv.ops.rms_norm(x, gamma, **call), arrays["rms"])


def test_cross_entropy() -> None:
    arrays = golden("cross_entropy")
    logits, targets = arrays["logits"], arrays["targets"]
    agree(qkv.ops.cross_entropy(logits, targets), arrays["mean"])
    agree(qkv.ops.cross_entropy(logits, targets, reduction="none"), arrays["each"])
    agree(qkv.ops.cross_entropy(logits, targets, reduction="sum"), arrays["each"].sum())
    agree(qkv.ops.cross_entropy(logits, arrays["partly"], ignore=-100), arrays["ignored"])


@of("rope.", 2)
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rope(case: str, layout: str) -> None:
    arrays, call = golden(case), called(case)
    turned = qkv.ops.rope(arrays["x"], arrays["positions"], layout=layout, **call)
    # An angle of up to 101 radians keeps an absolute error of 101 units of 2^-53, on either side.
    agree(turned, arrays[layout], 101 * 2.0**-52)
