"""Latent attention (MLA): keys and values of every head are unfolded from one small vector per token."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...layers import LatentAttention
from ..formulas import attention, by_constant, changed, mistakes, mixed_transposed
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


def own_weights(W_UK: Array, W_UV: Array) -> Array:
    return W_UV


def all_of_it(n: int) -> Array | None:
    return None


def as_it_is(attend: Function, x: Array, latent: Array) -> Function:
    return attend


@formula
def latent_heads(
    x: Array,
    W_Q: Array,
    W_DKV: Array,
    W_UK: Array,
    W_UV: Array,
    W_O: Array,
    n_heads: int,
    *,
    project: Function = projected,
    compress: Function = projected,
    values_by: Function = own_weights,
    split_heads: Function = split,
    visible: Function = all_of_it,
    attend: Function = attention,
    fit_scale: Function = as_it_is,
    merge_heads: Function = merge,
    join: Function = projected,
) -> Array:
    Q = split_heads(project(x, W_Q), n_heads)
    latent = compress(x, W_DKV)
    K = split_heads(project(latent, W_UK), n_heads)
    V = split_heads(project(latent, values_by(W_UK, W_UV)), n_heads)
    mask = visible(len(x))
    heads = fit_scale(attend, x, latent)(Q, K, V, mask)[0]
    merged = merge_heads(heads)
    output = join(merged, W_O)
    return output


def keys_weights(W_UK: Array, W_UV: Array) -> Array:
    return W_UK


def below(n: int) -> Array:
    return np.tril(np.ones((n, n), bool))


def by_root_of_latent(attend: Function, x: Array, latent: Array) -> Function:
    return partial(attend, scale=partial(by_constant, constant=np.sqrt(latent.shape[-1])))


def by_root_of_width(attend: Function, x: Array, latent: Array) -> Function:
    return partial(attend, scale=partial(by_constant, constant=np.sqrt(x.shape[-1])))


def normed(x: Array, W: Array, *, eps: float) -> Array:
    latent = x @ W
    return latent / np.sqrt((latent * latent).mean(axis=-1, keepdims=True) + eps)


def reference(x: Array, W_Q: Array, W_DKV: Array, W_UK: Array, W_UV: Array, W_O: Array, n_heads: int) -> Array:
    return LatentAttention(W_Q, W_DKV, W_UK, W_UV, W_O, n_heads)(x)


def inputs(seed: int, n: int, d: int, d_latent: int, n_heads: int, d_k: int, d_v: int) -> dict[str, Any]:
    """x and the five weights."""
    shapes = {
        "W_Q": (d, n_heads * d_k), "W_DKV": (d, d_latent), "W_UK": (d_latent, n_heads * d_k),
        "W_UV": (d_latent, n_heads * d_v), "W_O": (n_heads * d_v, d),
    }  # fmt: skip
    weights = {name: drawn(seed + k, *shape) / 2 for k, (name, shape) in enumerate(shapes.items(), 1)}
    return {"x": drawn(seed, n, d), **weights, "n_heads": n_heads}


INSIDE = (latent_heads, "attend")
ONE_LARGE = np.array([[3000.0], [1.0], [1.0], [1.0], [1.0]])

TASK = Task(
    name="latent_attention",
    signature="latent_attention(x, W_Q, W_DKV, W_UK, W_UV, W_O, n_heads)",
    returns=Text("output (n, d)", "output (n, d)"),
    title=Text("Latent attention", "潜在注意力（MLA）"),
    statement=Text(
        "x (n, d). Queries: x @ W_Q, (d, n_heads * d_k). Each token has one small vector, latent = x @ W_DKV, (d, d_latent);\n"
        "keys are latent @ W_UK, (d_latent, n_heads * d_k), values are latent @ W_UV, (d_latent, n_heads * d_v).\n"
        "Heads are consecutive columns; softmax(Q Kᵀ / √d_k) V in each, the heads beside each other,\n"
        "times W_O, (n_heads * d_v, d). Not causal, no positions, no norm.",
        "x (n, d)。查询为 x @ W_Q，(d, n_heads * d_k)。每个词元有一个小向量 latent = x @ W_DKV，(d, d_latent)；\n"
        "键为 latent @ W_UK，(d_latent, n_heads * d_k)，值为 latent @ W_UV，(d_latent, n_heads * d_v)。\n"
        "各头取相邻的若干列；每个头做 softmax(Q Kᵀ / √d_k) V，各头并排，\n"
        "再乘 W_O，(n_heads * d_v, d)。不带因果，没有位置编码，没有归一化层。",
    ),
    reference=reference,
    formula=latent_heads,
    probes=(
        Probe("example", inputs(1, 2, 4, 2, 2, 2, 2), Text("two tokens, two heads, a latent of 2", "两个词元，两个头，latent 宽 2")),
        Probe("all_sizes", {**inputs(11, 5, 7, 6, 3, 2, 4), "x": drawn(11, 5, 7) * ONE_LARGE},
              Text("every size different; one token is very large", "每个尺寸都不同；有一个词元的数特别大")),
        Probe("square", inputs(21, 5, 6, 6, 3, 2, 2),
              Text("all weights square: nothing breaks, only values differ", "权重都是方阵：不会报错，只有数值不同")),
    ),
    mistakes=(
        *mistakes(
            "no_scale", "scale_by_d", "scale_multiplied", "scale_after_softmax", "softmax_wrong_axis",
            "softmax_no_max", "qk_swapped", "returns_values_only", inside=INSIDE,
        ),
        *(Mistake(m.id, m.variations, say(
            ("W_UK and W_UV are swapped.", "W_UK 与 W_UV 对调了。"),
            ("latent attention with W_UK and W_UV swapped", "W_UK 与 W_UV 对调的潜在注意力"),
            ("Which weight makes keys, which one values?", "哪个权重得到键？哪个得到值？"),
            ("Look at the two products of the latent.", "看 latent 的两个乘积。"),
            ("K = latent @ W_UK, V = latent @ W_UV.", "K = latent @ W_UK，V = latent @ W_UV。"),
        )) for m in mistakes("kv_swapped", inside=INSIDE)),
        Mistake("attention_transposed", within(*INSIDE, changed(mix=mixed_transposed)), SHARED["weights_transposed"]),
        Mistake("scale_by_d_model", (*within(*INSIDE, changed(scale=by_root_of_all_heads)),
                                     partial(latent_heads, fit_scale=by_root_of_width))),
        Mistake("scale_by_latent", (partial(latent_heads, fit_scale=by_root_of_latent),), say(
            ("The scores are divided by √d_latent, not by √d_k.", "分数除以了 √d_latent，而不是 √d_k。"),
            ("attention with scores divided by √d_latent", "分数除以 √d_latent 的注意力"),
            ("W_UK may move to the queries; does that change what q·k is?", "W_UK 可以移到查询一侧；q·k 的值会因此改变吗？"),
            ("Look at the number under the root.", "看根号里的数。"),
            ("Use the width of a head's keys: W_UK.shape[1] // n_heads.", "用单个头的键的宽度：W_UK.shape[1] // n_heads。"),
        )),
        Mistake("values_from_keys", (partial(latent_heads, values_by=keys_weights),), say(
            ("The values are unfolded by W_UK: keys and values are the same.", "值用了 W_UK 展开：键和值成了一样的。"),
            ("attention whose values are its keys", "把键当作值的注意力"),
            ("Does your output depend on W_UV?", "你的输出与 W_UV 有关吗？"),
            ("Look at how V is made.", "看 V 是怎么得到的。"),
            ("V = latent @ W_UV.", "V = latent @ W_UV。"),
        )),
        Mistake("latent_normed", tuple(partial(latent_heads, compress=partial(normed, eps=e)) for e in (0.0, 1e-6, 1e-5)), say(
            ("The latent goes through a norm that the task does not ask for.", "latent 多过了一个题目没有要求的归一化层。"),
            ("attention over a latent scaled to root mean square 1", "把 latent 缩放到均方根为 1 的注意力"),
            ("Is your latent equal to x @ W_DKV?", "你的 latent 等于 x @ W_DKV 吗？"),
            ("Look between W_DKV and W_UK.", "看 W_DKV 与 W_UK 之间。"),
            ("Leave the RMSNorm out here.", "在这里去掉 RMSNorm。"),
        )),
        Mistake("causal_not_asked", (partial(latent_heads, visible=below),)),
        Mistake("heads_reshape_only", (partial(latent_heads, split_heads=reshaped),
                                       partial(latent_heads, split_heads=reshaped, merge_heads=merged_without_swap))),
        Mistake("heads_not_in_front",
                (partial(latent_heads, split_heads=left_behind_tokens, merge_heads=merged_in_place),)),
        Mistake("heads_interleaved", (partial(latent_heads, split_heads=every_nth_column),), INTERLEAVED),
        Mistake("heads_not_split", (partial(latent_heads, split_heads=one_head),), NOT_SPLIT),
        Mistake("heads_merge_no_transpose", (partial(latent_heads, merge_heads=merged_without_swap),)),
        Mistake("no_output_projection", (partial(latent_heads, join=not_joined),)),
        Mistake("heads_averaged", tuple(partial(latent_heads, merge_heads=m, join=j) for m in (averaged, summed)
                                        for j in (not_joined, by_first_rows))),
        Mistake("weights_transposed",
                (partial(latent_heads, project=with_transposed, compress=with_transposed),
                 partial(latent_heads, project=with_transposed, compress=with_transposed, join=with_transposed)), say(
            ("The weight matrices are transposed: x @ W.T.", "权重矩阵被转置了：x @ W.T。"),
            ("attention with x @ W.T in place of x @ W", "用 x @ W.T 代替 x @ W 的注意力"),
            ("Which axis of W stands for the columns of a token?", "W 的哪一维对应输入词元的各列？"),
            ("Look at the projections.", "看几个投影。"),
            ("Q = x @ W_Q, without .T.", "Q = x @ W_Q，不要 .T。"),
        )),
    ),
    solution=(
        Line("def latent_attention(x, W_Q, W_DKV, W_UK, W_UV, W_O, n_heads):\n"
             "    def heads(rows):\n        return rows.reshape(len(rows), n_heads, -1).swapaxes(0, 1)\n",
             "Cut each row into heads, then put the heads in front.", "把每行切成若干头，再把头移到最前。"),
        Line("    latent = x @ W_DKV",
             "One small vector per token: all that a cache would have to keep.", "每个词元一个小向量：缓存只需要存它。"),
        Line("    Q, K, V = heads(x @ W_Q), heads(latent @ W_UK), heads(latent @ W_UV)",
             "Keys and values of all heads are unfolded from the latent.", "所有头的键和值都从 latent 展开。"),
        Line("    scores = Q @ K.swapaxes(-1, -2) / np.sqrt(Q.shape[-1])",
             "Scores of each head, scaled by the width of its keys.", "每个头的分数，按它的键的宽度缩放。"),
        Line("    exp = np.exp(scores - scores.max(axis=-1, keepdims=True))\n"
             "    weights = exp / exp.sum(axis=-1, keepdims=True)",
             "Softmax over the keys.", "对键做 softmax。"),
        Line("    return (weights @ V).swapaxes(0, 1).reshape(len(x), -1) @ W_O",
             "Tokens in front again, heads beside each other, joined by W_O.", "词元回到最前，各头并排，再乘 W_O。"),
    ),
    styles={
        "absorbed": '''
import numpy as np


def latent_attention(x, W_Q, W_DKV, W_UK, W_UV, W_O, n_heads):
    c = x @ W_DKV
    out = 0
    for wq, wk, wv, wo in zip(
        np.split(W_Q, n_heads, 1), np.split(W_UK, n_heads, 1), np.split(W_UV, n_heads, 1), np.split(W_O, n_heads, 0)
    ):
        scores = x @ (wq @ wk.T) @ c.T / np.sqrt(wk.shape[1])
        p = np.exp(scores - scores.max(1, keepdims=True))
        p = p / p.sum(1, keepdims=True)
        out = out + (p @ c) @ (wv @ wo)
    return out
''',
        "einsum": '''
import numpy as np


def latent_attention(x, W_Q, W_DKV, W_UK, W_UV, W_O, n_heads):
    n, h = x.shape[0], n_heads
    c = np.einsum("nd,dc->nc", x, W_DKV)
    q = (x @ W_Q).reshape(n, h, -1)
    k = np.einsum("nc,chk->nhk", c, W_UK.reshape(len(W_UK), h, -1))
    v = np.einsum("nc,chv->nhv", c, W_UV.reshape(len(W_UV), h, -1))
    s = np.einsum("ihk,jhk->ijh", q, k) * q.shape[-1] ** -0.5
    p = np.exp(s - s.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return np.einsum("ijh,jhv->ihv", p, v).reshape(n, -1) @ W_O
''',
        "class": '''
import math

import numpy as np


class MLA:
    def __init__(self, n_heads, W_Q, W_DKV, W_UK, W_UV, W_O):
        self.h = n_heads
        self.W_Q, self.W_DKV, self.W_UK, self.W_UV, self.W_O = W_Q, W_DKV, W_UK, W_UV, W_O

    def split(self, t):
        return t.reshape(t.shape[0], self.h, t.shape[1] // self.h).transpose(1, 0, 2)

    def forward(self, x):
        kv = x @ self.W_DKV
        q, k, v = self.split(x @ self.W_Q), self.split(kv @ self.W_UK), self.split(kv @ self.W_UV)
        att = (q / math.sqrt(q.shape[2])) @ k.transpose(0, 2, 1)
        att = np.exp(att - np.max(att, axis=2, keepdims=True))
        y = (att @ v) / np.sum(att, axis=2, keepdims=True)
        return np.concatenate([head for head in y], axis=1) @ self.W_O


def latent_attention(x, W_Q, W_DKV, W_UK, W_UV, W_O, n_heads):
    return MLA(n_heads, W_Q, W_DKV, W_UK, W_UV, W_O).forward(x)
''',
        "chinese_names": '''
import numpy as np


def latent_attention(x, W_Q, W_DKV, W_UK, W_UV, W_O, n_heads):
    潜向量 = x @ W_DKV
    查询, 键, 值 = x @ W_Q, 潜向量 @ W_UK, 潜向量 @ W_UV
    键宽, 值宽 = 键.shape[1] // n_heads, 值.shape[1] // n_heads
    拼接 = np.empty((len(x), n_heads * 值宽))
    for 头 in range(n_heads):
        q, k = 查询[:, 头 * 键宽:(头 + 1) * 键宽], 键[:, 头 * 键宽:(头 + 1) * 键宽]
        分数 = q @ k.T / 键宽 ** 0.5
        指数 = np.exp(分数 - 分数.max(axis=1, keepdims=True))
        拼接[:, 头 * 值宽:(头 + 1) * 值宽] = 指数 @ 值[:, 头 * 值宽:(头 + 1) * 值宽] / 指数.sum(axis=1, keepdims=True)
    return 拼接 @ W_O
''',
    },
)  # fmt: skip
