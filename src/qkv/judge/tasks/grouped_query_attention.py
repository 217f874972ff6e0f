"""Grouped-query attention: several query heads share one head of keys and values."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ... import ops
from ..formulas import (
    attention,
    by_constant,
    by_root_of_length,
    changed,
    conventions,
    down_an_axis,
    mistakes,
    queries_scaled_in_place,
    unscaled,
)
from ..mistakes import say
from ..probes import drawn
from ..properties import future_leaks
from ..task import Function, Line, Mistake, Probe, Task, Text, formula, within
from ..wire import Array
from .causal_attention import constant_in
from .multi_head_attention import by_root_of_all_heads


def repeated(x: Array, n_heads: int) -> Array:
    return np.repeat(x, n_heads // x.shape[1], axis=1)


def below(n: int) -> Array:
    return np.tril(np.ones((n, n), bool))


def when_asked(causal: bool, n: int) -> Array | None:
    return below(n) if causal else None


def as_they_are(heads: Array, n_kv_heads: int) -> Array:
    return heads


@formula
def grouped(
    Q: Array,
    K: Array,
    V: Array,
    causal: bool = False,
    *,
    share_keys: Function = repeated,
    share_values: Function = repeated,
    hidden: Function = when_asked,
    attend: Function = attention,
    arrange: Function = as_they_are,
) -> Array:
    keys = share_keys(K, Q.shape[1])
    values = share_values(V, Q.shape[1])
    mask = hidden(causal, Q.shape[-2])
    output = arrange(attend(Q, keys, values, mask)[0], K.shape[1])
    return output


def tiled(x: Array, n_heads: int) -> Array:
    return np.tile(x, (1, n_heads // x.shape[1], 1, 1))


def backwards(x: Array, n_heads: int) -> Array:
    return repeated(x[:, ::-1], n_heads)


def along_sequence(x: Array, n_heads: int) -> Array:
    return np.repeat(x, n_heads // x.shape[1], axis=2).reshape(x.shape[0], n_heads, *x.shape[2:])


def along_width(x: Array, n_heads: int) -> Array:
    return np.repeat(x, n_heads // x.shape[1], axis=3).reshape(x.shape[0], n_heads, *x.shape[2:])


def tiled_along_width(x: Array, n_heads: int) -> Array:
    return np.tile(x, (1, 1, 1, n_heads // x.shape[1])).reshape(x.shape[0], n_heads, *x.shape[2:])


def by_number_of_groups(x: Array, n_heads: int) -> Array:
    return x[:, np.arange(n_heads) // x.shape[1]]


def repeated_by_number_of_groups(x: Array, n_heads: int) -> Array:
    return np.repeat(x, x.shape[1], axis=1)


def first_alone(x: Array, n_heads: int) -> Array:
    return np.repeat(x[:, :1], n_heads, axis=1)


def mean_alone(x: Array, n_heads: int) -> Array:
    return np.repeat(x.mean(axis=1, keepdims=True), n_heads, axis=1)


def scaled_in_place(x: Array, n_heads: int) -> Array:
    x /= np.sqrt(x.shape[-1])
    return repeated(x, n_heads)


def group_by_group(heads: Array, n_kv_heads: int) -> Array:
    B, H, T, d = heads.shape
    return heads.reshape(B, n_kv_heads, H // n_kv_heads, T, d).swapaxes(1, 2).reshape(B, H, T, d)


def averaged(heads: Array, n_kv_heads: int) -> Array:
    B, H, T, d = heads.shape
    return heads.reshape(B, n_kv_heads, H // n_kv_heads, T, d).mean(axis=2)


def summed(heads: Array, n_kv_heads: int) -> Array:
    B, H, T, d = heads.shape
    return heads.reshape(B, n_kv_heads, H // n_kv_heads, T, d).sum(axis=2)


def never(causal: bool, n: int) -> Array | None:
    return None


def always(causal: bool, n: int) -> Array | None:
    return below(n)


def by_root_of_heads(scores: Array, Q: Array, K: Array, V: Array) -> Array:
    return scores / np.sqrt(Q.shape[1])


def before_itself(causal: bool, n: int) -> Array | None:
    return below(n) & ~np.eye(n, dtype=bool) if causal else None


def up_to_the_next(causal: bool, n: int) -> Array | None:
    return np.tril(np.ones((n, n), bool), k=1) if causal else None


def from_itself_on(causal: bool, n: int) -> Array | None:
    return below(n).T if causal else None


def behind_itself(causal: bool, n: int) -> Array | None:
    return ~below(n) if causal else None


def shared(*ways: Function) -> tuple[Function, ...]:
    """Each way of sharing for keys and values together."""
    return tuple(partial(grouped, share_keys=way, share_values=way) for way in ways)


def hiding(*rules: Function) -> tuple[Function, ...]:
    return tuple(partial(grouped, hidden=rule) for rule in rules)


def reference(Q: Array, K: Array, V: Array, causal: bool = False) -> Array:
    return np.asarray(ops.attention(Q, K, V, causal=causal))


def inputs(seed: int, B: int, heads: tuple[int, int], T: int, d: int, **more: Any) -> dict[str, Any]:
    """Queries with many heads, keys and values with few."""
    H, Hkv = heads
    return {
        "Q": drawn(seed, B, H, T, d),
        "K": drawn(seed + 1, B, Hkv, T, d),
        "V": drawn(seed + 2, B, Hkv, T, d),
        **more,
    }


def example() -> dict[str, Any]:
    """Two tokens, four query heads on two key heads; no key has a number below 0.5."""
    few = inputs(1, 1, (4, 2), 2, 2)
    return {**few, "K": abs(few["K"]) + 0.5, "causal": True}


def huge_end() -> dict[str, Any]:
    """The example with two very large tokens behind it; all that the first of them may see scores below -10000."""
    end = {
        "Q": [[-30000.0, -20000.0], [500.0, 800.0]],
        "K": [[1.0, 2.0], [-300.0, -200.0]],
        "V": [[3.0, 1.0], [2.0, 4.0]],
    }
    few = example()
    for name, rows in end.items():
        few[name] = np.concatenate([few[name], np.broadcast_to(rows, few[name].shape)], axis=2)
    return few


def fitted(probe: Probe, value: Any) -> Function | None:
    """The variation for `scale_hard_coded` with the learner's own number, read off the first head of a causal probe."""
    given = probe.arguments
    assert not isinstance(given, tuple)
    if not given.get("causal") or not isinstance(value, np.ndarray) or value.ndim != 4:
        return None
    constant = constant_in(given["Q"][0, 0], given["K"][0, 0], given["V"][0, 0], value[0, 0])
    return None if constant is None else partial(grouped, attend=changed(scale=partial(by_constant, constant=constant)))


