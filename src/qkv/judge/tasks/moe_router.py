"""The router of a mixture of experts: which k experts a token goes to, and with what weights."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ... import ops
from ..mistakes import say
from ..probes import drawn
from ..properties import rows_sum_to_one
from ..task import Function, Line, Mistake, Probe, Task, Text, formula
from ..wire import Array

# the steps as they are right


def best_first(logits: Array, k: int) -> Array:
    return np.argsort(-logits, axis=-1)[..., :k]


def rows(x: Array) -> Array:
    exp = np.exp(x - x.max(axis=-1, keepdims=True))
    return exp / exp.sum(axis=-1, keepdims=True)


def softmax_of_chosen(logits: Array, indices: Array, softmax: Function) -> Array:
    chosen = np.take_along_axis(logits, indices, axis=-1)
    return softmax(chosen)


def both(indices: Array, weights: Array) -> tuple[Array, Array]:
    return indices, weights


@formula
def router(
    logits: Array,
    k: int,
    *,
    choose: Function = best_first,
    weigh: Function = softmax_of_chosen,
    softmax: Function = rows,
    give: Function = both,
) -> Any:
    with np.errstate(all="ignore"):
        indices = choose(logits, k)
        weights = weigh(logits, indices, softmax)
    return give(indices, weights)


def reference(logits: Array, k: int) -> Any:
    indices = np.argsort(-logits, axis=-1)[:, :k]
    chosen = np.full(logits.shape, -np.inf)
    np.put_along_axis(chosen, indices, np.take_along_axis(logits, indices, axis=-1), axis=-1)
    return indices, np.take_along_axis(ops.softmax(chosen), indices, axis=-1)


# the steps as they go wrong


def best_last(logits: Array, k: int) -> Array:
    return np.argsort(logits, axis=-1)[..., -k:]


def in_any_order(logits: Array, k: int) -> Array:
    return np.argpartition(logits, -k, axis=-1)[..., -k:]


def in_any_order_from_the_front(logits: Array, k: int) -> Array:
    return np.argpartition(-logits, k - 1, axis=-1)[..., :k]


def in_any_order_by_the_next(logits: Array, k: int) -> Array:
    return np.argpartition(-logits, k, axis=-1)[..., :k]


def in_order_of_experts(logits: Array, k: int) -> Array:
    return np.sort(best_first(logits, k), axis=-1)


def worst_first(logits: Array, k: int) -> Array:
    return np.argsort(logits, axis=-1)[..., :k]


def worst_last(logits: Array, k: int) -> Array:
    return np.argsort(-logits, axis=-1)[..., -k:]


def one_more(logits: Array, k: int) -> Array:
    return best_first(logits, k + 1)


def one_less(logits: Array, k: int) -> Array:
    return best_first(logits, k - 1)


def without_the_best(logits: Array, k: int) -> Array:
    return np.argsort(-logits, axis=-1)[..., 1 : k + 1]


def tokens_turned(logits: Array, k: int) -> Array:
    return np.argsort(logits, axis=-1)[::-1, :k]


def last_with_tokens_turned(logits: Array, k: int) -> Array:
    return np.argsort(logits, axis=-1)[:, -k:][::-1]


def down_the_tokens(logits: Array, k: int) -> Array:
    return np.argsort(-logits, axis=0)[:, :k]


def only_the_best(logits: Array, k: int) -> Array:
    return best_first(logits, 1)


def from_all(logits: Array, indices: Array, softmax: Function) -> Array:
    return np.take_along_axis(softmax(logits), indices, axis=-1)


def twice(logits: Array, indices: Array, softmax: Function) -> Array:
    return softmax(from_all(logits, indices, softmax))


def others_at_zero(logits: Array, indices: Array, softmax: Function) -> Array:
    kept = np.zeros(logits.shape)
    np.put_along_axis(kept, indices, np.take_along_axis(logits, indices, axis=-1), axis=-1)
    return from_all(kept, indices, softmax)


def for_all_experts(logits: Array, indices: Array, softmax: Function) -> Array:
    wide = np.zeros(logits.shape)
    np.put_along_axis(wide, indices, softmax_of_chosen(logits, indices, softmax), axis=-1)
    return wide


def logits_themselves(logits: Array, indices: Array, softmax: Function) -> Array:
    return np.take_along_axis(logits, indices, axis=-1)


def share_of_logits(logits: Array, indices: Array, softmax: Function) -> Array:
    chosen = logits_themselves(logits, indices, softmax)
    return chosen / chosen.sum(axis=-1, keepdims=True)


def sorted_by_itself(logits: Array, indices: Array, softmax: Function) -> Array:
    return -np.sort(-softmax_of_chosen(logits, indices, softmax), axis=-1)


def worst_weight_first(logits: Array, indices: Array, softmax: Function) -> Array:
    return np.sort(softmax_of_chosen(logits, indices, softmax), axis=-1)


def down_an_axis(x: Array) -> Array:
    exp = np.exp(x - x.max(axis=0, keepdims=True))
    return exp / exp.sum(axis=0, keepdims=True)


def all_at_once(x: Array) -> Array:
    exp = np.exp(x - x.max())
    return exp / exp.sum()


def without_maximum(x: Array) -> Array:
    exp = np.exp(x)
    return exp / exp.sum(axis=-1, keepdims=True)


def minus_global_maximum(x: Array) -> Array:
    exp = np.exp(x - x.max())
    return exp / exp.sum(axis=-1, keepdims=True)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def share_of_sigmoid(x: Array) -> Array:
    return sigmoid(x) / sigmoid(x).sum(axis=-1, keepdims=True)


def weights_first(indices: Array, weights: Array) -> tuple[Array, Array]:
    return weights, indices


def chosen_crossed_out(logits: Array, k: int) -> Any:
    given = logits.copy()
    indices = np.empty((len(logits), k), np.int64)
    for rank in range(k):
        indices[:, rank] = logits.argmax(axis=-1)
        np.put_along_axis(logits, indices[:, rank : rank + 1], -np.inf, axis=-1)
    return indices, softmax_of_chosen(given, indices, rows)


def sorted_in_place(logits: Array, k: int) -> Any:
    right = router(logits, k)
    logits.sort(axis=-1)
    return right


ORDERS = (best_last, in_any_order, in_order_of_experts)


def partitioned(probe: Probe, value: Any) -> Function | None:
    """What argpartition gives from the front. No variation: with some processors it sorts short rows, so it is right."""
    if isinstance(probe.arguments, tuple) or not isinstance(value, tuple):
        return None
    for choose in (in_any_order_from_the_front, in_any_order_by_the_next):
        found = choose(probe.arguments["logits"], probe.arguments["k"])
        if np.array_equal(found, value[0]) and not np.array_equal(found, best_first(**probe.arguments)):
            return partial(router, choose=choose)
    return None


TASK = Task(
    name="moe_router",
    signature="moe_router(logits, k)",
    returns=Text("(indices (n, k), weights (n, k))", "(indices (n, k), weights (n, k))"),
    title=Text("The router of a mixture of experts", "混合专家的路由"),
    statement=Text(
        "logits (n, n_experts) say how well each expert suits each token. For every token choose the k experts with the largest\n"
        "logits, the largest first: indices (n, k). Their weights (n, k) are the softmax over these k logits alone.\n"
        "Weights descend along a row and sum to 1. Logits may be large; the inputs stay as they are.",
        "logits (n, n_experts) 表示每个专家与每个词元的匹配程度。为每个词元选出 logits 最大的 k 个专家，\n"
        "从大到小排列：indices (n, k)。它们的权重 weights (n, k) 只在这 k 个 logits 上做 softmax。\n"
        "每行权重从大到小，和为 1。logits 可能很大；不要改动输入。",
    ),
    reference=reference,
    formula=router,
    probes=(
        Probe("example", {"logits": np.array([[1.0, 3.0, 2.0, 0.5], [0.0, -1.0, 1.0, 2.5]]), "k": 2},
              Text("two tokens, four experts, two chosen", "两个词元、四个专家，选两个")),
        Probe("six_of_eleven", {"logits": drawn(5, 5, 11) * 2, "k": 6}, Text("5 tokens, 11 experts, 6 chosen", "5 个词元、11 个专家，选 6 个")),
        Probe("huge_logits", {"logits": np.array([[1000.0, 998.0, 1001.0, -1000.0], [-1001.0, -1000.0, -2000.0, -1002.0]]), "k": 3},
              Text("logits of 1000: exp overflows", "logits 达到 1000：exp 会溢出")),
    ),
    mistakes=(
        Mistake("router_softmax_before_top_k", (partial(router, weigh=from_all),), say(
            ("The softmax runs over all experts, and what is left of it does not sum to 1.", "softmax 算在所有专家上，留下来的权重之和不是 1。"),
            ("the softmax over all experts, cut down to the k chosen", "对所有专家做 softmax 后只取选中的 k 个"),
            ("What do the k weights of a token sum to?", "一个词元的 k 个权重之和是多少？"),
            ("Look at what goes into the softmax: n_experts logits or k?", "看传入 softmax 的是 n_experts 个还是 k 个 logits。"),
            ("Choose first, then softmax over the k chosen logits.", "先选，再对选中的 k 个 logits 做 softmax。"),
        )),
        Mistake("router_softmax_twice", (partial(router, weigh=twice),), say(
            ("The softmax is taken twice: over all experts, then over the chosen probabilities.", "做了两次 softmax：先对所有专家，再对选中的概率。"),
            ("a softmax of the probabilities, not of the logits", "对概率（而不是对 logits）再做 softmax 的结果"),
            ("Are these logits or already probabilities that you put into the last softmax?", "传入最后一次 softmax 的是 logits，还是已经是概率？"),
            ("Count the softmaxes.", "数一数做了几次 softmax。"),
            ("One softmax, over the k chosen logits.", "只做一次 softmax，输入是选中的 k 个 logits。"),
        )),
        Mistake("router_no_softmax", (partial(router, weigh=logits_themselves), partial(router, weigh=share_of_logits)), say(
            ("There is no softmax: the logits themselves are taken for weights.", "没有 softmax：直接把 logits 当成了权重。"),
            ("the chosen logits, not their softmax", "选中的 logits，而不是它们的 softmax"),
            ("Can a logit be negative? May a weight?", "logit 可以是负数吗？权重呢？"),
            ("Look at how the weights are made from the logits.", "看权重是怎样由 logits 得到的。"),
            ("Take the exponential, then divide by the sum.", "先取 exp，再除以总和。"),
        )),
        Mistake("router_sigmoid", (partial(router, softmax=sigmoid), partial(router, softmax=share_of_sigmoid)), say(
            ("The weights come from a sigmoid, not from a softmax.", "权重来自 sigmoid，而不是 softmax。"),
            ("sigmoids of the chosen logits", "选中 logits 的 sigmoid"),
            ("Which function does the task ask for?", "题目要求的是哪个函数？"),
            ("Look at how the weights are made from the logits.", "看权重是怎样由 logits 得到的。"),
            ("softmax: exp over the sum of all k exp.", "用 softmax：exp 除以 k 个 exp 之和。"),
        )),
        Mistake("mask_fill_zero", (partial(router, weigh=others_at_zero),), say(
            ("The logits that were not chosen are set to 0, and exp(0) is 1: they still take weight.",
             "没选中的 logits 设成了 0，而 exp(0) 是 1：它们仍占权重。"),
            ("a softmax with the other logits set to 0", "把其余 logits 设为 0 后的 softmax"),
            ("How much weight does a logit of 0 get?", "logit 为 0 时得到多少权重？"),
            ("Look at the number put where an expert was not chosen.", "看没选中的专家处填的数。"),
            ("Fill with -np.inf, or take the softmax of the k chosen alone.", "填 -np.inf，或者只对选中的 k 个做 softmax。"),
        )),
        Mistake("router_not_descending", tuple(partial(router, choose=c) for c in ORDERS), say(
            ("The right experts are chosen, but not the largest first.", "选对了专家，但没有从大到小排列。"),
            ("the chosen experts in another order", "选中的专家，但顺序不同"),
            ("Which of your k weights is the largest: the first or the last?", "你的 k 个权重中，哪个最大：第一个还是最后一个？"),
            ("Look at argsort or argpartition: in which order do they give the indices?", "看 argsort 或 argpartition：它们给出的下标是什么顺序？"),
            ("np.argsort(-logits, axis=-1)[:, :k].", "np.argsort(-logits, axis=-1)[:, :k]。"),
        ), fit=partitioned),
        Mistake("router_order_mismatch", (
            *(partial(router, choose=c, weigh=sorted_by_itself) for c in ORDERS),
            partial(router, weigh=worst_weight_first),
        ), say(
            ("Indices and weights are sorted separately: a weight no longer stands at its expert.", "下标与权重各自排序，权重不再对应自己的专家。"),
            ("weights sorted without their experts", "没有连同专家一起排序的权重"),
            ("Which expert does your first weight belong to?", "你的第一个权重属于哪个专家？"),
            ("Look for a sort that is applied to one of the two only.", "看是否只对其中一个做了排序。"),
            ("Sort once, by indices, and take the weights by them.", "只按下标排一次，再用下标取权重。"),
        )),
        Mistake("router_worst_experts", (partial(router, choose=worst_first), partial(router, choose=worst_last)), say(
            ("The k smallest logits are chosen.", "选的是最小的 k 个 logits。"),
            ("the k experts with the smallest logits", "logits 最小的 k 个专家"),
            ("Does argsort put the smallest or the largest first?", "argsort 把最小的还是最大的排在最前？"),
            ("Look at the sign in argsort and at the slice.", "看 argsort 里的符号和切片。"),
            ("np.argsort(-logits, axis=-1)[:, :k].", "np.argsort(-logits, axis=-1)[:, :k]。"),
        )),
        Mistake("top_k_off_by_one", tuple(partial(router, choose=c) for c in (one_more, one_less, without_the_best)), say(
            ("One expert too many or too few is chosen, or the best one is left out.", "多选或少选了一个专家，或者漏掉了最好的那个。"),
            ("a choice shifted by one place", "错开一位的选择"),
            ("How many experts are in a row of your indices, and is the best among them?", "你的每行下标里有几个专家？最好的那个在里面吗？"),
            ("Look at the ends of the slice.", "看切片的两端。"),
            ("The first k of the sorted: [:, :k].", "取排好序的前 k 个：[:, :k]。"),
        )),
        Mistake("router_only_best", (partial(router, choose=only_the_best),), say(
            ("Only the best expert is chosen, whatever k is.", "无论 k 是多少，只选了最好的一个专家。"),
            ("the best expert alone", "只有最好的一个专家"),
            ("Does your result change with k?", "k 变了，你的结果会变吗？"),
            ("Look for argmax, or for where k is used.", "看 argmax，或者 k 用在哪里。"),
            ("Sort and take k: np.argsort(-logits, axis=-1)[:, :k].", "排序后取 k 个：np.argsort(-logits, axis=-1)[:, :k]。"),
        )),
        Mistake("router_wrong_axis",
                tuple(partial(router, choose=c) for c in (tokens_turned, last_with_tokens_turned, down_the_tokens)), say(
            ("Tokens are sorted or turned round, not the experts of each token.", "排序或翻转的是词元，而不是每个词元的专家。"),
            ("experts chosen after turning the wrong axis", "对错误的维排序或翻转后选出的专家"),
            ("Which axis does [::-1] turn round?", "[::-1] 翻转的是哪一维？"),
            ("Look at axis= and at [::-1].", "看 axis= 与 [::-1]。"),
            ("Turn the last axis: [:, ::-1], or sort -logits along axis=-1.", "翻转最后一维：[:, ::-1]，或沿 axis=-1 对 -logits 排序。"),
        )),
        Mistake("router_weights_for_all", (partial(router, weigh=for_all_experts),), say(
            ("The weights have a column for every expert, zero where it was not chosen.", "权重为每个专家都留了一列，没选中的为 0。"),
            ("weights (n, n_experts), most of them 0", "形状为 (n, n_experts)、大多为 0 的权重"),
            ("How many weights does a token need?", "一个词元需要几个权重？"),
            ("Look at the shape of weights.", "看 weights 的形状。"),
            ("Return the k of the chosen, in the order of indices.", "只返回选中的 k 个，顺序与 indices 一致。"),
        )),
        Mistake("results_swapped", (partial(router, give=weights_first),), say(
            ("The two results come in the wrong order.", "两个结果的顺序反了。"),
            ("(weights, indices) in place of (indices, weights)", "(weights, indices)，而不是 (indices, weights)"),
            ("What should come first?", "先返回哪一个？"),
            ("Look at the return line.", "看 return 那一行。"),
            ("return indices, weights.", "return indices, weights。"),
        )),
        Mistake("softmax_wrong_axis", (partial(router, softmax=down_an_axis), partial(router, softmax=all_at_once)), say(
            ("The softmax runs over the tokens, or over everything at once.", "softmax 沿词元计算，或一次算在所有数上。"),
            ("a softmax that is not taken for each token by itself", "没有对每个词元单独做的 softmax"),
            ("Which sums are 1: those of the rows or of the columns?", "哪些和等于 1：行的，还是列的？"),
            ("Look at axis= in the maximum and in the sum.", "看求最大值与求和时的 axis=。"),
            ("Each token shares out 1 over its experts: axis=-1, keepdims=True.", "每个词元把 1 分给自己的专家：axis=-1, keepdims=True。"),
        )),
        Mistake("softmax_no_max", (partial(router, softmax=without_maximum), partial(router, weigh=from_all, softmax=without_maximum))),
        Mistake("softmax_global_max", (partial(router, softmax=minus_global_maximum),)),
        Mistake("mutates_input", (chosen_crossed_out, sorted_in_place)),
    ),
    properties=(rows_sum_to_one(1),),
    solution=(
        Line("def moe_router(logits, k):\n    indices = np.argsort(-logits, axis=-1)[:, :k]",
             "Sorting -logits puts the largest first; the first k are the chosen experts.", "对 -logits 排序，最大的在最前；前 k 个就是选中的专家。"),
        Line("    chosen = np.take_along_axis(logits, indices, axis=-1)", "Their logits, in the same order.", "它们的 logits，顺序相同。"),
        Line("    exp = np.exp(chosen - chosen.max(axis=-1, keepdims=True))\n    return indices, exp / exp.sum(axis=-1, keepdims=True)",
             "Softmax over the k alone, so that the weights of a token sum to 1.", "只在这 k 个上做 softmax，使每个词元的权重之和为 1。"),
    ),
    styles={
        "renormalised_after": '''
import numpy as np


def moe_router(logits, k):
    probs = np.exp(logits - logits.max(-1, keepdims=True))
    probs = probs / probs.sum(-1, keepdims=True)
    top = np.argsort(logits, axis=-1)[:, ::-1][:, :k]
    gates = np.take_along_axis(probs, top, axis=-1)
    return top, gates / gates.sum(-1, keepdims=True)
''',
        "loops": '''
import math

import numpy as np


def moe_router(logits, k):
    indices, weights = [], []
    for row in logits:
        best = sorted(range(len(row)), key=lambda e: row[e], reverse=True)[:k]
        exps = [math.exp(row[e] - row[best[0]]) for e in best]
        indices.append(best)
        weights.append([e / sum(exps) for e in exps])
    return np.array(indices), np.array(weights)
''',
        "masked": '''
import numpy as np


def moe_router(logits, k):
    threshold = np.sort(logits, axis=-1)[:, -k][:, None]
    masked = np.where(logits >= threshold, logits, -np.inf)
    e = np.exp(masked - masked.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    order = np.argsort(masked, axis=1)[:, ::-1][:, :k]
    return order, p[np.arange(len(p))[:, None], order]
''',
        "argpartition_then_sort": '''
import numpy as np


def moe_router(logits, k):
    rows = np.arange(logits.shape[0])[:, None]
    some = np.argpartition(logits, -k, axis=-1)[:, -k:]
    order = np.argsort(logits[rows, some], axis=-1)[:, ::-1]
    idx = some[rows, order]
    z = logits[rows, idx]
    w = np.exp(z - z[:, :1])
    return idx, w / w.sum(axis=-1, keepdims=True)
''',
        "chinese_names": '''
import numpy as np


def moe_router(打分, 个数):
    剩余 = 打分.copy()
    编号, 选中 = [], []
    for _ in range(个数):
        最好 = 剩余.argmax(axis=1)
        编号.append(最好)
        选中.append(剩余[np.arange(len(打分)), 最好])
        剩余[np.arange(len(打分)), 最好] = -np.inf
    选中 = np.stack(选中, axis=1)
    指数 = np.exp(选中 - 选中[:, [0]])
    return np.stack(编号, axis=1), 指数 / 指数.sum(axis=1, keepdims=True)
''',
    },
)  # fmt: skip
