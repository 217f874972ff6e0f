"""The KV cache: attention over a sequence that comes in pieces."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ... import ops
from ...layers import KVCache
from ..formulas import attention, conventions, mistakes
from ..mistakes import say
from ..probes import drawn
from ..task import Function, Line, Mistake, Probe, Task, Text, formula
from ..wire import Array

Rows = list[Array]


def behind(kept: Array | None, new: Array) -> Array:
    return new if kept is None else np.concatenate([kept, new])


def up_to_itself(n_kept: int, n_new: int) -> Array:
    return np.arange(n_kept + n_new) <= n_kept + np.arange(n_new)[:, None]


@formula
def cached(
    calls: list[Rows],
    *,
    remember: Function = behind,
    visible: Function = up_to_itself,
    attend: Function = attention,
) -> tuple[Array, ...]:
    keys = values = None
    outputs = []
    for q, k, v in calls:
        keys, values = remember(keys, k), remember(values, v)
        mask = visible(len(keys) - len(q), len(q))
        output = attend(q, keys, values, mask)[0]
        outputs.append(output)
    return tuple(outputs)


def only_new(kept: Array | None, new: Array) -> Array:
    return new


def in_front(kept: Array | None, new: Array) -> Array:
    return new if kept is None else np.concatenate([new, kept])


def all_keys(n_kept: int, n_new: int) -> Array:
    return np.ones((n_new, n_kept + n_new), bool)


def from_the_top_left(n_kept: int, n_new: int) -> Array:
    return np.arange(n_kept + n_new) <= np.arange(n_new)[:, None]


def before_itself(n_kept: int, n_new: int) -> Array:
    return np.arange(n_kept + n_new) < n_kept + np.arange(n_new)[:, None]


def before_this_call(n_kept: int, n_new: int) -> Array:
    return np.broadcast_to(np.arange(n_kept + n_new) < n_kept, (n_new, n_kept + n_new))


def causal_in_first_only(n_kept: int, n_new: int) -> Array:
    return all_keys(n_kept, n_new) if n_kept else up_to_itself(n_kept, n_new)


def reference(calls: list[Rows]) -> tuple[Array, ...]:
    cache = KVCache()
    outputs = []
    for q, k, v in calls:
        keys, values, offset = cache.append(k, v)
        outputs.append(ops.attention(q, keys, values, causal=True, offset=offset))
    return tuple(outputs)


def chunks(seed: int, sizes: tuple[int, ...], d_k: int, d_v: int) -> tuple[dict[str, Any], ...]:
    """The calls that bring a sequence in pieces of these sizes."""
    return tuple(
        {"q": drawn(seed + n, t, d_k), "k": drawn(seed + n + 50, t, d_k), "v": drawn(seed + n + 70, t, d_v)}
        for n, t in enumerate(sizes)
    )


TASK = Task(
    name="kv_cache",
    signature="KVCache.step(q, k, v)",
    returns=Text("output (t, d_v)", "output (t, d_v)"),
    title=Text("The KV cache", "KV 缓存"),
    statement=Text(
        "A class KVCache, made without arguments. Each step(q, k, v) brings t new rows: q and k (t, d_k), v (t, d_v).\n"
        "It remembers keys and values, and returns the attention of the new queries over all keys so far:\n"
        "causal, so a row sees everything remembered, and of the new rows itself and those before it.\n"
        "Whatever the pieces, the outputs together are those of one causal attention over the whole sequence.",
        "写一个类 KVCache，创建时没有参数。每次 step(q, k, v) 带来 t 行：q 和 k 为 (t, d_k)，v 为 (t, d_v)。\n"
        "它记住键和值，返回新查询对至今所有键的注意力：\n"
        "遵守因果，即每行看得到记住的全部，以及新的行中自己和之前的。\n"
        "无论怎样分段，各次输出合起来都等于对整个序列做一次因果注意力。",
    ),
    reference=reference,
    formula=cached,
    probes=(
        Probe("example", chunks(1, (2, 1), 2, 2), Text("two tokens, then one", "先两个词元，再一个")),
        Probe("three_pieces", chunks(21, (2, 3, 2), 4, 5), Text("pieces of 2, 3 and 2", "分成 2、3、2 三段")),
        Probe("large", tuple({**c, "q": c["q"] * 1000} for c in chunks(31, (2, 2), 4, 3)), Text("large scores", "分数很大")),
    ),
    mistakes=(
        *mistakes("no_scale", "scale_by_d", "softmax_wrong_axis", "softmax_no_max", inside=(cached, "attend")),
        Mistake("cache_forgets", (partial(cached, remember=only_new),), say(
            ("Earlier keys and values are forgotten.", "之前的键和值被忘掉了。"),
            ("attention over the new rows alone", "只看新的行的注意力"),
            ("What is in the cache after the second step?", "第二次 step 之后，缓存里有什么？"),
            ("Look at the assignment to the remembered keys.", "看给记住的键赋值的地方。"),
            ("Append: np.concatenate([self.k, k]).", "接在后面：np.concatenate([self.k, k])。"),
        )),
        Mistake("cache_prepends", (partial(cached, remember=in_front),), say(
            ("New keys are put in front of the old ones.", "新的键放到了旧的前面。"),
            ("a cache with its newest rows in front", "新的行排在前面的缓存"),
            ("At which index do the new keys stand?", "新的键排在第几个？"),
            ("Look at the order in concatenate.", "看 concatenate 的顺序。"),
            ("Old first: np.concatenate([self.k, k]).", "旧的在前：np.concatenate([self.k, k])。"),
        )),
        Mistake("cache_not_causal",
                tuple(partial(cached, visible=v) for v in (all_keys, causal_in_first_only, from_the_top_left)), say(
            ("The new rows do not look at exactly what came before them.", "新的行所看的，不正好是它之前的内容。"),
            ("a cache whose mask forgets where the new rows stand", "掩码没有算上新行位置的缓存"),
            ("Which keys may the first of four new rows look at?", "一次来四行时，其中第一行可以看哪些键？"),
            ("Look at the mask: does it count the remembered rows?", "看掩码：它算上记住的行了吗？"),
            ("Key j for new row i: j <= n_remembered + i.", "新的第 i 行可以看键 j：j <= 已记住的行数 + i。"),
        )),
        Mistake("cache_missing_current", tuple(partial(cached, visible=v) for v in (before_itself, before_this_call)), say(
            ("A new row does not find its own key.", "新的行找不到自己的键。"),
            ("a cache in which the current token is missing", "缺少当前词元的缓存"),
            ("Does the very first token have anything to look at?", "第一个词元有东西可看吗？"),
            ("Look at the order: remember, then attend.", "看先后：先记住，再做注意力。"),
            ("Append k and v before the scores are computed.", "计算分数之前先把 k 和 v 接上。"),
        )),
    ),
    conventions=conventions((cached, "attend")),
    solution=(
        Line("class KVCache:\n    def __init__(self):\n        self.k = self.v = None\n",
             "Nothing is remembered yet.", "还什么都没记住。"),
        Line("    def step(self, q, k, v):\n        old = 0 if self.k is None else len(self.k)",
             "So many rows were there before.", "之前已有这么多行。"),
        Line("        self.k = np.concatenate([self.k, k]) if old else k\n"
             "        self.v = np.concatenate([self.v, v]) if old else v",
             "New rows go behind the old ones.", "新的行接在旧的后面。"),
        Line("        scores = q @ self.k.T / np.sqrt(q.shape[-1])",
             "The new queries with all keys.", "新的查询与所有键。"),
        Line("        seen = np.arange(len(self.k)) <= old + np.arange(len(q))[:, None]\n"
             "        scores = np.where(seen, scores, -np.inf)",
             "New row i stands at position old + i, and looks no further.", "新的第 i 行位于 old + i，不能看得更远。"),
        Line("        exp = np.exp(scores - scores.max(axis=-1, keepdims=True))\n"
             "        return exp / exp.sum(axis=-1, keepdims=True) @ self.v",
             "Softmax, then the average of the values.", "softmax，然后对值做平均。"),
    ),
    styles={
        "lists": '''
import numpy as np


class KVCache:
    def __init__(self):
        self.keys, self.values = [], []

    def step(self, q, k, v):
        rows = []
        for query, key, value in zip(q, k, v):
            self.keys.append(key)
            self.values.append(value)
            s = np.array([query @ other for other in self.keys]) / len(query) ** 0.5
            e = np.exp(s - s.max())
            rows.append(e / e.sum() @ np.array(self.values))
        return np.array(rows)
''',
        "remembers_queries": '''
import numpy as np


class KVCache:
    def __init__(self):
        self.rows = []

    def step(self, q, k, v):
        self.rows.append((q, k, v))
        Q, K, V = (np.concatenate(parts) for parts in zip(*self.rows))
        S = Q @ K.T / np.sqrt(K.shape[1])
        S[np.triu_indices(len(Q), k=1)] = -np.inf
        P = np.exp(S - S.max(1, keepdims=True))
        return ((P / P.sum(1, keepdims=True)) @ V)[-len(q):]
''',
        "buffer": '''
import numpy as np


class KVCache:
    def __init__(self, room=64):
        self.room, self.n = room, 0

    def step(self, q, k, v):
        if self.n == 0:
            self.k, self.v = np.zeros((self.room, k.shape[1])), np.zeros((self.room, v.shape[1]))
        t = len(k)
        self.k[self.n : self.n + t], self.v[self.n : self.n + t] = k, v
        bias = np.triu(np.full((t, self.n + t), -1e30), k=self.n + 1)
        self.n += t
        logits = q @ self.k[: self.n].T * q.shape[1] ** -0.5 + bias
        w = np.exp(logits - logits.max(-1, keepdims=True))
        return (w / w.sum(-1, keepdims=True)) @ self.v[: self.n]
''',
    },
)  # fmt: skip
