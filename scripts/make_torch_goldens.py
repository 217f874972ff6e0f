"""Write tests/data/torch_goldens.npz: what PyTorch computes in float64 on the CPU.

Run it by hand, with torch installed: `python scripts/make_torch_goldens.py`. Nothing in the package imports torch.

The npz maps `case/array` to an array and `calls` to the keyword arguments of every case as JSON. Inputs are multiples
of 1/64, exact in float16, which keeps the file small; results are float64.

Where torch offers the whole function (`scaled_dot_product_attention`), the composition below is first compared with it.
Two places where the golden is not what torch returns:

- A key that is hidden but holds NaN or inf: torch adds its mask to the scores and multiplies every value row, so the
  NaN leaks (0 * NaN). The golden is made from the clean input; rows that do see the poison are NaN.
- A query that sees nothing: softmax of a row of -inf is NaN in torch's own softmax. Here, as in torch's attention
  kernels, the row is 0, and so are its gradients.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

TARGET = Path(__file__).parent.parent / "tests" / "data" / "torch_goldens.npz"
FLOAT64_CLOSE = 1e-15  # two orders of summation of the same float64 terms, relative to the largest value ...
LARGE_SCALE = 300.0  # ... times the size of the scores where they are large: exp turns their error into a relative one
SMALL, BATCH = (1, 5, 7, 3, 11), (2, 5, 7, 11, 13)  # B, Tq, Tk, d_k, d_v; the small ones have 2 heads, a batch has 3
goldens: dict[str, np.ndarray] = {}
calls: dict[str, dict[str, Any]] = {}


def draw(generator: torch.Generator, *shape: int, scale: float = 1.0) -> torch.Tensor:
    return torch.round(torch.randn(*shape, generator=generator, dtype=torch.float64) * scale * 64) / 64


def keep(case: str, call: dict[str, Any] | None = None, **arrays: torch.Tensor | None) -> None:
    calls[case] = call or {}
    for name, array in arrays.items():
        if array is None:
            continue
        values = array.detach().numpy()
        small = values.astype(np.float16) if values.dtype == np.float64 else values
        exact = small.dtype != values.dtype and np.array_equal(small.astype(np.float64), values, equal_nan=True)
        goldens[f"{case}/{name}"] = small if exact else values


def visible(Tq: int, Tk: int, mask: torch.Tensor | None, causal: bool, window: Any, offset: int) -> torch.Tensor:
    i, j = torch.arange(Tq)[:, None] + offset, torch.arange(Tk)[None, :]
    seen = torch.ones(Tq, Tk, dtype=torch.bool)
    if causal:
        seen &= j <= i
    if window is not None:
        left, right = (window - 1, Tk) if isinstance(window, int) else window
        seen &= (i - j <= left) & (j - i <= right)
        if isinstance(window, int):
            seen &= j <= i
    return seen if mask is None else seen & mask


def attention(q, k, v, mask=None, bias=None, sinks=None, causal=False, window=None, offset=0, scale=None, softcap=None):
    """Return out, weights and lse of the textbook formula, written so that autograd stays finite in empty rows."""
    group = q.shape[-3] // k.shape[-3]
    k, v = k.repeat_interleave(group, -3), v.repeat_interleave(group, -3)
    scores = q @ k.transpose(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + torch.where(torch.isinf(bias), 0.0, bias)
    seen = visible(q.shape[-2], k.shape[-2], mask, causal, window, offset)
    if bias is not None:
        seen = seen & ~torch.isneginf(bias)
    seen = seen.expand(scores.shape)
    any_seen = seen.any(-1, keepdim=True)
    logits = torch.where(seen, scores, -math.inf)
    logits = torch.where(any_seen, logits, 0.0)
    if sinks is not None:
        logits = torch.cat([logits, sinks[:, None, None].expand(*logits.shape[:-1], 1)], -1)
    weights = torch.where(any_seen, torch.softmax(logits, -1)[..., : k.shape[-2]], 0.0)
    empty = sinks[:, None].expand(any_seen.shape[:-1]) if sinks is not None else torch.tensor(-math.inf).double()
    lse = torch.where(any_seen[..., 0], torch.logsumexp(logits, -1), empty)
    return weights @ v, weights, lse


def check_against_sdpa(out, q, k, v, mask=None, bias=None, causal=False, window=None, offset=0, scale=None, **other):
    """Compare with torch's own kernel when it knows every argument; its `is_causal` is top-left, as offset 0 is."""
    if any(value is not None for value in other.values()) or 0 in (*q.shape, *k.shape):
        return
    added = mask if bias is None else bias
    own_causal = causal and offset == 0 and added is None and window is None
    if not own_causal:
        seen = visible(q.shape[-2], k.shape[-2], mask, causal, window, offset)
        added = seen if bias is None else torch.where(seen, bias, -math.inf)
    peer = F.scaled_dot_product_attention(q, k, v, added, is_causal=own_causal, scale=scale, enable_gqa=True)
    close = FLOAT64_CLOSE * max(1.0, abs(scale or 1.0))
    assert (peer - out).abs().max() <= close * v.abs().max(), "torch disagrees with its own composition"


