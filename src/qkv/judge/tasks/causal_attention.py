"""Causal attention: no token sees what comes after it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ... import ops
from ..formulas import attention, by_constant, changed, conventions, down_an_axis, mistakes
from ..mistakes import say
from ..probes import RECTANGULAR, SQUARE, integers, low_scores, qkv
from ..properties import future_leaks
from ..task import Function, Line, Mistake, Probe, Task, Text, formula, within
from ..wire import Array
from .causal_mask import before_itself, behind_itself, everything, from_itself_on, up_to_itself, up_to_the_next


@formula
def causal(Q: Array, K: Array, V: Array, *, rule: Function = up_to_itself, attend: Function = attention) -> Array:
    mask = rule(np.arange(Q.shape[-2])[:, None], np.arange(K.shape[-2]))
    output = attend(Q, K, V, mask)[0]
    return output


def equal_shares(masked: Array) -> Array:
    visible = ~np.isneginf(masked)
    return visible / visible.sum(axis=-1, keepdims=True)


def zeros_hidden_too(scaled: Array, mask: Array) -> Array:
    return np.where(mask & (scaled != 0), scaled, -np.inf)


def reference(Q: Array, K: Array, V: Array) -> Array:
    return np.asarray(ops.attention(Q, K, V, causal=True))


def constant_in(Q: Array, K: Array, V: Array, output: Any) -> float | None:
    """The number that scores (T, T) were divided by, read off the second row: it mixes two values only."""
    if Q.ndim != 2 or not isinstance(output, np.ndarray) or output.shape != V.shape or not np.isfinite(output).all():
        return None
    apart = V[0] - V[1]
    share = float((output[1] - V[1]) @ apart / (apart @ apart))
    if not 1e-9 < share < 1 - 1e-9 or abs(share - 0.5) < 1e-6:
        return None
    constant = float(Q[1] @ (K[0] - K[1])) / float(np.log(share / (1 - share)))
    return constant if abs(constant - 1) > 1e-6 else None  # 1: not divided at all, which has a name of its own


def fitted(formula: Function, probe: Probe, value: Any) -> Function | None:
    """The variation for `scale_hard_coded` with the learner's own number."""
    assert not isinstance(probe.arguments, tuple)
    given = probe.arguments
    constant = constant_in(given["Q"], given["K"], given["V"], value)
    return None if constant is None else partial(formula, attend=changed(scale=partial(by_constant, constant=constant)))


def example() -> dict[str, Any]:
    """Three tokens, numbers of one digit; one score is 0."""
    Q, K = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]), np.array([[2.0, 0.0], [1.0, 1.0], [-1.0, 2.0]])
    return {"Q": Q, "K": K, "V": np.array([[1.0, 2.0], [3.0, 5.0], [-2.0, 4.0]])}


def huge_end() -> dict[str, Any]:
    """The example with two more tokens and a score of 100000 in the future: the example's own rows must not notice."""
    end = {"Q": [[300.0, 100.0], [2.0, 4.0]], "K": [[100.0, -100.0], [200.0, 400.0]], "V": [[3.0, 1.0], [2.0, 4.0]]}
    return {name: np.concatenate([rows, end[name]]) for name, rows in example().items()}


def first_low() -> dict[str, Any]:
    """Scores below -10000 in the first row, before a future of up to 20000."""
    return {name: value for name, value in low_scores().items() if name != "mask"}


INSIDE = (causal, "attend")
SHARED_MISTAKES = mistakes(
    "no_scale", "scale_by_d", "scale_multiplied", "scale_wrong_size", "scale_hard_coded", "scale_after_softmax",
    "softmax_wrong_axis", "softmax_no_max", "softmax_global_max", "softmax_no_keepdims", "integer_result",
    "mutates_input", "mask_after_softmax", "mask_fill_zero", "mask_fill_small", "qk_swapped", "kv_swapped",
    "batch_axes_turned", "keys_not_transposed", "queries_transposed", "weights_transposed", "returns_values_only",
    inside=INSIDE,
)  # fmt: skip

