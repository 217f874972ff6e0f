"""Scaled dot-product attention with a mask: the formula of the paper."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from ... import ops
from ..formulas import (
    CONVENTIONS,
    attention,
    changed,
    down_an_axis,
    fitted_constant,
    huge_negative,
    left_nan,
    mistakes,
    shifted_in_the_branch,
    without_maximum,
)
from ..mistakes import say
from ..probes import attention_probes, drawn
from ..properties import rows_sum_to_one
from ..task import Function, Line, Mistake, Probe, Task, Text
from ..wire import Array


def reference(Q: Array, K: Array, V: Array, mask: Array | None = None) -> Any:
    return ops.attention(Q, K, V, mask=mask, return_weights=True)


def weights_of(value: Any) -> Any:
    return value[1] if isinstance(value, tuple) and len(value) == 2 else None


def weights_first(*arguments: Any, way: Function) -> Any:
    output, weights = way(*arguments)
    return weights, output


WAYS = (attention, changed(settle=left_nan), changed(hide=huge_negative))
MISTAKES = (
    *(replace(m, fit=fitted_constant(weights_of)) if m.id == "scale_hard_coded" else m for m in mistakes()),
    Mistake("softmax_wrong_axis", (changed(softmax=partial(down_an_axis, axis=1)),)),
    Mistake("softmax_no_max", (changed(hide=shifted_in_the_branch, softmax=without_maximum),)),
    Mistake(
        "results_swapped",
        tuple(partial(weights_first, way=w) for w in WAYS),
        say(
            ("The two results come in the wrong order.", "两个结果的顺序反了。"),
            ("(weights, output) in place of (output, weights)", "(weights, output)，而不是 (output, weights)"),
            ("What should come first?", "先返回哪一个？"),
            ("Look at the return line.", "看 return 那一行。"),
            ("return output, weights.", "return output, weights。"),
        ),
    ),
)

TASK = Task(
    name="scaled_dot_product_attention",
    signature="scaled_dot_product_attention(Q, K, V, mask=None)",
    returns=Text("(output (..., Tq, d_v), weights (..., Tq, Tk))", "(output (..., Tq, d_v), weights (..., Tq, Tk))"),
    title=Text("Scaled dot-product attention", "缩放点积注意力"),
    statement=Text(
        "softmax(Q Kᵀ / √d_k) V, with Q (..., Tq, d_k), K (..., Tk, d_k), V (..., Tk, d_v).\n"
        "mask is boolean (Tq, Tk), True = may look; it hides keys before the softmax.\n"
        "Return output and weights. Scores may be large; the inputs stay as they are.",
        "softmax(Q Kᵀ / √d_k) V，其中 Q (..., Tq, d_k)，K (..., Tk, d_k)，V (..., Tk, d_v)。\n"
        "mask 是布尔数组 (Tq, Tk)，True 表示可以看；在 softmax 之前遮住键。\n"
        "返回 output 和 weights。分数可能很大；不要改动输入。",
    ),
    reference=reference,
    formula=attention,
    probes=(
        *attention_probes(),
        Probe("float32", {name: drawn(n, 3, 4).astype("f4") for n, name in enumerate("QKV", 101)},
              Text("float32 in, float32 out", "输入 float32，输出也应是 float32"), note="float64_for_float32"),
    ),
    mistakes=MISTAKES,
    conventions=CONVENTIONS,
    properties=(rows_sum_to_one(1),),
    solution=(
        Line("def scaled_dot_product_attention(Q, K, V, mask=None):",
             "The formula line by line; leading axes take part by themselves.", "逐行照公式写；前面的批量维自动参与。"),
        Line("    scores = Q @ K.swapaxes(-1, -2) / np.sqrt(Q.shape[-1])",
             "Each query with each key: (Tq, Tk). √d_k keeps the scores from growing with the width.",
             "每个查询与每个键：(Tq, Tk)。√d_k 使分数不随宽度变大。"),
        Line("    if mask is not None:\n        scores = np.where(mask, scores, -np.inf)",
             "Where the mask is False, the score is -inf, so that exp gives 0.", "掩码为 False 处分数为 -inf，exp 之后就是 0。"),
        Line("    top = scores.max(axis=-1, keepdims=True)\n    exp = np.exp(scores - np.where(np.isinf(top), 0, top))",
             "Without the maximum exp would overflow; a row of nothing but -inf keeps 0 as its maximum.",
             "不减最大值 exp 会溢出；整行都是 -inf 时，最大值当作 0。"),
        Line("    total = exp.sum(axis=-1, keepdims=True)\n    weights = exp / np.where(total == 0, 1, total)",
             "Every row sums to 1; one that may look at nothing stays 0.", "每行之和为 1；什么都不能看的行保持为 0。"),
        Line("    return weights @ V, weights",
             "The output is the average of the values by these weights.", "输出是用这些权重对值做的平均。"),
    ),
    styles={
        "einsum": '''
import numpy as np


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def scaled_dot_product_attention(Q, K, V, mask=None):
    scores = np.einsum("...qd,...kd->...qk", Q, K) / np.sqrt(K.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -1e9)
    attn = softmax(scores)
    return np.einsum("...qk,...kv->...qv", attn, V), attn
''',
        "loops": '''
import math

import numpy as np


def scaled_dot_product_attention(Q, K, V, mask=None):
    lead, n, m = Q.shape[:-2], Q.shape[-2], K.shape[-2]
    output, weights = np.zeros((*lead, n, V.shape[-1])), np.zeros((*lead, n, m))
    for b in np.ndindex(*lead):
        for i in range(n):
            scores = {}
            for j in range(m):
                if mask is None or mask[i, j]:
                    scores[j] = sum(float(x) * float(y) for x, y in zip(Q[b][i], K[b][j])) / math.sqrt(Q.shape[-1])
            if not scores:
                continue
            top = max(scores.values())
            total = sum(math.exp(s - top) for s in scores.values())
            for j, s in scores.items():
                weights[b][i, j] = math.exp(s - top) / total
                output[b][i] += weights[b][i, j] * V[b][j]
    return output, weights
''',
        "class_with_additive_mask": '''
import numpy as np


class Attention:
    def __init__(self, d_k):
        self.scale = d_k**-0.5

    def __call__(self, q, k, v, mask):
        logits = q @ np.swapaxes(k, -2, -1) * self.scale
        if mask is not None:
            logits = logits + (1.0 - mask.astype(float)) * -1e9
        p = np.exp(logits - logits.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        return p @ v, p


def scaled_dot_product_attention(Q, K, V, mask=None):
    return Attention(Q.shape[-1])(Q, K, V, mask)
''',
        "chinese_names_renormalised": '''
import numpy as np


def scaled_dot_product_attention(查询, 键, 值, 掩码=None):
    分数 = np.matmul(查询, np.swapaxes(键, -1, -2)) / 键.shape[-1] ** 0.5
    指数 = np.exp(分数 - 分数.max(axis=-1, keepdims=True))
    权重 = 指数 / 指数.sum(axis=-1, keepdims=True)
    if 掩码 is not None:
        权重 = 权重 * 掩码
        权重 = 权重 / 权重.sum(axis=-1, keepdims=True)
    return 权重 @ 值, 权重
''',
        "root_on_both_sides": '''
import numpy as np


def scaled_dot_product_attention(Q, K, V, mask=None):
    root = Q.shape[-1] ** 0.25
    scores = (Q / root) @ (K / root).mT
    if mask is not None:
        scores[..., ~mask] = -np.inf
    e = np.exp(scores - scores.max(-1, keepdims=True))
    A = e / e.sum(-1, keepdims=True)
    return A @ V, A
''',
    },
)  # fmt: skip
