"""The contenders: the same arrays, the same number of threads, each library's own fastest documented call."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import qkv.ops

Array = np.ndarray[Any, Any]
Run = Callable[[], Any]


def installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def use_threads(n_threads: int) -> None:
    if installed("torch"):
        import torch

        torch.set_num_threads(n_threads)


def naive(q: Array, k: Array, v: Array, seen: Array | None = None) -> Array:
    """What most people write first."""
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x, group, axis=1) if group > 1 else x for x in (k, v))
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    if seen is not None:
        scores = np.where(seen, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def forward(q: Array, k: Array, v: Array, n_threads: int, *, causal: bool = False, window: int | None = None,
            limit_naive: int = 4096) -> dict[str, Run]:  # fmt: skip
    """One call of attention for each contender. Naive NumPy takes part while its scores fit into memory easily."""
    Tq, Tk = q.shape[-2], k.shape[-2]
    seen = None
    if causal or window:
        i, j = np.arange(Tq)[:, None] + Tk - Tq, np.arange(Tk)
        seen = (j <= i) & (i - j < (window or Tk)) if Tq * Tk <= 1 << 30 else None
    asked: dict[str, Any] = {"causal": causal, "offset": Tk - Tq} if causal else {}
    if window:
        asked |= {"window": window, "offset": Tk - Tq}
    runs: dict[str, Run] = {"qkv": lambda: qkv.ops.attention(q, k, v, **asked)}
    if installed("torch"):
        runs["torch"] = _torch(q, k, v, seen if window else None, causal and not window)
    if installed("onnxruntime") and installed("onnx") and not window:
        runs["onnxruntime"] = _onnxruntime(q, k, v, causal, n_threads)
    if max(Tq, Tk) <= limit_naive:
        runs["naive NumPy"] = lambda: naive(q, k, v, seen)
    return runs


def _torch(q: Array, k: Array, v: Array, seen: Array | None, causal: bool) -> Run:
    import torch
    from torch.nn.functional import scaled_dot_product_attention as attend

    tensors = [torch.from_numpy(x) for x in (q, k, v)]
    mask = None if seen is None else torch.from_numpy(seen)
    grouped = q.shape[1] != k.shape[1]

    def run() -> Any:
        with torch.no_grad():
            return attend(*tensors, attn_mask=mask, is_causal=causal, enable_gqa=grouped)

    return run


def _onnxruntime(q: Array, k: Array, v: Array, causal: bool, n_threads: int) -> Run:
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper

    inputs = {"q": q, "k": k, "v": v}
    node = helper.make_node("Attention", list(inputs), ["out"], is_causal=int(causal))
    graph = helper.make_graph(
        [node], "attention",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name, x in inputs.items()],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, (*q.shape[:-1], v.shape[-1]))],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = n_threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, inputs)


def backward(q: Array, k: Array, v: Array, d_out: Array, causal: bool) -> dict[str, Run]:
    """Forward and backward pass together."""

    def ours() -> Any:
        out, lse = qkv.ops.attention(q, k, v, causal=causal, return_lse=True)
        return qkv.ops.attention_backward(d_out, q, k, v, out, lse, causal=causal)

    runs: dict[str, Run] = {"qkv": ours}
    if installed("torch"):
        runs["torch"] = _torch_backward(q, k, v, d_out, causal)
    return runs


def _torch_backward(q: Array, k: Array, v: Array, d_out: Array, causal: bool) -> Run:
    import torch
    from torch.nn.functional import scaled_dot_product_attention as attend

    tensors = [torch.from_numpy(x).requires_grad_() for x in (q, k, v)]
    above = torch.from_numpy(d_out)

    def run() -> Any:
        return torch.autograd.grad(attend(*tensors, is_causal=causal), tensors, above)

    return run
