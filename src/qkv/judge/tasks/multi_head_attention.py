"""Multi-head attention: several heads beside each other, joined by W_O."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...layers import MultiHeadAttention
from ..formulas import attention, changed, conventions, mistakes, mixed_transposed
from ..mistakes import SHARED, say
from ..probes import booleans, drawn
from ..task import Function, Line, Mistake, Probe, Task, Text, formula, within
from ..wire import Array


def projected(x: Array, W: Array) -> Array:
    return x @ W


def split(x: Array, n_heads: int) -> Array:
    return x.reshape(x.shape[0], n_heads, x.shape[1] // n_heads).swapaxes(0, 1)


def merge(heads: Array) -> Array:
    return heads.swapaxes(0, 1).reshape(heads.shape[1], heads.shape[0] * heads.shape[2])


@formula
def multi_head(
    x: Array,
    W_Q: Array,
    W_K: Array,
    W_V: Array,
    W_O: Array,
    n_heads: int,
    mask: Array | None = None,
    *,
    project: Function = projected,
    split_heads: Function = split,
    attend: Function = attention,
    merge_heads: Function = merge,
    join: Function = projected,
) -> Array:
    Q = split_heads(project(x, W_Q), n_heads)
    K = split_heads(project(x, W_K), n_heads)
    V = split_heads(project(x, W_V), n_heads)
    heads = attend(Q, K, V, mask)[0]
    merged = merge_heads(heads)
    output = join(merged, W_O)
    return output


def reshaped(x: Array, n_heads: int) -> Array:
    return x.reshape(n_heads, x.shape[0], x.shape[1] // n_heads)


def every_nth_column(x: Array, n_heads: int) -> Array:
    return np.moveaxis(x.reshape(x.shape[0], x.shape[1] // n_heads, n_heads), -1, 0)


def one_head(x: Array, n_heads: int) -> Array:
    return x[None]


def merged_without_swap(heads: Array) -> Array:
    return heads.reshape(heads.shape[1], heads.shape[0] * heads.shape[2])


def averaged(heads: Array) -> Array:
    return heads.mean(axis=0)


def summed(heads: Array) -> Array:
    return heads.sum(axis=0)


def not_joined(merged: Array, W_O: Array) -> Array:
    return merged


def by_first_rows(merged: Array, W_O: Array) -> Array:
    return merged @ W_O[: merged.shape[-1]]


def with_transposed(x: Array, W: Array) -> Array:
    return x @ W.mT


def by_root_of_all_heads(scores: Array, Q: Array, K: Array, V: Array) -> Array:
    return scores / np.sqrt(Q.shape[-1] * Q.shape[-3])


def reference(
    x: Array, W_Q: Array, W_K: Array, W_V: Array, W_O: Array, n_heads: int, mask: Array | None = None
) -> Array:
    return MultiHeadAttention(W_Q, W_K, W_V, W_O, n_heads)(x, mask=mask)


def inputs(seed: int, n: int, d: int, n_heads: int, **more: Any) -> dict[str, Any]:
    """x and the four weights, wide enough that scores matter."""
    weights = {name: drawn(seed + k, d, d) for k, name in enumerate(("W_Q", "W_K", "W_V", "W_O"), 1)}
    return {"x": drawn(seed, n, d), **weights, "n_heads": n_heads, **more}


INSIDE = (multi_head, "attend")

TASK = Task(
    name="multi_head_attention",
    signature="multi_head_attention(x, W_Q, W_K, W_V, W_O, n_heads, mask=None)",
    returns="output (n, d)",
    title=Text("Multi-head attention", "多头注意力"),
    statement=Text(
        "x (n, d), weights (d, d) applied as x @ W. Head h takes columns h * d_head to (h + 1) * d_head of Q, K and V,\n"
        "d_head = d / n_heads; attention runs in each head, the heads are put beside each other and multiplied by W_O.\n"
        "mask is boolean (n, n), True = may look, the same for all heads.",
        "x (n, d)，权重 (d, d)，用法为 x @ W。第 h 个头取 Q、K、V 的第 h * d_head 到 (h + 1) * d_head 列，\n"
        "d_head = d / n_heads；每个头各自做注意力，然后并排拼接，再乘 W_O。\n"
        "mask 是布尔数组 (n, n)，True 表示可以看，所有头共用。",
    ),
    reference=reference,
    formula=multi_head,
    probes=(
        Probe("example", inputs(1, 2, 4, 2), Text("two tokens, two heads", "两个词元、两个头")),
        Probe("three_heads", {**inputs(11, 5, 12, 3), "mask": booleans("x.x..", "xx..x", ".xxx.", "x..xx", "..x.x")},
              Text("5 tokens, width 12, 3 heads, a mask that is not symmetric", "5 个词元，宽度 12，3 个头，不对称的掩码")),
        Probe("large", {**inputs(31, 3, 4, 2), "x": drawn(31, 3, 4) * [[300.0], [1.0], [0.5]]},
              Text("one token with very large numbers", "有一个词元的数特别大")),
    ),
    mistakes=(
        *mistakes(
            "no_scale", "scale_by_d", "scale_after_softmax", "softmax_wrong_axis", "softmax_no_max", "mask_inverted",
            "mask_after_softmax", "mask_fill_zero", "mask_transposed", "mask_ignored", "qk_swapped", "kv_swapped",
            "returns_values_only", inside=INSIDE,
        ),
        Mistake("attention_transposed", within(*INSIDE, changed(mix=mixed_transposed)), SHARED["weights_transposed"]),
        Mistake("scale_by_d_model", (partial(multi_head, attend=changed(scale=by_root_of_all_heads)),)),
        Mistake("heads_reshape_only", (partial(multi_head, split_heads=reshaped),
                                       partial(multi_head, split_heads=reshaped, merge_heads=merged_without_swap))),
        Mistake("heads_merge_no_transpose", (partial(multi_head, merge_heads=merged_without_swap),)),
        Mistake("no_output_projection", (partial(multi_head, join=not_joined),)),
        Mistake("heads_averaged", tuple(partial(multi_head, merge_heads=m, join=j) for m in (averaged, summed)
                                        for j in (not_joined, by_first_rows))),
        Mistake("weights_transposed", (partial(multi_head, project=with_transposed),), say(
            ("The weight matrices are transposed: x @ W.T.", "权重矩阵被转置了：x @ W.T。"),
            ("attention with x @ W.T in place of x @ W", "用 x @ W.T 代替 x @ W 的注意力"),
            ("Which axis of W is as long as a token is wide, and means it?", "W 的哪一维对应输入词元的宽度？"),
            ("Look at the projections.", "看几个投影。"),
            ("Q = x @ W_Q, without .T.", "Q = x @ W_Q，不要 .T。"),
        )),
    ),
    conventions=conventions(INSIDE),
    solution=(
        Line("def softmax(x):\n    exp = np.exp(x - x.max(axis=-1, keepdims=True))\n"
             "    return exp / exp.sum(axis=-1, keepdims=True)\n\n",
             "Weights along the last axis.", "沿最后一维的权重。"),
        Line("def multi_head_attention(x, W_Q, W_K, W_V, W_O, n_heads, mask=None):\n    n, d = x.shape",
             "n tokens of width d.", "n 个词元，宽度 d。"),
        Line("    Q, K, V = ((x @ W).reshape(n, n_heads, -1).swapaxes(0, 1) for W in (W_Q, W_K, W_V))",
             "Project, cut each row into heads, and put the heads in front: (n_heads, n, d_head).",
             "投影，把每行切成若干头，再把头移到最前：(n_heads, n, d_head)。"),
        Line("    scores = Q @ K.swapaxes(-1, -2) / np.sqrt(d // n_heads)",
             "Scores of each head, scaled by the width of one head.", "每个头的分数，按单个头的宽度缩放。"),
        Line("    weights = softmax(scores if mask is None else np.where(mask, scores, -np.inf))",
             "Hide what may not be looked at, then softmax.", "先遮住不能看的，再做 softmax。"),
        Line("    return (weights @ V).swapaxes(0, 1).reshape(n, d) @ W_O",
             "Tokens in front again, heads beside each other, joined by W_O.", "词元回到最前，各头并排，再乘 W_O。"),
    ),
    styles={
        "loop_over_heads": '''
import numpy as np


def multi_head_attention(x, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    d_head = x.shape[1] // n_heads
    outputs = []
    for h in range(n_heads):
        cols = slice(h * d_head, (h + 1) * d_head)
        q, k, v = x @ W_Q[:, cols], x @ W_K[:, cols], x @ W_V[:, cols]
        s = q @ k.T / np.sqrt(d_head)
        if mask is not None:
            s[~mask] = -np.inf
        a = np.exp(s - s.max(1, keepdims=True))
        outputs.append(a / a.sum(1, keepdims=True) @ v)
    return np.concatenate(outputs, axis=1) @ W_O
''',
        "einsum": '''
import numpy as np


def multi_head_attention(x, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    n, d = x.shape
    dh = d // n_heads
    q = np.einsum("nd,dhk->hnk", x, W_Q.reshape(d, n_heads, dh))
    k = np.einsum("nd,dhk->hnk", x, W_K.reshape(d, n_heads, dh))
    v = np.einsum("nd,dhk->hnk", x, W_V.reshape(d, n_heads, dh))
    s = np.einsum("hik,hjk->hij", q, k) * dh**-0.5
    if mask is not None:
        s = np.where(mask, s, -1e9)
    p = np.exp(s - s.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    return np.einsum("hij,hjk,hkd->id", p, v, W_O.reshape(n_heads, dh, d))
''',
        "class": '''
import numpy as np


class Head:
    def __init__(self, wq, wk, wv):
        self.wq, self.wk, self.wv = wq, wk, wv

    def forward(self, x, mask):
        scores = (x @ self.wq) @ (x @ self.wk).T / self.wq.shape[1] ** 0.5
        scores = scores if mask is None else scores + np.where(mask, 0, -np.inf)
        e = np.exp(scores - scores.max(axis=1)[:, None])
        return (e / e.sum(axis=1)[:, None]) @ (x @ self.wv)


def multi_head_attention(x, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    parts = [np.split(W, n_heads, axis=1) for W in (W_Q, W_K, W_V)]
    return np.hstack([Head(*ws).forward(x, mask) for ws in zip(*parts)]) @ W_O
''',
    },
)  # fmt: skip