def attention_case(name: str, seed: int, heads=(2, 2), sizes=SMALL, bias=None, mask=None, sinks=0.0, **call):
    """Keep inputs, out, weights, lse and every gradient of one call. `sizes` are B, Tq, Tk, d_k, d_v."""
    generator = torch.Generator().manual_seed(seed)
    (H, Hkv), (B, Tq, Tk, d_k, d_v) = heads, sizes
    q, k, v = (draw(generator, *s) for s in [(B, H, Tq, d_k), (B, Hkv, Tk, d_k), (B, Hkv, Tk, d_v)])
    arrays = {"q": q, "k": k, "v": v}
    if bias is not None:
        arrays["bias"] = bias(generator)
    if sinks:
        arrays["sinks"] = draw(generator, H, scale=sinks)
    for array in arrays.values():
        array.requires_grad_()
    given = dict(arrays) if mask is None else {**arrays, "mask": mask(generator)}
    out, weights, lse = attention(**given, **call)
    check_against_sdpa(out, **given, **call)
    d_out = draw(generator, *out.shape)
    gradients = torch.autograd.grad(out, list(arrays.values()), d_out, allow_unused=True)
    named = {f"d_{n}": torch.zeros_like(a) if g is None else g for (n, a), g in zip(arrays.items(), gradients)}
    keep(f"attention.{name}", call, **given, out=out, weights=weights, lse=lse, d_out=d_out, **named)


def random_mask(*shape: int, empty_row: int | None = None):
    def make(generator: torch.Generator) -> torch.Tensor:
        mask = torch.rand(*shape, generator=generator) < 0.6
        mask[..., 0] = True
        if empty_row is not None:
            mask[..., empty_row, :] = False
        return mask

    return make


def random_bias(*shape: int, hidden: bool = False, empty_row: int | None = None):
    def make(generator: torch.Generator) -> torch.Tensor:
        bias = draw(generator, *shape)
        if hidden:
            bias[..., 1::3] = -math.inf
        if empty_row is not None:
            bias[..., empty_row, :] = -math.inf
        return bias

    return make


def attention_cases() -> None:
    case = attention_case
    case("plain", 1)
    case("mask_bool", 2, heads=(3, 3), sizes=BATCH, mask=random_mask(2, 1, 5, 7))
    case("mask_bool_2d", 3, mask=random_mask(5, 7))
    case("mask_bool_broadcast_row", 4, heads=(3, 3), sizes=BATCH, mask=random_mask(2, 1, 1, 7))
    case("bias", 5, bias=random_bias(2, 5, 7))
    case("bias_batch", 6, heads=(3, 3), sizes=BATCH, bias=random_bias(2, 1, 5, 7))
    case("bias_neg_inf", 7, bias=random_bias(5, 7, hidden=True))
    case("bias_and_mask", 8, bias=random_bias(2, 1, 7), mask=random_mask(5, 7))
    case("causal_top_left", 9, causal=True, offset=0)
    case("causal_top_left_long_q", 10, sizes=(1, 7, 5, 3, 11), causal=True, offset=0)
    case("causal_continue", 11, causal=True, offset=2)
    case("causal_negative_offset", 12, causal=True, offset=-2)
    case("causal_and_mask", 13, causal=True, offset=0, mask=random_mask(2, 5, 7))
    case("gqa_4_2", 14, heads=(4, 2))
    case("gqa_6_2_causal", 15, heads=(6, 2), causal=True, offset=2)
    case("gqa_6_3_bias", 16, heads=(6, 3), bias=random_bias(6, 5, 7))
    case("mqa_5_1", 17, heads=(5, 1), mask=random_mask(5, 5, 7))
    case("scale_zero", 18, scale=0.0)
    case("scale_negative", 19, scale=-1.5)
    case("softcap", 20, softcap=1.25)
    case("softcap_bias_mask", 21, softcap=0.75, scale=2.0, bias=random_bias(2, 5, 7), mask=random_mask(5, 7))
    case("sinks", 22, sinks=1.0)
    case("sinks_causal_gqa", 23, heads=(6, 2), sinks=1.0, causal=True, offset=0)
    case("sinks_far_above_and_below_the_scores", 38, sinks=900.0)
    case("sinks_empty_row", 24, sinks=1.0, mask=random_mask(5, 7, empty_row=3))
    case("window_3", 25, window=3, offset=2)
    case("window_2_1", 26, window=[2, 1], offset=2)
    case("window_0_0", 27, window=[0, 0], offset=0)
    case("window_causal", 28, window=[2, 3], causal=True, offset=2)
    case("empty_row_mask", 29, mask=random_mask(5, 7, empty_row=2))
    case("empty_row_bias", 30, heads=(3, 3), sizes=BATCH, bias=random_bias(2, 3, 5, 7, empty_row=4))
    case("empty_rows_all", 31, mask=lambda _: torch.zeros(5, 7, dtype=torch.bool))
    case("no_keys", 32, sizes=(2, 5, 0, 3, 11))
    case("no_queries", 33, sizes=(2, 0, 7, 3, 11))
    case("no_batch", 34, sizes=(0, 5, 7, 3, 11))
    case("large_scores", 35, scale=LARGE_SCALE)


