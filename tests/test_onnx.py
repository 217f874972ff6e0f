"""ONNX's own conformance cases, through the public functions: only the spelling is translated here."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.onnx_cases import Case, cases

import qkv
import qkv.ops

COUNTS = {
    "Attention": 93,
    "RotaryEmbedding": 8,
    "RMSNormalization": 19,
    "LayerNormalization": 19,
    "Gelu": 4,
    "Softmax": 7,
    "LogSoftmax": 7,
    "Swish": 1,
}
# A case states its own tolerance, meant for float32. ONNX rounds scores and weights to bfloat16 on the way, qkv only
# the result: that is one unit in the last place of bfloat16 (2^-8), and 1.6e-2 is PyTorch's tolerance for it.
RTOL = {np.dtype(ml_dtypes.bfloat16): 1.6e-2}
# qk_matmul_output_mode -> what the trace calls it, the first that was computed. Mode 2 is "after bias and mask".
TRACED = {
    0: ["scores"],
    1: ["capped", "scores"],
    2: ["masked", "biased", "capped", "scores"],
    3: ["weights"],
}


def of(operator: str) -> Any:
    return pytest.mark.parametrize("case", cases(operator), ids=repr)


@pytest.mark.parametrize(("operator", "count"), COUNTS.items())
def test_no_case_has_disappeared(operator: str, count: int) -> None:
    found = cases(operator)
    assert len(found) == count
    assert len({case.name for case in found}) == count


def agree(case: Case, not_offered: set[str] = frozenset(), /, **results: np.ndarray) -> None:
    assert results.keys() == case.outputs.keys() - not_offered
    for name, result in results.items():
        golden = case.outputs[name]
        assert result.dtype == golden.dtype, name
        assert result.shape == golden.shape, name
        rtol = RTOL.get(golden.dtype, case.rtol)
        np.testing.assert_allclose(
            result.astype(np.float64), golden.astype(np.float64), rtol=rtol, atol=case.atol, err_msg=name
        )


def split_heads(x: np.ndarray, n_heads: int) -> np.ndarray:
    """(B, T, H d) -> (B, H, T, d)"""
    return x.reshape(*x.shape[:2], n_heads, -1).swapaxes(1, 2)


def join_heads(x: np.ndarray) -> np.ndarray:
    """(B, H, T, d) -> (B, T, H d)"""
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)


def visibility(case: Case, Tq: int, Tk: int) -> dict[str, Any]:
    """ONNX's one attn_mask, which may be boolean or added, and short, as `mask` and `bias`; unused keys as padding."""
    given = case.inputs.get("attn_mask")
    real = case.inputs.get("nonpad_kv_seqlen")
    padding = None if real is None else qkv.masks.padding(real)
    if given is None:
        return {} if padding is None else {"mask": padding}
    is_boolean = given.dtype == bool
    short = [(0, 0)] * (given.ndim - 1) + [(0, Tk - given.shape[-1])]
    whole = np.pad(given, short, constant_values=False if is_boolean else -np.inf)
    if not is_boolean:
        return {"bias": whole} if padding is None else {"bias": whole, "mask": padding}
    return {"mask": whole if padding is None else whole & padding(range(Tq), range(Tk))}


def positions(case: Case, Tq: int) -> dict[str, Any]:
    """Causality and windows, with the place of the first query: after the past, or such that the last real key fits."""
    left, right = (case.attributes.get(name, -1) for name in ("left_window_size", "right_window_size"))
    asked: dict[str, Any] = {}
    if case.attributes.get("is_causal"):
        asked["causal"] = True
    if (left, right) != (-1, -1):
        asked["window"] = tuple(None if size < 0 else size for size in (left, right))
    if not asked:
        return {}
    if "nonpad_kv_seqlen" in case.inputs:
        return {**asked, "offset": case.inputs["nonpad_kv_seqlen"] - Tq}
    past = case.inputs.get("past_key")
    return {**asked, "offset": 0 if past is None else past.shape[-2]}


