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


def in_order(W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array, Array]:
    return W_Q, W_K, W_V


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
    choose: Function = in_order,
    project: Function = projected,
    split_heads: Function = split,
    attend: Function = attention,
    merge_heads: Function = merge,
    join: Function = projected,
) -> Array:
    Q, K, V = (split_heads(project(x, W), n_heads) for W in choose(W_Q, W_K, W_V))
    heads = attend(Q, K, V, mask)[0]
    merged = merge_heads(heads)
    output = join(merged, W_O)
    return output


def queries_twice(W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array, Array]:
    return W_Q, W_Q, W_V


def keys_twice(W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array, Array]:
    return W_Q, W_K, W_K


def one_for_all(W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array, Array]:
    return W_Q, W_Q, W_Q


def no_weights(W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array, Array]:
    return np.eye(len(W_Q)), np.eye(len(W_Q)), np.eye(len(W_Q))


def no_value_weights(W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array, Array]:
    return W_Q, W_K, np.eye(len(W_Q))


def reshaped(x: Array, n_heads: int) -> Array:
    return x.reshape(n_heads, x.shape[0], x.shape[1] // n_heads)


def every_nth_column(x: Array, n_heads: int) -> Array:
    return np.moveaxis(x.reshape(x.shape[0], x.shape[1] // n_heads, n_heads), -1, 0)


def one_head(x: Array, n_heads: int) -> Array:
    return x[None]


def merged_without_swap(heads: Array) -> Array:
    return heads.reshape(heads.shape[1], heads.shape[0] * heads.shape[2])


def left_behind_tokens(x: Array, n_heads: int) -> Array:
    return x.reshape(x.shape[0], n_heads, x.shape[1] // n_heads)


def merged_in_place(heads: Array) -> Array:
    return heads.reshape(heads.shape[0], heads.shape[1] * heads.shape[2])


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


INTERLEAVED = say(
    ("Each head takes every n-th column, not a run of neighbours.", "每个头隔几列取一列，而不是取相邻的一段。"),
    ("attention with heads made of every n_heads-th column", "每隔 n_heads 列取一列来分头的注意力"),
    ("Which columns does head 0 hold?", "第 0 个头拿到哪几列？"),
    ("Look at the order of n_heads and d_head in the reshape.", "看 reshape 里 n_heads 与 d_head 的先后。"),
    ("x.reshape(n, n_heads, d_head).swapaxes(0, 1).", "x.reshape(n, n_heads, d_head).swapaxes(0, 1)。"),
)  # fmt: skip
NOT_SPLIT = say(
    ("There is only one head, whatever n_heads is.", "无论 n_heads 是多少，都只用了一个头。"),
    ("attention with a single head", "只有一个头的注意力"),
    ("Does your result change with n_heads?", "n_heads 变了，你的结果会变吗？"),
    ("Look for n_heads in your code.", "看代码里哪里用到了 n_heads。"),
    ("Split Q, K and V into heads: reshape(n, n_heads, d_head).swapaxes(0, 1).",
     "把 Q、K、V 分头：reshape(n, n_heads, d_head).swapaxes(0, 1)。"),
)  # fmt: skip
INSIDE = (multi_head, "attend")

TASK = Task(
    name="multi_head_attention",
    signature="multi_head_attention(x, W_Q, W_K, W_V, W_O, n_heads, mask=None)",
    returns=Text("output (n, d)", "output (n, d)"),
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
            "mask_after_softmax", "mask_fill_zero", "mask_times_inf", "mask_transposed", "mask_ignored",
            "qk_swapped", "kv_swapped", "returns_values_only", inside=INSIDE,
        ),
        Mistake("attention_transposed", within(*INSIDE, changed(mix=mixed_transposed)), SHARED["weights_transposed"]),
        Mistake("scale_by_d_model", (partial(multi_head, attend=changed(scale=by_root_of_all_heads)),)),
        Mistake("heads_reshape_only", (partial(multi_head, split_heads=reshaped),
                                       partial(multi_head, split_heads=reshaped, merge_heads=merged_without_swap))),
        Mistake("heads_interleaved", (partial(multi_head, split_heads=every_nth_column),), INTERLEAVED),
        Mistake("heads_not_split", (partial(multi_head, split_heads=one_head),), NOT_SPLIT),
        Mistake("heads_not_in_front", (partial(multi_head, split_heads=left_behind_tokens, merge_heads=merged_in_place),)),
        Mistake("heads_merge_no_transpose", (partial(multi_head, merge_heads=merged_without_swap),)),
        Mistake("no_output_projection", (partial(multi_head, join=not_joined),)),
        Mistake("heads_averaged", tuple(partial(multi_head, merge_heads=m, join=j) for m in (averaged, summed)
                                        for j in (not_joined, by_first_rows))),
        Mistake("projections_mixed_up", tuple(partial(multi_head, choose=c) for c in (queries_twice, keys_twice, one_for_all)), say(
            ("One weight matrix is used where another belongs.", "某个权重矩阵用到了别处，该用的没有用。"),
            ("attention with W_Q or W_K used twice", "W_Q 或 W_K 用了两次的注意力"),
            ("Does each of W_Q, W_K and W_V occur once?", "W_Q、W_K、W_V 是不是各出现一次？"),
            ("Read the three projections letter by letter.", "把三个投影逐字读一遍。"),
            ("Q = x @ W_Q, K = x @ W_K, V = x @ W_V.", "Q = x @ W_Q，K = x @ W_K，V = x @ W_V。"),
        )),
        Mistake("projection_missing", tuple(partial(multi_head, choose=c) for c in (no_value_weights, no_weights)), say(
            ("x itself is taken for values, or for all of Q, K and V, without a projection.", "没有投影，直接把 x 当作值，或当作 Q、K、V。"),
            ("attention on x without W_V, or without all three weights", "没有乘 W_V（或三个权重都没乘）的注意力"),
            ("What are W_Q, W_K and W_V for?", "W_Q、W_K、W_V 各有什么用？"),
            ("Look at what goes into each head.", "看进入每个头的是什么。"),
            ("Q = x @ W_Q, K = x @ W_K, V = x @ W_V.", "Q = x @ W_Q，K = x @ W_K，V = x @ W_V。"),
        )),
        Mistake("weights_transposed", (
            partial(multi_head, project=with_transposed), partial(multi_head, join=with_transposed),
            partial(multi_head, project=with_transposed, join=with_transposed),
        ), say(
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