def poison_case(name: str, seed: int, where: str, value: float, hidden_from_all: bool) -> None:
    """One bad key row. Hidden from all: nothing changes. Hidden from some (causal, last key): the others are NaN."""
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (draw(generator, 1, 2, 5, n) for n in (3, 3, 7))
    mask = torch.ones(5, 5, dtype=torch.bool)
    mask[:, 2] = not hidden_from_all
    row = 2 if hidden_from_all else 4
    out, _, _ = attention(q, k, v, mask=mask, causal=True)
    if not hidden_from_all:
        out[..., 4:, :] = math.nan
    bad = {"k": k.clone(), "v": v.clone()}
    for array in [bad[n] for n in where]:
        array[..., row, :] = value
    keep(f"poison.{name}", {"causal": True}, q=q, k=bad["k"], v=bad["v"], clean_k=k, clean_v=v, mask=mask, out=out)


def poison_cases() -> None:
    poison_case("nan_k_hidden", 41, "k", math.nan, True)
    poison_case("nan_v_hidden", 42, "v", math.nan, True)
    poison_case("inf_k_hidden", 43, "k", math.inf, True)
    poison_case("minus_inf_k_hidden", 44, "k", -math.inf, True)
    poison_case("inf_v_hidden", 45, "v", math.inf, True)
    poison_case("nan_kv_hidden", 46, "kv", math.nan, True)
    poison_case("nan_k_future", 47, "k", math.nan, False)
    poison_case("nan_v_future", 48, "v", math.nan, False)


def sdpa_case(name: str, seed: int, heads=(2, 2), sizes=SMALL, mask=None, **call: Any) -> None:
    """torch's own function, its own argument names."""
    generator = torch.Generator().manual_seed(seed)
    (H, Hkv), (B, Tq, Tk, d_k, d_v) = heads, sizes
    q, k, v = (draw(generator, *s) for s in [(B, H, Tq, d_k), (B, Hkv, Tk, d_k), (B, Hkv, Tk, d_v)])
    for array in (q, k, v):
        array.requires_grad_()
    attn_mask = None if mask is None else mask(generator)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask, **call)
    d_out = draw(generator, *out.shape)
    d_q, d_k, d_v = torch.autograd.grad(out, (q, k, v), d_out)
    keep(f"sdpa.{name}", call, q=q, k=k, v=v, attn_mask=attn_mask, out=out, d_out=d_out, d_q=d_q, d_k=d_k, d_v=d_v)


def sdpa_cases() -> None:
    sdpa_case("plain", 51)
    sdpa_case("bool_mask", 52, mask=random_mask(1, 2, 5, 7))
    sdpa_case("bool_mask_empty_row", 53, mask=random_mask(5, 7, empty_row=1))
    sdpa_case("float_mask", 54, mask=random_bias(5, 7))
    sdpa_case("float_mask_neg_inf", 55, mask=random_bias(1, 1, 5, 7, hidden=True, empty_row=3))
    sdpa_case("is_causal", 56, is_causal=True)
    sdpa_case("gqa", 57, heads=(6, 2), enable_gqa=True)
    sdpa_case("gqa_causal", 58, heads=(4, 2), enable_gqa=True, is_causal=True)
    sdpa_case("scale_negative", 59, scale=-0.5)
    sdpa_case("scale_zero", 60, scale=0.0)