INSIDE = (grouped, "attend")
SHARED_MISTAKES = mistakes(
    "no_scale", "scale_by_d", "scale_multiplied", "scale_hard_coded", "scale_after_softmax",
    "softmax_wrong_axis", "softmax_no_max", "softmax_global_max", "mask_after_softmax", "mask_fill_zero",
    "mask_fill_small", "mask_times_inf", "qk_swapped", "kv_swapped", "keys_not_transposed", "queries_transposed",
    "weights_transposed", "returns_values_only", inside=INSIDE,
)  # fmt: skip

TASK = Task(
    name="grouped_query_attention",
    signature="grouped_query_attention(Q, K, V, causal=False)",
    returns=Text("output (B, H, T, d)", "output (B, H, T, d)"),
    title=Text("Grouped-query attention", "分组查询注意力"),
    statement=Text(
        "Q is (B, H, T, d); K and V are (B, Hkv, T, d), with H a multiple of Hkv.\n"
        "Neighbouring query heads share a head of keys and values: query head h uses number h // (H / Hkv).\n"
        "In each head softmax(Q Kᵀ / √d) V; with causal=True each token sees itself and what came before.\n"
        "Return (B, H, T, d). Scores may be large; the inputs stay as they are.",
        "Q 为 (B, H, T, d)；K 和 V 为 (B, Hkv, T, d)，H 是 Hkv 的整数倍。\n"
        "相邻的查询头共用一个键值头：第 h 个查询头用第 h // (H / Hkv) 个键值头。\n"
        "每个头做 softmax(Q Kᵀ / √d) V；causal=True 时，每个词元只看自己和之前的词元。\n"
        "返回 (B, H, T, d)。分数可能很大；不要改动输入。",
    ),
    reference=reference,
    formula=grouped,
    probes=(
        Probe("example", example(),
              Text("two tokens, four query heads on two key heads, causal", "两个词元，四个查询头共用两个键头，因果")),
        Probe("heads_6_3", inputs(11, 2, (6, 3), 5, 4), Text("six query heads on three, not causal", "六个查询头、三个键头，不带因果")),
        Probe("heads_6_2", inputs(21, 2, (6, 2), 4, 4, causal=True),
              Text("six query heads on two, causal", "六个查询头、两个键头，因果")),
        Probe("huge_end", huge_end(),
              Text("the example, with two very large tokens behind it", "在示例后面接上两个数很大的词元")),
    ),
    mistakes=(
        *(replace(m, fit=fitted) if m.id == "scale_hard_coded" else m for m in SHARED_MISTAKES),
        Mistake("mutates_input", (*within(*INSIDE, changed(product=queries_scaled_in_place, scale=unscaled)),
                                  partial(grouped, share_keys=scaled_in_place, attend=changed(scale=unscaled)))),
        Mistake("scale_wrong_size", within(*INSIDE, changed(scale=by_root_of_length), changed(scale=by_root_of_heads))),
        Mistake("softmax_wrong_axis", within(*INSIDE, changed(softmax=partial(down_an_axis, axis=1)))),
        Mistake("scale_by_d_model", within(*INSIDE, changed(scale=by_root_of_all_heads)), say(
            ("The scores are divided by √(H d), not by √d.", "分数除以了 √(H d)，而不是 √d。"),
            ("attention with scores divided by the root of the width of all heads", "分数除以所有头总宽度的平方根的注意力"),
            ("How many products are summed in one score?", "一个分数是几个乘积之和？"),
            ("Look at the number under the root.", "看根号里的数。"),
            ("Use the width of one head: np.sqrt(Q.shape[-1]).", "用单个头的宽度：np.sqrt(Q.shape[-1])。"),
        )),
        Mistake("causal_missing", hiding(never)),
        Mistake("causal_not_asked", hiding(always), say(
            ("The future is hidden even with causal=False.", "causal=False 时也遮住了未来。"),
            ("attention that is always causal", "总是带因果掩码的注意力"),
            ("What should happen with causal=False, the default?", "causal=False（默认值）时应该怎样？"),
            ("Look at where causal is read.", "看哪里读取了 causal。"),
            ("Put the mask under `if causal:`.", "把掩码放到 if causal: 里面。"),
        )),
        Mistake("causal_off_by_one", hiding(before_itself, up_to_the_next)),
        Mistake("causal_inverted", hiding(from_itself_on, behind_itself)),
        Mistake("gqa_tile", (*shared(tiled), partial(grouped, share_keys=tiled), partial(grouped, share_values=tiled)), say(
            ("Keys and values are repeated as a whole, so query head h gets number h % Hkv.",
             "键和值整体重复，于是第 h 个查询头用了第 h % Hkv 个键值头。"),
            ("attention with key heads in the order 0, 1, 0, 1", "键头按 0, 1, 0, 1 排列的注意力"),
            ("With 4 query heads and 2 key heads: which one belongs to query head 1?",
             "4 个查询头、2 个键头时，第 1 个查询头对应哪个键头？"),
            ("Look at tile, concatenate, % or the order of the axes when Q is reshaped.",
             "看 tile、concatenate、%，或者 reshape Q 时各维的顺序。"),
            ("Neighbours share, 0, 0, 1, 1: np.repeat(K, H // Hkv, axis=1).",
             "相邻的共用，即 0, 0, 1, 1：np.repeat(K, H // Hkv, axis=1)。"),
        )),
        Mistake("gqa_along_sequence", shared(along_sequence, along_width, tiled_along_width), say(
            ("Rows or columns are repeated, not heads; the reshape then mixes tokens.",
             "重复的是行或列，而不是头；随后的 reshape 把词元混在了一起。"),
            ("attention with keys repeated along the wrong axis", "沿错误的维重复键的注意力"),
            ("Which axis of K counts its heads?", "K 的哪一维是头？"),
            ("Look at axis= in repeat, and at the reshape behind it.", "看 repeat 的 axis=，以及其后的 reshape。"),
            ("np.repeat(K, H // Hkv, axis=1), without a reshape.", "np.repeat(K, H // Hkv, axis=1)，不需要 reshape。"),
        )),
        Mistake("gqa_group_size", shared(by_number_of_groups, repeated_by_number_of_groups), say(
            ("The number of key heads is taken for the size of a group.", "把键头的个数当成了每组的大小。"),
            ("attention with groups of Hkv query heads", "每组有 Hkv 个查询头的注意力"),
            ("How many query heads share one key head when H is 6 and Hkv is 3?", "H 为 6、Hkv 为 3 时，几个查询头共用一个键头？"),
            ("Look at the number of repeats, or at what h is divided by.", "看重复的次数，或者 h 除以的数。"),
            ("The size of a group is H // Hkv.", "每组的大小是 H // Hkv。"),
        )),
        Mistake("gqa_one_group", shared(first_alone, mean_alone), say(
            ("All query heads use one and the same head of keys and values.", "所有查询头都用同一个键值头。"),
            ("attention with a single head of keys and values", "只有一个键值头的注意力"),
            ("Does your output change when the last head of K changes?", "改变 K 的最后一个头，你的输出会变吗？"),
            ("Look at the index of the key head.", "看键头的下标。"),
            ("Query head h uses number h // (H // Hkv).", "第 h 个查询头用第 h // (H // Hkv) 个。"),
        )),
        Mistake("gqa_head_order", (partial(grouped, arrange=group_by_group), *shared(backwards)), say(
            ("The heads of the output come in another order than those of Q.", "输出的头与 Q 的头顺序不同。"),
            ("the right heads in another order", "头的顺序被打乱的正确结果"),
            ("Is head 1 of your output that of query head 1?", "你的输出的第 1 个头，属于第 1 个查询头吗？"),
            ("Look at swapaxes or transpose before the last reshape.", "看最后一个 reshape 之前的 swapaxes 或 transpose。"),
            ("From (B, Hkv, group, T, d) reshape to (B, H, T, d) at once.",
             "从 (B, Hkv, group, T, d) 直接 reshape 成 (B, H, T, d)。"),
        )),
        Mistake("heads_averaged", tuple(partial(grouped, arrange=way) for way in (averaged, summed)), say(
            ("The query heads of a group are averaged or summed into one.", "一组的查询头被平均或求和成了一个。"),
            ("the heads of each group made one", "每组的头合成一个的结果"),
            ("How many heads should the output have?", "输出应该有几个头？"),
            ("Look at the last step: is there a mean or a sum over the group?", "看最后一步：是否沿组求了平均或和？"),
            ("Keep all H heads: they share keys, not results.", "保留全部 H 个头：它们共用键，而不是共用结果。"),
        )),
    ),
    conventions=conventions(INSIDE),
    properties=(future_leaks("example", "huge_end", slice(0, 2)),),
    solution=(
        Line("def grouped_query_attention(Q, K, V, causal=False):\n    group, T = Q.shape[1] // K.shape[1], Q.shape[2]",
             "So many query heads share one head of keys.", "这么多个查询头共用一个键头。"),
        Line("    K, V = np.repeat(K, group, axis=1), np.repeat(V, group, axis=1)",
             "Heads 0, 0, 1, 1: repeat, so that neighbours share.", "头按 0, 0, 1, 1 排列：用 repeat，相邻的共用。"),
        Line("    scores = Q @ K.swapaxes(-1, -2) / np.sqrt(Q.shape[-1])",
             "From here on it is plain multi-head attention.", "从这里起就是普通的多头注意力。"),
        Line("    if causal:\n        scores = np.where(np.tril(np.ones((T, T), dtype=bool)), scores, -np.inf)",
             "Hide the future only when asked to.", "只在要求时遮住未来。"),
        Line("    exp = np.exp(scores - scores.max(axis=-1, keepdims=True))\n"
             "    return exp / exp.sum(axis=-1, keepdims=True) @ V",
             "Softmax, then the average of the values.", "softmax，然后对值做平均。"),
    ),
    styles={
        "groups_as_an_axis": '''
import numpy as np


def grouped_query_attention(Q, K, V, causal=False):
    B, H, T, d = Q.shape
    n_kv = K.shape[1]
    q = Q.reshape(B, n_kv, H // n_kv, T, d)
    s = np.einsum("bkgid,bkjd->bkgij", q, K) * d**-0.5
    if causal:
        s = s + np.triu(np.full((T, T), -np.inf), k=1)
    p = np.exp(s - s.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    return np.einsum("bkgij,bkjd->bkgid", p, V).reshape(B, H, T, d)
''',
        "loops": '''
import math

import numpy as np


def softmax(row):
    e = [math.exp(x - max(row)) for x in row]
    return [x / sum(e) for x in e]


def grouped_query_attention(Q, K, V, causal=False):
    B, H, T, d = Q.shape
    group = H // K.shape[1]
    out = np.zeros((B, H, T, d))
    for b in range(B):
        for h in range(H):
            k, v = K[b, h // group], V[b, h // group]
            for i in range(T):
                last = i + 1 if causal else T
                weights = softmax([float(Q[b, h, i] @ k[j]) / math.sqrt(d) for j in range(last)])
                for j, w in enumerate(weights):
                    out[b, h, i] += w * v[j]
    return out
''',
        "repeat_kv": '''
import numpy as np


def repeat_kv(x, n_rep):
    b, h, t, d = x.shape
    return np.broadcast_to(x[:, :, None], (b, h, n_rep, t, d)).reshape(b, h * n_rep, t, d)


class GroupedQueryAttention:
    def __call__(self, q, k, v, causal):
        n_rep = q.shape[1] // k.shape[1]
        k, v = repeat_kv(k, n_rep), repeat_kv(v, n_rep)
        attn = np.matmul(q, k.transpose(0, 1, 3, 2)) / np.sqrt(q.shape[3])
        if causal:
            attn[:, :, np.triu(np.ones(attn.shape[2:], bool), 1)] = np.finfo(attn.dtype).min
        attn = np.exp(attn - attn.max(axis=3, keepdims=True))
        return np.matmul(attn / attn.sum(axis=3, keepdims=True), v)


def grouped_query_attention(Q, K, V, causal=False):
    return GroupedQueryAttention()(Q, K, V, causal)
''',
        "chinese_names": '''
import numpy as np


def grouped_query_attention(查询, 键, 值, 因果=False):
    头数, 键头数, 长度 = 查询.shape[1], 键.shape[1], 查询.shape[2]
    每组 = 头数 // 键头数
    结果 = []
    for 头 in range(头数):
        分数 = 查询[:, 头] @ 键[:, 头 // 每组].swapaxes(1, 2) / np.sqrt(查询.shape[-1])
        if 因果:
            分数 = np.where(np.tri(长度, dtype=bool), 分数, -1e30)
        权重 = np.exp(分数 - 分数.max(axis=-1, keepdims=True))
        结果.append(权重 / 权重.sum(axis=-1, keepdims=True) @ 值[:, 头 // 每组])
    return np.stack(结果, axis=1)
''',
    },
)  # fmt: skip
