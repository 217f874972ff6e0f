"""Sliding-window attention: each token sees only the last few, itself included."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from ... import ops
from ..formulas import attention, changed, conventions, mistakes
from ..mistakes import say
from ..probes import RECTANGULAR, SQUARE, integers, low_scores, qkv
from ..properties import future_leaks
from ..task import Function, Line, Mistake, Probe, Task, Text, formula, within
from ..wire import Array
from .causal_attention import equal_shares, example, fitted, huge_end


def last_ones(i: Array, j: Array, window: int) -> Array:
    return (i - window < j) & (j <= i)


@formula
def sliding(
    Q: Array, K: Array, V: Array, window: int, *, rule: Function = last_ones, attend: Function = attention
) -> Array:
    mask = rule(np.arange(Q.shape[-2])[:, None], np.arange(K.shape[-2]), window)
    output = attend(Q, K, V, mask)[0]
    return output


def one_more(i: Array, j: Array, window: int) -> Array:
    return last_ones(i, j, window + 1)


def one_fewer(i: Array, j: Array, window: int) -> Array:
    return last_ones(i, j, window - 1)


def without_itself(i: Array, j: Array, window: int) -> Array:
    return (i - window <= j) & (j < i)


def as_many_ahead(i: Array, j: Array, window: int) -> Array:
    return abs(i - j) < window


def one_more_on_each_side(i: Array, j: Array, window: int) -> Array:
    return abs(i - j) <= window


def half_on_each_side(i: Array, j: Array, window: int) -> Array:
    return abs(i - j) <= window // 2


def all_ahead_too(i: Array, j: Array, window: int) -> Array:
    return i - window < j


def all_ahead_and_one_more(i: Array, j: Array, window: int) -> Array:
    return i - window <= j


def next_ones(i: Array, j: Array, window: int) -> Array:
    return (i <= j) & (j < i + window)


def all_before(i: Array, j: Array, window: int) -> Array:
    return j <= i


def everything(i: Array, j: Array, window: int) -> Array:
    return (i + j) >= 0


def same_block(i: Array, j: Array, window: int) -> Array:
    return (i // window == j // window) & (j <= i)


def whole_block(i: Array, j: Array, window: int) -> Array:
    return i // window == j // window


def first_ones(i: Array, j: Array, window: int) -> Array:
    return (j < window) & (j <= i)


def outside(i: Array, j: Array, window: int) -> Array:
    return j <= i - window


def not_allowed(i: Array, j: Array, window: int) -> Array:
    return ~last_ones(i, j, window)


def ruled(*rules: Function) -> tuple[Function, ...]:
    return tuple(partial(sliding, rule=rule) for rule in rules)


def reference(Q: Array, K: Array, V: Array, window: int) -> Array:
    return np.asarray(ops.attention(Q, K, V, causal=True, window=window))


INSIDE = (sliding, "attend")
SHARED_MISTAKES = mistakes(
    "no_scale", "scale_by_d", "scale_multiplied", "scale_wrong_size", "scale_hard_coded", "scale_after_softmax",
    "softmax_wrong_axis", "softmax_no_max", "softmax_global_max", "softmax_no_keepdims", "integer_result",
    "mutates_input", "mask_after_softmax", "mask_fill_zero", "mask_fill_small", "qk_swapped", "kv_swapped",
    "batch_axes_turned", "keys_not_transposed", "queries_transposed", "weights_transposed", "returns_values_only",
    inside=INSIDE,
)  # fmt: skip
LOW = {name: value for name, value in low_scores().items() if name != "mask"}

TASK = Task(
    name="sliding_window_attention",
    signature="sliding_window_attention(Q, K, V, window)",
    returns=Text("output (..., T, d_v)", "output (..., T, d_v)"),
    title=Text("Sliding-window attention", "滑动窗口注意力"),
    statement=Text(
        "softmax(Q Kᵀ / √d_k) V, where token i sees the last `window` tokens, itself included: i - window < j <= i.\n"
        "Near the beginning there are fewer. Q and K are (..., T, d_k), V is (..., T, d_v), window is at least 1.\n"
        "Scores may be large; the inputs stay as they are.",
        "softmax(Q Kᵀ / √d_k) V，词元 i 只看最近的 window 个词元（包括自己）：i - window < j <= i。\n"
        "开头处不足 window 个。Q 和 K 为 (..., T, d_k)，V 为 (..., T, d_v)，window 至少为 1。\n"
        "分数可能很大；不要改动输入。",
    ),
    reference=reference,
    formula=sliding,
    probes=(
        Probe("example", {**example(), "window": 2}, Text("three tokens, a window of 2", "三个词元，窗口为 2")),
        Probe("square", {**qkv(11, 8, 8, 8, 8), "window": 4}, SQUARE),
        Probe("rectangular", {**qkv(21, 7, 7, 3, 5), "window": 3}, RECTANGULAR),
        Probe("batch", {**qkv(31, 4, 4, 8, 8, (2, 3)), "window": 3}, Text("axes in front", "前面还有批量的维")),
        Probe("huge_end", {**huge_end(), "window": 2},
              Text("the example, with two very large tokens behind it", "在示例后面接上两个数很大的词元")),
        Probe("low_scores", {**LOW, "window": 3}, Text("the first row may only see a score below -10000",
                                                      "第一行只能看到低于 -10000 的分数")),
        Probe("integers", {**integers(), "window": 5},
              Text("integer inputs, and a window longer than the sequence", "输入是整数，窗口比序列还长")),
    ),
    mistakes=(
        *(replace(m, fit=partial(fitted, sliding)) if m.id == "scale_hard_coded" else m for m in SHARED_MISTAKES),
        Mistake("window_off_by_one", ruled(one_more, one_fewer, without_itself), say(
            ("The window is one key too wide, too narrow, or without the query's own.", "窗口多了一个键、少了一个键，或不含查询自己。"),
            ("attention with a window shifted or resized by one", "窗口大小或位置差一的注意力"),
            ("With a window of 1, which keys does a token see?", "窗口为 1 时，词元能看到哪些键？"),
            ("Look at < and <= where i - j is compared with the window.", "看 i - j 与 window 比较处的 < 与 <=。"),
            ("Token i sees i - window < j <= i: `window` keys with its own.",
             "词元 i 看得到 i - window < j <= i：连同自己共 window 个键。"),
        )),
        Mistake("window_not_causal", ruled(as_many_ahead, one_more_on_each_side, half_on_each_side, all_ahead_too,
                                           all_ahead_and_one_more), say(
            ("The window reaches into the future.", "窗口伸进了未来。"),
            ("attention with a window that looks ahead", "窗口伸进未来的注意力"),
            ("If the last token changes, may the row before it change?", "最后一个词元变了，它前一行可以变吗？"),
            ("Look at the upper end of the window; abs(i - j) looks both ways.", "看窗口的上界；abs(i - j) 是两边都看。"),
            ("Ask for both: j <= i and j > i - window.", "两个条件都要：j <= i 且 j > i - window。"),
        )),
        Mistake("window_ignored", ruled(all_before, everything), say(
            ("The window is never used.", "窗口没有被用到。"),
            ("attention without a window", "没有窗口的注意力"),
            ("What happens when you pass another window?", "换一个 window 传进去，结果变了吗？"),
            ("Look at the mask: what hides keys that are too far back?", "看掩码：什么遮住了太远的键？"),
            ("Ask for both: j <= i and j > i - window.", "两个条件都要：j <= i 且 j > i - window。"),
        )),
        Mistake("window_in_blocks", ruled(same_block, whole_block), say(
            ("The sequence is cut into blocks; the window does not slide.", "序列被切成了块，窗口没有滑动。"),
            ("attention within blocks of `window` tokens", "在每块 window 个词元之内做的注意力"),
            ("How many keys does the first token of your second block see?", "你的第二块里，第一个词元能看到几个键？"),
            ("Look at // and reshape.", "看 // 与 reshape。"),
            ("Count from each token: j > i - window.", "从每个词元自己往前数：j > i - window。"),
        )),
        Mistake("window_in_wrong_place", ruled(next_ones, first_ones, outside, not_allowed), say(
            ("The window is in the wrong place: ahead, at the beginning, or turned round.", "窗口的位置不对：落在未来、停在开头，或者取反了。"),
            ("attention with a window in another place", "窗口放错位置的注意力"),
            ("Which tokens does the last one see?", "最后一个词元能看到哪些词元？"),
            ("Print the mask for 4 tokens and a window of 2.", "打印 4 个词元、窗口为 2 时的掩码。"),
            ("True only where j <= i and j > i - window.", "只有 j <= i 且 j > i - window 处为 True。"),
        )),
        Mistake("scores_ignored", within(*INSIDE, changed(softmax=equal_shares)), say(
            ("All values of the window get the same weight: Q and K play no part.", "窗口内的值权重全都相同：Q 和 K 没起作用。"),
            ("the plain mean of the values in the window", "窗口内各个值的简单平均"),
            ("Does your output change when Q changes?", "改变 Q，你的输出会变吗？"),
            ("Look at what the softmax is given.", "看传给 softmax 的是什么。"),
            ("Put -inf into the scores themselves: np.where(mask, scores, -np.inf).",
             "在分数本身里填 -inf：np.where(mask, scores, -np.inf)。"),
        )),
    ),
    conventions=conventions(INSIDE),
    properties=(future_leaks("example", "huge_end", slice(0, 3)),),
    solution=(
        Line("def sliding_window_attention(Q, K, V, window):\n    i = np.arange(Q.shape[-2])[:, None]\n"
             "    j = np.arange(K.shape[-2])",
             "Positions: queries down, keys across.", "位置：查询竖排，键横排。"),
        Line("    seen = (j <= i) & (j > i - window)",
             "Not the future, and not too far back: `window` keys with its own.", "不看未来，也不看太远：连同自己共 window 个键。"),
        Line("    scores = Q @ K.swapaxes(-1, -2) / np.sqrt(Q.shape[-1])",
             "Each query with each key, scaled by √d_k.", "每个查询与每个键，按 √d_k 缩放。"),
        Line("    scores = np.where(seen, scores, -np.inf)",
             "What is not seen gets -inf, so that exp gives 0.", "看不到的分数设为 -inf，exp 之后就是 0。"),
        Line("    exp = np.exp(scores - scores.max(axis=-1, keepdims=True))\n"
             "    return exp / exp.sum(axis=-1, keepdims=True) @ V",
             "Softmax, then the average of the values.", "softmax，然后对值做平均。"),
    ),
    styles={
        "slices": '''
import numpy as np


def sliding_window_attention(Q, K, V, window):
    out = np.empty(V.shape, dtype=float)
    for t in range(Q.shape[-2]):
        near = slice(max(0, t - window + 1), t + 1)
        s = (K[..., near, :] @ Q[..., t, :, None])[..., 0] / np.sqrt(Q.shape[-1])
        w = np.exp(s - s.max(axis=-1, keepdims=True))
        w /= w.sum(axis=-1, keepdims=True)
        out[..., t, :] = (w[..., None, :] @ V[..., near, :])[..., 0, :]
    return out
''',
        "two_triangles": '''
import numpy as np


def sliding_window_attention(Q, K, V, window):
    T = Q.shape[-2]
    ones = np.ones((T, T), dtype=bool)
    mask = np.tril(ones) & np.triu(ones, k=-(window - 1))
    logits = np.einsum("...id,...jd->...ij", Q, K) * Q.shape[-1] ** -0.5
    logits[..., ~mask] = -np.inf
    p = np.exp(logits - logits.max(-1, keepdims=True))
    return np.einsum("...ij,...jv->...iv", p / p.sum(-1, keepdims=True), V)
''',
        "distance": '''
import numpy as np


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def sliding_window_attention(Q, K, V, window):
    positions = np.arange(Q.shape[-2])
    distance = np.subtract.outer(positions, positions)
    bias = np.where((distance >= 0) & (distance < window), 0.0, -1e30)
    return softmax(Q @ K.mT / np.sqrt(K.shape[-1]) + bias) @ V
''',
        "chinese_names": '''
import numpy as np


def sliding_window_attention(查询, 键, 值, 窗口):
    n, d = 查询.shape[-2:]
    可见 = np.zeros((n, n), bool)
    for 行 in range(n):
        for 列 in range(max(0, 行 + 1 - 窗口), 行 + 1):
            可见[行, 列] = True
    分数 = np.where(可见, 查询 @ np.swapaxes(键, -1, -2) / d**0.5, -np.inf)
    指数 = np.exp(分数 - np.max(分数, axis=-1, keepdims=True))
    return (指数 @ 值) / 指数.sum(axis=-1, keepdims=True)
''',
    },
)  # fmt: skip
