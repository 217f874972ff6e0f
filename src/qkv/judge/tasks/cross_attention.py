"""Cross attention: the tokens of one sequence look at those of another."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...layers import MultiHeadAttention
from ..formulas import attention, changed, mistakes, mixed_transposed
from ..mistakes import SHARED, say
from ..probes import drawn
from ..task import Function, Line, Mistake, Probe, Task, Text, formula, within
from ..wire import Array
from .multi_head_attention import (
    INTERLEAVED,
    NOT_SPLIT,
    averaged,
    by_first_rows,
    by_root_of_all_heads,
    every_nth_column,
    left_behind_tokens,
    merge,
    merged_in_place,
    merged_without_swap,
    not_joined,
    one_head,
    projected,
    reshaped,
    split,
    summed,
    with_transposed,
)


def from_x(x: Array, context: Array) -> Array:
    return x


def from_context(x: Array, context: Array) -> Array:
    return context


def all_of_it(n: int, m: int) -> Array | None:
    return None


@formula
def cross(
    x: Array,
    context: Array,
    W_Q: Array,
    W_K: Array,
    W_V: Array,
    W_O: Array,
    n_heads: int,
    *,
    ask: Function = from_x,
    offer: Function = from_context,
    give: Function = from_context,
    project: Function = projected,
    split_heads: Function = split,
    visible: Function = all_of_it,
    attend: Function = attention,
    merge_heads: Function = merge,
    join: Function = projected,
) -> Array:
    Q = split_heads(project(ask(x, context), W_Q), n_heads)
    K = split_heads(project(offer(x, context), W_K), n_heads)
    V = split_heads(project(give(x, context), W_V), n_heads)
    mask = visible(len(x), len(context))
    heads = attend(Q, K, V, mask)[0]
    merged = merge_heads(heads)
    output = join(merged, W_O)
    return output


def lower_left(n: int, m: int) -> Array:
    return np.tril(np.ones((n, m), bool))


def reference(x: Array, context: Array, W_Q: Array, W_K: Array, W_V: Array, W_O: Array, n_heads: int) -> Array:
    return MultiHeadAttention(W_Q, W_K, W_V, W_O, n_heads)(x, context)


def inputs(seed: int, n: int, m: int, d: int, n_heads: int) -> dict[str, Any]:
    """Two sequences and the four weights."""
    weights = {name: drawn(seed + k, d, d) / 2 for k, name in enumerate(("W_Q", "W_K", "W_V", "W_O"), 2)}
    return {"x": drawn(seed, n, d), "context": drawn(seed + 1, m, d), **weights, "n_heads": n_heads}


INSIDE = (cross, "attend")
ONE_LARGE = np.array([[3000.0], [1.0], [1.0], [1.0], [1.0]])

TASK = Task(
    name="cross_attention",
    signature="cross_attention(x, context, W_Q, W_K, W_V, W_O, n_heads)",
    returns=Text("output (n, d)", "output (n, d)"),
    title=Text("Cross attention", "交叉注意力"),
    statement=Text(
        "x (n, d) asks, context (m, d) answers: queries come from x, keys and values from context.\n"
        "Weights are (d, d), applied as x @ W. Head h takes columns h * d_head to (h + 1) * d_head, d_head = d / n_heads;\n"
        "attention runs in each head, the heads are put beside each other and multiplied by W_O. There is no mask.",
        "x (n, d) 提问，context (m, d) 作答：查询来自 x，键和值来自 context。\n"
        "权重为 (d, d)，用法为 x @ W。第 h 个头取第 h * d_head 到 (h + 1) * d_head 列，d_head = d / n_heads；\n"
        "每个头各自做注意力，然后并排拼接，再乘 W_O。没有掩码。",
    ),
    reference=reference,
    formula=cross,
    probes=(
        Probe("example", inputs(1, 2, 3, 2, 1), Text("two tokens look at three, one head", "两个词元看三个词元，一个头")),
        Probe("three_heads", {**inputs(11, 5, 7, 12, 3), "x": drawn(11, 5, 12) * ONE_LARGE},
              Text("5 tokens look at 7, three heads; one token is very large", "5 个词元看 7 个，三个头；有一个词元的数特别大")),
        Probe("same_length", inputs(21, 4, 4, 6, 3),
              Text("both sequences equally long: nothing breaks, only values differ", "两个序列一样长：不会报错，只有数值不同")),
    ),
    mistakes=(
        *mistakes(
            "no_scale", "scale_by_d", "scale_multiplied", "scale_after_softmax", "softmax_wrong_axis",
            "softmax_no_max", "qk_swapped", "kv_swapped", "returns_values_only", inside=INSIDE,
        ),
        Mistake("attention_transposed", within(*INSIDE, changed(mix=mixed_transposed)), SHARED["weights_transposed"]),
        Mistake("scale_by_d_model", within(*INSIDE, changed(scale=by_root_of_all_heads))),
        Mistake("causal_not_asked", (partial(cross, visible=lower_left),), say(
            ("A causal mask hides part of the context.", "因果掩码遮住了 context 的一部分。"),
            ("cross attention with a causal mask", "加了因果掩码的交叉注意力"),
            ("May the first token of x see the last one of the context?", "x 的第一个词元可以看 context 的最后一个吗？"),
            ("Look for tril, triu or j <= i.", "找 tril、triu 或 j <= i。"),
            ("Leave the mask out: all of the context may be seen.", "去掉掩码：整个 context 都可以看。"),
        )),
        Mistake("context_ignored", (partial(cross, offer=from_x, give=from_x),), say(
            ("Keys and values come from x: this is self-attention.", "键和值来自 x：这是自注意力。"),
            ("self-attention of x, without the context", "没有用 context 的 x 的自注意力"),
            ("Does your output change when the context changes?", "改变 context，你的输出会变吗？"),
            ("Look at what is multiplied by W_K and W_V.", "看与 W_K 和 W_V 相乘的是什么。"),
            ("K = context @ W_K, V = context @ W_V.", "K = context @ W_K，V = context @ W_V。"),
        )),
        Mistake("context_half_used", (partial(cross, offer=from_x), partial(cross, give=from_x)), say(
            ("Of keys and values, one comes from x.", "键和值中有一个来自 x。"),
            ("attention whose keys or values come from x", "键或值来自 x 的注意力"),
            ("Where must keys and values come from if each weight belongs to one token?", "每个权重对应一个词元，那么键和值应来自哪里？"),
            ("Look at what is multiplied by W_K and by W_V.", "看与 W_K、W_V 相乘的各是什么。"),
            ("Both from the context: context @ W_K, context @ W_V.", "都来自 context：context @ W_K，context @ W_V。"),
        )),
        Mistake("sources_swapped", (partial(cross, ask=from_context, offer=from_x, give=from_x),
                                    partial(cross, ask=from_context)), say(
            ("The queries come from the context.", "查询来自 context。"),
            ("attention whose queries come from the context", "查询来自 context 的注意力"),
            ("Which sequence should get new rows: how many has your output?", "应该更新哪个序列？你的输出有几行？"),
            ("Look at what is multiplied by W_Q.", "看与 W_Q 相乘的是什么。"),
            ("Q = x @ W_Q; keys and values from the context.", "Q = x @ W_Q；键和值来自 context。"),
        )),
        Mistake("heads_reshape_only", (partial(cross, split_heads=reshaped),
                                       partial(cross, split_heads=reshaped, merge_heads=merged_without_swap))),
        Mistake("heads_not_in_front", (partial(cross, split_heads=left_behind_tokens, merge_heads=merged_in_place),)),
        Mistake("heads_interleaved", (partial(cross, split_heads=every_nth_column),), INTERLEAVED),
        Mistake("heads_not_split", (partial(cross, split_heads=one_head),), NOT_SPLIT),
        Mistake("heads_merge_no_transpose", (partial(cross, merge_heads=merged_without_swap),)),
        Mistake("no_output_projection", (partial(cross, join=not_joined),)),
        Mistake("heads_averaged", tuple(partial(cross, merge_heads=m, join=j) for m in (averaged, summed)
                                        for j in (not_joined, by_first_rows))),
        Mistake("weights_transposed", (partial(cross, project=with_transposed),
                                       partial(cross, project=with_transposed, join=with_transposed)), say(
            ("The weight matrices are transposed: x @ W.T.", "权重矩阵被转置了：x @ W.T。"),
            ("attention with x @ W.T in place of x @ W", "用 x @ W.T 代替 x @ W 的注意力"),
            ("Which axis of W stands for the columns of a token?", "W 的哪一维对应输入词元的各列？"),
            ("Look at the projections.", "看几个投影。"),
            ("Q = x @ W_Q, without .T.", "Q = x @ W_Q，不要 .T。"),
        )),
    ),
    solution=(
        Line("def cross_attention(x, context, W_Q, W_K, W_V, W_O, n_heads):\n"
             "    def heads(rows):\n        return rows.reshape(len(rows), n_heads, -1).swapaxes(0, 1)\n",
             "Cut each row into heads, then put the heads in front: (n_heads, rows, d_head).",
             "把每行切成若干头，再把头移到最前：(n_heads, 行数, d_head)。"),
        Line("    Q, K, V = heads(x @ W_Q), heads(context @ W_K), heads(context @ W_V)",
             "x asks; the context offers keys and gives values.", "x 提问；context 提供键，给出值。"),
        Line("    scores = Q @ K.swapaxes(-1, -2) / np.sqrt(Q.shape[-1])",
             "Scores (n_heads, n, m), scaled by the width of one head.", "分数 (n_heads, n, m)，按单个头的宽度缩放。"),
        Line("    exp = np.exp(scores - scores.max(axis=-1, keepdims=True))\n"
             "    weights = exp / exp.sum(axis=-1, keepdims=True)",
             "Each token of x shares out 1 over the context.", "x 的每个词元把 1 分给 context。"),
        Line("    return (weights @ V).swapaxes(0, 1).reshape(x.shape) @ W_O",
             "Tokens in front again, heads beside each other, joined by W_O.", "词元回到最前，各头并排，再乘 W_O。"),
    ),
    styles={
        "loop_over_heads": '''
import numpy as np


def cross_attention(x, context, W_Q, W_K, W_V, W_O, n_heads):
    d_head = x.shape[1] // n_heads
    output = np.zeros(x.shape)
    for h in range(n_heads):
        cols = slice(h * d_head, (h + 1) * d_head)
        s = (x @ W_Q[:, cols]) @ (context @ W_K[:, cols]).T / np.sqrt(d_head)
        a = np.exp(s - s.max(1, keepdims=True))
        a = a / a.sum(1, keepdims=True)
        output += a @ (context @ W_V[:, cols]) @ W_O[cols]
    return output
''',
        "einsum": '''
import numpy as np


def cross_attention(x, context, W_Q, W_K, W_V, W_O, n_heads):
    (n, d), m = x.shape, len(context)
    q = (x @ W_Q).reshape(n, n_heads, d // n_heads)
    k = (context @ W_K).reshape(m, n_heads, d // n_heads)
    v = (context @ W_V).reshape(m, n_heads, d // n_heads)
    s = np.einsum("ihd,jhd->hij", q, k) * (d // n_heads) ** -0.5
    p = np.exp(s - s.max(axis=2)[:, :, None])
    return np.einsum("hij,jhd->ihd", p / p.sum(axis=2)[:, :, None], v).reshape(n, d) @ W_O
''',
        "class": '''
import math

import numpy as np


def softmax(z, axis):
    e = np.exp(z - z.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


class CrossAttention:
    def __init__(self, wq, wk, wv, wo, n_heads):
        self.heads = [
            (q, k, v) for q, k, v in zip(*(np.split(w, n_heads, axis=1) for w in (wq, wk, wv)))
        ]
        self.wo = wo

    def forward(self, decoder, encoder):
        outs = []
        for wq, wk, wv in self.heads:
            # keys first: softmax down the columns of K Q^T
            weights = softmax((encoder @ wk) @ (decoder @ wq).T / math.sqrt(wq.shape[1]), axis=0)
            outs.append(weights.T @ (encoder @ wv))
        return np.concatenate(outs, axis=-1) @ self.wo


def cross_attention(x, context, W_Q, W_K, W_V, W_O, n_heads):
    return CrossAttention(W_Q, W_K, W_V, W_O, n_heads).forward(x, context)
''',
        "chinese_names": '''
import numpy as np


def 分头(矩阵, 头数):
    return np.stack(np.split(矩阵, 头数, axis=-1))


def cross_attention(x, context, W_Q, W_K, W_V, W_O, n_heads):
    查询, 键, 值 = 分头(x @ W_Q, n_heads), 分头(context @ W_K, n_heads), 分头(context @ W_V, n_heads)
    分数 = 查询 / np.sqrt(查询.shape[-1]) @ 键.transpose(0, 2, 1)
    权重 = np.exp(分数 - np.max(分数, -1, keepdims=True))
    权重 = 权重 / np.sum(权重, -1, keepdims=True)
    return np.concatenate(list(权重 @ 值), axis=-1) @ W_O
''',
    },
)  # fmt: skip