TASK = Task(
    name="causal_attention",
    signature="causal_attention(Q, K, V)",
    returns=Text("output (..., T, d_v)", "output (..., T, d_v)"),
    title=Text("Causal attention", "因果注意力"),
    statement=Text(
        "softmax(Q Kᵀ / √d_k) V, where each token looks at itself and at what came before it, never at the future.\n"
        "Q and K are (..., T, d_k), V is (..., T, d_v). Return the output (..., T, d_v).\n"
        "Scores may be large; the inputs stay as they are.",
        "softmax(Q Kᵀ / √d_k) V，每个词元只能看自己和之前的词元，不能看未来。\n"
        "Q 和 K 为 (..., T, d_k)，V 为 (..., T, d_v)。返回输出 (..., T, d_v)。\n"
        "分数可能很大；不要改动输入。",
    ),
    reference=reference,
    formula=causal,
    probes=(
        Probe("example", example(), Text("three tokens: small enough to work out by hand", "三个词元：小到可以手算")),
        Probe("square", qkv(11, 8, 8, 8, 8), SQUARE),
        Probe("rectangular", qkv(21, 5, 5, 3, 7), RECTANGULAR),
        Probe("batch", qkv(31, 4, 4, 8, 8, (2, 3)), Text("axes in front", "前面还有批量的维")),
        Probe("huge_end", huge_end(), Text("the example, with two very large tokens behind it", "在示例后面接上两个数很大的词元")),
        Probe("low_scores", first_low(), Text("the first row may only see a score below -10000", "第一行只能看到低于 -10000 的分数")),
        Probe("integers", integers(), Text("integer inputs", "输入是整数")),
    ),
    mistakes=(
        *(replace(m, fit=partial(fitted, causal)) if m.id == "scale_hard_coded" else m for m in SHARED_MISTAKES),
        Mistake("softmax_wrong_axis", within(*INSIDE, changed(softmax=partial(down_an_axis, axis=1)))),
        Mistake("causal_missing", (partial(causal, rule=everything),)),
        Mistake("causal_off_by_one", tuple(partial(causal, rule=r) for r in (before_itself, up_to_the_next))),
        Mistake("causal_inverted", tuple(partial(causal, rule=r) for r in (from_itself_on, behind_itself))),
        Mistake("scores_ignored", within(*INSIDE, changed(softmax=equal_shares)), say(
            ("All visible values get the same weight: Q and K play no part.", "看得到的值权重全都相同：Q 和 K 没起作用。"),
            ("the plain mean of the values so far", "到当前为止各个值的简单平均"),
            ("Does your output change when Q changes?", "改变 Q，你的输出会变吗？"),
            ("Look at what the softmax is given.", "看传给 softmax 的是什么。"),
            ("Put -inf into the scores themselves: np.where(mask, scores, -np.inf).",
             "在分数本身里填 -inf：np.where(mask, scores, -np.inf)。"),
        )),
        Mistake("mask_hides_zeros", within(*INSIDE, changed(hide=zeros_hidden_too)), say(
            ("Scores that happen to be 0 are hidden with the future.", "恰好为 0 的分数也和未来一起被遮住了。"),
            ("causal attention that hides every score of 0", "把等于 0 的分数全部遮住的因果注意力"),
            ("What if an allowed score is exactly 0?", "如果一个允许看的分数恰好是 0 呢？"),
            ("Look at == 0: is it asked of the mask or of the scores?", "看 == 0：判断的是掩码，还是分数？"),
            ("Ask the mask: np.where(np.tril(np.ones((n, n))) == 0, -np.inf, scores).",
             "判断掩码：np.where(np.tril(np.ones((n, n))) == 0, -np.inf, scores)。"),
        )),
    ),
    conventions=conventions(INSIDE),
    properties=(future_leaks("example", "huge_end", slice(0, 3)),),
    solution=(
        Line("def causal_attention(Q, K, V):\n    n = Q.shape[-2]",
             "n tokens; leading axes take part by themselves.", "n 个词元；前面的批量维自动参与。"),
        Line("    scores = Q @ K.swapaxes(-1, -2) / np.sqrt(Q.shape[-1])",
             "Each query with each key, scaled by √d_k.", "每个查询与每个键，按 √d_k 缩放。"),
        Line("    scores = np.where(np.tril(np.ones((n, n), dtype=bool)), scores, -np.inf)",
             "The future gets -inf, so that exp gives 0.", "未来的分数设为 -inf，exp 之后就是 0。"),
        Line("    exp = np.exp(scores - scores.max(axis=-1, keepdims=True))",
             "Every row sees at least itself, so its maximum is finite.", "每行至少看得到自己，所以最大值是有限的。"),
        Line("    return exp / exp.sum(axis=-1, keepdims=True) @ V",
             "Weights that sum to 1 average the values.", "用和为 1 的权重对值做平均。"),
    ),
    styles={
        "one_token_after_another": '''
import numpy as np


def causal_attention(Q, K, V):
    out = np.zeros(V.shape)
    for i in range(Q.shape[-2]):
        s = np.einsum("...d,...jd->...j", Q[..., i, :], K[..., : i + 1, :]) / np.sqrt(Q.shape[-1])
        w = np.exp(s - s.max(-1, keepdims=True))
        w = w / w.sum(-1, keepdims=True)
        out[..., i, :] = np.einsum("...j,...jv->...v", w, V[..., : i + 1, :])
    return out
''',
        "additive_mask": '''
import math

import numpy as np


def softmax(z):
    e = np.exp(z - np.max(z, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def causal_attention(q, k, v):
    T, d = q.shape[-2:]
    return softmax(q @ k.mT / math.sqrt(d) + np.triu(np.full((T, T), -np.inf), k=1)) @ v
''',
        "class_with_a_buffer": '''
import numpy as np


class CausalSelfAttention:
    def __init__(self, block_size=64):
        self.tril = np.tril(np.ones((block_size, block_size)))

    def forward(self, q, k, v):
        T, C = q.shape[-2], q.shape[-1]
        att = (q @ np.swapaxes(k, -2, -1)) * (1.0 / C**0.5)
        att[..., self.tril[:T, :T] == 0] = float("-inf")
        att -= att.max(axis=-1)[..., None]
        att = np.exp(att)
        return (att @ v) / att.sum(axis=-1)[..., None]


def causal_attention(Q, K, V):
    return CausalSelfAttention().forward(Q, K, V)
''',
        "chinese_names": '''
import numpy as np


def causal_attention(查询, 键, 值):
    长度, 宽度 = 查询.shape[-2], 查询.shape[-1]
    位置 = np.arange(长度)
    未来 = 位置[None, :] > 位置[:, None]
    分数 = np.matmul(查询 / np.sqrt(宽度), np.swapaxes(键, -1, -2))
    分数 = np.where(未来, -1e30, 分数)
    权重 = np.exp(分数 - 分数.max(-1, keepdims=True))
    权重 = 权重 / 权重.sum(-1, keepdims=True)
    return np.matmul(权重, 值)
''',
    },
)  # fmt: skip