def elementwise_cases() -> None:
    generator = torch.Generator().manual_seed(71)
    edges = torch.tensor([-30.0, -9.0, -5.0, -1.0, -0.015625, 0.0, 0.015625, 1.0, 5.0, 9.0, 30.0], dtype=torch.float64)
    x = torch.cat([edges, draw(generator, 42, scale=3.0)])
    keep("gelu", x=x, none=F.gelu(x), tanh=F.gelu(x, approximate="tanh"))
    keep("silu", x=x, out=F.silu(x))
    x = draw(generator, 3, 5, 7, scale=4.0)
    x[0, 0, 0], x[1, 2, 3] = 900.0, -900.0
    outs = {}
    for axis in (0, 1, 2):
        outs |= {f"softmax_{axis}": F.softmax(x, axis), f"log_softmax_{axis}": F.log_softmax(x, axis)}
        outs[f"logsumexp_{axis}"] = x.logsumexp(axis)
    keep("softmax", x=x, **outs)


def norm_cases() -> None:
    generator = torch.Generator().manual_seed(72)
    x = draw(generator, 2, 3, 5, 7, scale=2.0) + 3
    for axes, eps in [((3,), 1e-5), ((2, 3), 1e-6), ((1, 2, 3), 1e-2)]:
        shape = [x.shape[a] for a in axes]
        gamma, beta = draw(generator, *shape), draw(generator, *shape)
        layer = F.layer_norm(x, shape, gamma, beta, eps)
        outs = {"layer": layer, "layer_plain": F.layer_norm(x, shape, eps=eps), "rms": F.rms_norm(x, shape, gamma, eps)}
        keep(f"norm.{len(axes)}", {"axis": list(axes), "eps": eps}, x=x, gamma=gamma, beta=beta, **outs)


def cross_entropy_case() -> None:
    generator = torch.Generator().manual_seed(73)
    logits = draw(generator, 11, 13, scale=3.0).requires_grad_()
    targets = torch.randint(0, 13, (11,), generator=generator)
    mean = F.cross_entropy(logits, targets)
    (d_logits,) = torch.autograd.grad(mean, logits)
    each = F.cross_entropy(logits, targets, reduction="none")
    partly = targets.clone()
    partly[[2, 7]] = -100
    ignored = F.cross_entropy(logits, partly, ignore_index=-100)
    inputs = {"logits": logits, "targets": targets, "partly": partly}
    keep("cross_entropy", **inputs, mean=mean, each=each, ignored=ignored, d_logits=d_logits)


def rope_cases() -> None:
    """The rotation written with complex numbers: (a + ib) * exp(i * position * base^(-2m / rotary_dim))."""
    for seed, (base, rotary_dim) in enumerate([(10000.0, 14), (500000.0, 6)], start=74):
        generator = torch.Generator().manual_seed(seed)
        x, positions = draw(generator, 2, 3, 5, 14), torch.tensor([0, 1, 3, 17, 101])
        frequencies = base ** (-torch.arange(0, rotary_dim, 2, dtype=torch.float64) / rotary_dim)
        turn = torch.polar(torch.tensor(1.0).double(), positions[:, None] * frequencies)
        head, rest, half = x[..., :rotary_dim], x[..., rotary_dim:], rotary_dim // 2
        pairs = torch.complex(head[..., :half], head[..., half:]) * turn
        by_half = torch.cat([pairs.real, pairs.imag, rest], -1)
        pairs = torch.view_as_complex(head.reshape(2, 3, 5, half, 2)) * turn
        interleaved = torch.cat([torch.view_as_real(pairs).flatten(-2), rest], -1)
        call = {"base": base, "rotary_dim": rotary_dim}
        keep(f"rope.{rotary_dim}", call, x=x, positions=positions, half=by_half, interleaved=interleaved)


def main() -> None:
    attention_cases()
    poison_cases()
    sdpa_cases()
    elementwise_cases()
    norm_cases()
    cross_entropy_case()
    rope_cases()
    np.savez_compressed(TARGET, calls=np.array(json.dumps(calls)), **goldens)
    print(f"{TARGET.name}: {len(calls)} cases, {TARGET.stat().st_size} bytes, torch {torch.__version__}")


if __name__ == "__main__":
    main()