def called(case: Case) -> tuple[list[np.ndarray], dict[str, Any]]:
    """The positional and keyword arguments of `qkv.attention`, the past in front of k and v."""
    q, k, v = (case.inputs[name] for name in "QKV")
    if q.ndim == 3:
        n_heads, n_kv_heads = case.attributes["q_num_heads"], case.attributes["kv_num_heads"]
        q, k, v = split_heads(q, n_heads), split_heads(k, n_kv_heads), split_heads(v, n_kv_heads)
    if "past_key" in case.inputs:
        k = np.concatenate([case.inputs["past_key"], k], axis=-2)
        v = np.concatenate([case.inputs["past_value"], v], axis=-2)
    asked = {
        **visibility(case, q.shape[-2], k.shape[-2]),
        **positions(case, q.shape[-2]),
        "scale": case.attributes.get("scale"),
        "softcap": case.attributes.get("softcap") or None,
    }
    return [q, k, v], asked


@of("Attention")
def test_attention(case: Case) -> None:
    (q, k, v), asked = called(case)
    out = qkv.attention(q, k, v, **asked)
    results = {"Y": join_heads(out) if case.inputs["Q"].ndim == 3 else out}
    if "present_key" in case.outputs:
        results |= {"present_key": k, "present_value": v}
    if "qk_matmul_output" in case.outputs:
        with qkv.record() as trace:
            qkv.attention(q, k, v, **asked)
        names = [f"attention.{name}" for name in TRACED[case.attributes.get("qk_matmul_output_mode", 0)]]
        results["qk_matmul_output"] = trace[next(name for name in names if name in trace)].astype(q.dtype)
    agree(case, **results)


@of("RotaryEmbedding")
def test_rotary_embedding(case: Case) -> None:
    x, cos, sin = (case.inputs[name] for name in ("input", "cos_cache", "sin_cache"))
    if "position_ids" in case.inputs:
        cos, sin = cos[case.inputs["position_ids"]], sin[case.inputs["position_ids"]]
    turned = qkv.ops.rope(
        split_heads(x, case.attributes["num_heads"]) if x.ndim == 3 else x,
        (cos, sin),
        layout="interleaved" if case.attributes.get("interleaved") else "half",
        rotary_dim=case.attributes.get("rotary_embedding_dim") or None,
    )
    agree(case, output=join_heads(turned) if x.ndim == 3 else turned)


def last_axes(case: Case) -> tuple[int, ...]:
    """ONNX normalises every axis from `axis` on."""
    n_axes = case.inputs["X"].ndim
    return tuple(range(case.attributes.get("axis", -1) % n_axes, n_axes))


@of("RMSNormalization")
def test_rms_normalization(case: Case) -> None:
    x, gamma = case.inputs["X"], case.inputs["W"]
    agree(case, Y=qkv.ops.rms_norm(x, gamma, eps=case.attributes.get("epsilon", 1e-5), axis=last_axes(case)))


@of("LayerNormalization")
def test_layer_normalization(case: Case) -> None:
    x, gamma, beta = (case.inputs[name] for name in "XWB")
    axis, eps = last_axes(case), case.attributes.get("epsilon", 1e-5)
    # Mean and InvStdDev, for ONNX's backward pass, are no results of qkv's function.
    agree(case, {"Mean", "InvStdDev"}, Y=qkv.ops.layer_norm(x, gamma, beta, eps=eps, axis=axis))


@of("Gelu")
def test_gelu(case: Case) -> None:
    agree(case, y=qkv.ops.gelu(case.inputs["x"], approximate=case.attributes.get("approximate", "none")))


@of("Softmax")
def test_softmax(case: Case) -> None:
    agree(case, y=qkv.softmax(case.inputs["x"], axis=case.attributes.get("axis", -1)))


@of("LogSoftmax")
def test_log_softmax(case: Case) -> None:
    agree(case, y=qkv.ops.log_softmax(case.inputs["x"], axis=case.attributes.get("axis", -1)))


@of("Swish")
def test_swish(case: Case) -> None:
    assert case.attributes["alpha"] == 1.0  # SiLU is Swish with alpha 1
    agree(case, y=qkv.ops.silu(case.inputs["x"]))
