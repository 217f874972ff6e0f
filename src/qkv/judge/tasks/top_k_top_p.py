"""Top-k and top-p: which tokens may be drawn at all, and how likely they are then."""

from __future__ import annotations

from functools import partial

import numpy as np

from ... import ops
from ...models.generation import sampling
from ..mistakes import say
from ..properties import rows_sum_to_one
from ..task import Function, Line, Mistake, Probe, Task, Text, formula
from ..wire import Array


def soft(logits: Array) -> Array:
    exp = np.exp(logits - logits.max())
    return exp / exp.sum()


def places(values: Array) -> Array:
    """Of each value its place in the order, the largest first."""
    return np.argsort(np.argsort(-values, kind="stable"))


def sum_before(likely: Array) -> Array:
    """In descending order: what all likelier ones have together."""
    descending = -np.sort(-likely)
    return np.cumsum(descending) - descending


def k_largest(logits: Array, k: int | None) -> Array:
    return np.full(logits.shape, True) if k is None else places(logits) < k


def until_p(likely: Array, p: float | None) -> Array:
    return np.full(likely.shape, True) if p is None else (sum_before(likely) < p)[places(likely)]


def minus_infinity(logits: Array, kept: Array) -> Array:
    return np.where(kept, logits, -np.inf)


def of_what_is_left(by_k: Array, logits: Array) -> Array:
    return by_k


def softened(soften: Function, by_p: Array, likely: Array) -> Array:
    return soften(by_p)


@formula
def filtered(
    logits: Array,
    k: int | None = None,
    p: float | None = None,
    *,
    soften: Function = soft,
    among_k: Function = k_largest,
    among_p: Function = until_p,
    hide: Function = minus_infinity,
    drop: Function = minus_infinity,
    measured: Function = of_what_is_left,
    finish: Function = softened,
) -> Array:
    with np.errstate(all="ignore"):
        by_k = hide(logits, among_k(logits, k))
        likely = soften(measured(by_k, logits))
        by_p = drop(by_k, among_p(likely, p))
        probabilities = finish(soften, by_p, likely)
    return probabilities


# the steps as they go wrong


def k_largest_and(logits: Array, k: int | None, *, more: int) -> Array:
    return k_largest(logits, None if k is None else k + more)


def k_smallest(logits: Array, k: int | None) -> Array:
    return k_largest(-logits, k)


def below_p(likely: Array, p: float | None) -> Array:
    return np.full(likely.shape, True) if p is None else (np.cumsum(-np.sort(-likely)) <= p)[places(likely)]


def below_p_but_the_first(likely: Array, p: float | None) -> Array:
    return below_p(likely, p) | (places(likely) == 0)


def one_beyond_p(likely: Array, p: float | None) -> Array:
    kept = until_p(likely, p)
    return kept | (places(likely) == kept.sum())


def from_the_least(likely: Array, p: float | None) -> Array:
    ascending = np.sort(likely)
    kept = np.cumsum(ascending) - ascending < (2 if p is None else p)
    return kept[places(-likely)]


def in_sorted_order(likely: Array, p: float | None) -> Array:
    return np.full(likely.shape, True) if p is None else sum_before(likely) < p


def by_order_of_order(likely: Array, p: float | None) -> Array:
    return np.full(likely.shape, True) if p is None else (sum_before(likely) < p)[np.argsort(-likely, kind="stable")]


def each_above(likely: Array, p: float | None, *, least: Function) -> Array:
    return np.full(likely.shape, True) if p is None else likely >= least(likely, p)


def itself(likely: Array, p: float) -> float:
    return p


def the_rest(likely: Array, p: float) -> float:
    return 1 - p


def part_of_the_largest(likely: Array, p: float) -> float:
    return p * float(likely.max())


def everything(likely: Array, p: float | None) -> Array:
    return np.full(likely.shape, True)


def finite(logits: Array, kept: Array, *, fill: float) -> Array:
    return np.where(kept, logits, fill)


def of_all(by_k: Array, logits: Array) -> Array:
    return logits


def cut_only(soften: Function, by_p: Array, likely: Array) -> Array:
    return np.where(np.isneginf(by_p), 0, likely)


def in_descending_order(soften: Function, by_p: Array, likely: Array) -> Array:
    return -np.sort(-soften(by_p))


def without_maximum(logits: Array) -> Array:
    exp = np.exp(logits)
    return exp / exp.sum()


def k_or_p(logits: Array, k: int | None = None, p: float | None = None) -> Array:
    return filtered(logits, k, p if k is None else None)


def p_or_k(logits: Array, k: int | None = None, p: float | None = None) -> Array:
    return filtered(logits, k if p is None else None, p)


def sorted_after_p(logits: Array, k: int | None = None, p: float | None = None) -> Array:
    found = filtered(logits, k, p)
    return found if p is None else -np.sort(-found)


def in_place(logits: Array, k: int | None = None, p: float | None = None) -> Array:
    logits[~k_largest(logits, k)] = -np.inf
    logits[~until_p(soft(logits), p)] = -np.inf
    return soft(logits)


def reference(logits: Array, k: int | None = None, p: float | None = None) -> Array:
    by_k = logits if k is None else sampling.top_k(logits, k)
    return ops.softmax(by_k if p is None else sampling.top_p(by_k, p))


def changed(**steps: Function) -> Function:
    return partial(filtered, **steps)


def filled_with(*fills: float) -> tuple[Function, ...]:
    """A finite number in place of what k drops, of what p drops, or of both."""
    steps = [partial(finite, fill=f) for f in fills]
    return tuple(changed(**where) for s in steps for where in ({"hide": s}, {"drop": s}, {"hide": s, "drop": s}))


TASK = Task(
    name="top_k_top_p",
    signature="top_k_top_p(logits, k=None, p=None)",
    returns=Text("probabilities (vocab,)", "probabilities (vocab,)"),
    title=Text("Top-k and top-p", "Top-k 与 Top-p 采样"),
    statement=Text(
        "logits (vocab,), scores of one next token. Return the probabilities to draw from, in the order of logits.\n"
        "k: only the k largest logits stay. p: of the tokens by falling probability, the fewest whose sum reaches p stay;\n"
        "the token that crosses p is kept. What is dropped gets probability 0, and the rest sums to 1.\n"
        "None means no such filter. With both, k comes first, then p on what is left, renormalised.",
        "logits (vocab,) 是下一个词元的分数。返回用来采样的概率，次序与 logits 相同。\n"
        "k：只留下最大的 k 个 logits。p：按概率从大到小，留下总和达到 p 所需的最少几个词元；\n"
        "跨过 p 的那个词元要留下。去掉的词元概率为 0，留下的重新归一化，和为 1。\n"
        "None 表示不用这种过滤。两个都给时，先用 k，把留下的归一化，再用 p。",
    ),
    reference=reference,
    formula=filtered,
    probes=(
        Probe("example", {"logits": np.array([1.0, 3.0, 2.0, 0.0]), "k": 2}, Text("four tokens, two stay", "四个词元，留下两个")),
        Probe("one_is_enough", {"logits": np.array([0.5, -1.0, 2.5, 1.0, 2.0]), "k": None, "p": 0.25},
              Text("p alone, and the likeliest token has more than that", "只有 p，而最可能的词元一个就超过了 p")),
        Probe("both", {"logits": np.array([0.2, 1.5, 1.0, 0.1, 1.2, -0.5]), "k": 4, "p": 0.63}, Text("k and p together", "同时有 k 和 p")),
        Probe("low", {"logits": np.array([-20001.0, -20000.0, -20003.0, -20001.5, -20002.0]), "k": 2, "p": 0.85},
              Text("all logits near -20000", "所有 logits 都在 -20000 附近")),
        Probe("edge_of_exp", {"logits": np.array([-743.7, -744.35, -743.33, -743.05, -744.4]), "k": 3},
              Text("exponentials so small that they hold one digit", "exp 的结果小到只剩一位有效数字")),
    ),
    mistakes=(
        Mistake("top_k_off_by_one", tuple(changed(among_k=partial(k_largest_and, more=m)) for m in (1, -1)), say(
            ("One token too many or too few passes top-k.", "top-k 多留或少留了一个词元。"),
            ("top-k with k + 1 or k - 1", "取 k + 1 或 k - 1 的 top-k"),
            ("Count the tokens that are not 0: are there k?", "数一数不为 0 的词元：正好 k 个吗？"),
            ("Look at the index into the sorted logits, and at > and >=.", "看排序后取的下标，以及 > 与 >=。"),
            ("The k-th largest is np.sort(logits)[-k]; keep logits >= it.", "第 k 大的是 np.sort(logits)[-k]；保留 logits >= 它的。"),
        )),
        Mistake("top_k_smallest", (changed(among_k=k_smallest),), say(
            ("The k smallest logits are kept.", "留下的是最小的 k 个 logits。"),
            ("top-k with the smallest in place of the largest", "把最大换成最小的 top-k"),
            ("Is the likeliest token still there?", "最可能的词元还在吗？"),
            ("np.sort and np.argsort go upwards: look at which end you take.", "np.sort 与 np.argsort 是升序：看你取的是哪一头。"),
            ("Take the end: np.argsort(logits)[-k:].", "取末尾：np.argsort(logits)[-k:]。"),
        )),
        Mistake("top_p_drops_crossing", (changed(among_p=below_p), changed(among_p=below_p_but_the_first)), say(
            ("The token that crosses p is dropped.", "跨过 p 的那个词元被去掉了。"),
            ("top-p without the token that crosses p", "去掉了跨过 p 的词元的 top-p"),
            ("Do the tokens that stay reach p together?", "留下的词元，原来的概率之和达到 p 了吗？"),
            ("Look at what is compared with p: the sum with the token itself, or before it?", "看与 p 比较的是什么：是加上这个词元之后的和，还是之前的和？"),
            ("Keep a token when the sum before it is below p: np.cumsum(s) - s < p.", "它之前的和小于 p 就留下：np.cumsum(s) - s < p。"),
        )),
        Mistake("top_p_keeps_one_more", (changed(among_p=one_beyond_p),), say(
            ("One token more than needed is kept by top-p.", "top-p 多留了一个词元。"),
            ("top-p with one token beyond the crossing one", "在跨过 p 之后又多留一个的 top-p"),
            ("Would p still be reached without the last token that stays?", "去掉留下的最后一个词元，总和还够 p 吗？"),
            ("Look at shifts by one: is the crossing token counted twice?", "看错位的地方：是不是为跨过 p 的词元移了两次？"),
            ("Keep a token when the sum before it is below p: np.cumsum(s) - s < p.", "它之前的和小于 p 就留下：np.cumsum(s) - s < p。"),
        )),
        Mistake("top_p_wrong_order", (changed(among_p=from_the_least),), say(
            ("Top-p begins with the least likely tokens.", "top-p 从最不可能的词元开始累加。"),
            ("top-p that adds up from the least likely", "从小到大累加的 top-p"),
            ("Is the likeliest token still there?", "最可能的词元还在吗？"),
            ("Look at the direction of the sort before the cumulative sum.", "看累加之前排序的方向。"),
            ("Largest first: np.argsort(-likely).", "从大到小：np.argsort(-likely)。"),
        )),
        Mistake("top_p_as_threshold", tuple(changed(among_p=partial(each_above, least=f)) for f in (
            itself, the_rest, part_of_the_largest)), say(
            ("Each probability is compared with a threshold, instead of adding them up until p is reached.",
             "拿每个概率单独与阈值比较，而不是累加到 p。"),
            ("a threshold on each probability", "对每个概率单独设阈值"),
            ("Of the tokens by falling probability: how many are needed to reach p together?", "概率从大到小排，需要几个词元加起来才达到 p？"),
            ("Look at the comparison with p: where is the cumulative sum?", "看与 p 比较的地方：有累加和吗？"),
            ("Sort, np.cumsum, compare with p, and put back in order.", "先排序，再 np.cumsum，与 p 比较，最后放回原来的次序。"),
        )),
        Mistake("order_not_restored", (changed(among_p=in_sorted_order), changed(among_p=by_order_of_order),
                                       changed(finish=in_descending_order), sorted_after_p), say(
            ("What was found in sorted order is not put back in the order of the tokens.", "排序之后得到的结果，没有放回词元原来的次序。"),
            ("top-p that leaves something in sorted order", "没有还原次序的 top-p"),
            ("Has the largest logit the largest probability in your result?", "你的结果里，最大的 logit 对应最大的概率吗？"),
            ("Look at what happens after the sort: which index belongs to which token?", "看排序之后：哪个下标对应哪个词元？"),
            ("Write through the order: kept = np.zeros(n, bool); kept[order] = kept_sorted.",
             "按次序写回：kept = np.zeros(n, bool); kept[order] = kept_sorted。"),
        )),
        Mistake("top_p_before_top_k", (changed(measured=of_all),), say(
            ("p is measured on all tokens, not on what top-k has left.", "p 是在全部词元上算的，而不是在 top-k 留下的词元上。"),
            ("top-p of the whole distribution, then top-k", "先在整个分布上做 top-p，再做 top-k"),
            ("With k and p: to what do the probabilities sum before p is applied?", "同时有 k 和 p 时，用 p 之前概率之和是多少？"),
            ("Look at the order: k, softmax, p.", "看先后：k、softmax、p。"),
            ("First set what k drops to -inf, then softmax, then p.", "先把 k 去掉的设为 -inf，再 softmax，再用 p。"),
        )),
        Mistake("only_one_filter", (k_or_p, p_or_k, changed(among_p=everything), changed(among_k=everything)), say(
            ("Of k and p, only one is applied.", "k 和 p 只用了一个。"),
            ("k alone or p alone, where both are given", "两个都给时，只用了 k 或只用了 p"),
            ("What does your code do when both k and p are given?", "k 和 p 都给时，你的代码怎样做？"),
            ("Look at elif and at an early return.", "看 elif，以及提前的 return。"),
            ("Two separate ifs: first k, then p on what is left.", "写两个独立的 if：先 k，再对留下的用 p。"),
        )),
        Mistake("not_renormalised", (changed(measured=of_all, finish=cut_only), changed(finish=cut_only)), say(
            ("What stays is not renormalised: it does not sum to 1.", "留下的概率没有重新归一化，和不是 1。"),
            ("the filtered probabilities without renormalising", "过滤后没有归一化的概率"),
            ("What does your result sum to?", "你的结果加起来是多少？"),
            ("Look at the last step, after tokens were set to 0.", "看最后一步，词元置 0 之后。"),
            ("Divide by the sum: kept / kept.sum().", "除以总和：kept / kept.sum()。"),
        )),
        Mistake("mask_fill_zero", filled_with(0.0), say(
            ("Dropped logits are set to 0, and exp(0) is 1: they can still be drawn.", "去掉的 logits 设成了 0，而 exp(0) 是 1：仍可能被采到。"),
            ("dropped logits set to 0", "把去掉的 logits 设为 0"),
            ("What probability has a logit of 0?", "logit 为 0 时概率是多少？"),
            ("Look at the number put in place of dropped logits.", "看去掉的 logits 填的数。"),
            ("Fill with -np.inf.", "填 -np.inf。"),
        )),
        Mistake("mask_fill_small", filled_with(-1e4, -1e3, -100.0, -10.0, -1.0), say(
            ("Dropped logits get a finite number that kept ones can fall below.", "去掉的 logits 填了一个有限的数，留下的可能比它更低。"),
            ("dropped logits filled by a finite number", "用有限的数填充去掉的 logits"),
            ("What if every logit is lower than your fill?", "如果所有 logits 都比你填的数更低呢？"),
            ("Look at the number put in place of dropped logits.", "看去掉的 logits 填的数。"),
            ("Fill with -np.inf.", "填 -np.inf。"),
        )),
        Mistake("softmax_no_max", (changed(soften=without_maximum),)),
        Mistake("mutates_input", (in_place,)),
    ),
    properties=(rows_sum_to_one(),),
    solution=(
        Line("def softmax(x):\n    exp = np.exp(x - x.max())\n    return exp / exp.sum()\n\n", "-inf gets probability 0.", "-inf 得到概率 0。"),
        Line("def top_k_top_p(logits, k=None, p=None):\n    if k is not None:\n        logits = np.where(logits >= np.sort(logits)[-k], logits, -np.inf)",
             "The k-th largest is the bar. np.where makes a new array; the caller's stays.", "第 k 大的数是门槛。np.where 生成新数组，不改动输入。"),
        Line("    likely = softmax(logits)\n    if p is not None:\n        order = np.argsort(-likely)",
             "The softmax renormalises what k left; then the likeliest come first.", "softmax 把 k 留下的归一化；再从大到小排。"),
        Line("        before = np.cumsum(likely[order]) - likely[order]\n        likely[order[before >= p]] = 0",
             "Drop a token if those before it reach p already: so the one that crosses p stays.",
             "前面的已经达到 p，才去掉它：所以跨过 p 的那个留下。"),
        Line("    return likely / likely.sum()", "What is left sums to 1.", "留下的和为 1。"),
    ),
    styles={
        "loops": '''
import math


def top_k_top_p(logits, k=None, p=None):
    ranked = sorted(range(len(logits)), key=lambda i: logits[i], reverse=True)
    if k is not None:
        ranked = ranked[:k]
    top = max(logits)
    exp = {i: math.exp(logits[i] - top) for i in ranked}
    if p is not None:
        whole, reached, kept = sum(exp.values()), 0.0, []
        for i in ranked:
            kept.append(i)
            reached += exp[i] / whole
            if reached >= p:
                break
        ranked = kept
    total = sum(exp[i] for i in ranked)
    return [exp[i] / total if i in ranked else 0.0 for i in range(len(logits))]
''',
        "ascending_tail": '''
import numpy as np


def softmax(x):
    e = np.exp(x - np.max(x))
    return e / np.sum(e)


def top_k_top_p(logits, k=None, p=None):
    out = np.array(logits, dtype=float)
    if k:
        out[np.argsort(out)[:-k]] = -1e30
    if p:
        order = np.argsort(out)
        tail = np.cumsum(softmax(out[order])) <= 1 - p
        tail[-1] = False
        out[order[tail]] = -1e30
    return softmax(out)
''',
        "searchsorted": '''
import numpy as np


def top_k_top_p(logits, k=None, p=None):
    probs = np.exp(logits - np.logaddexp.reduce(logits))
    if k is not None:
        cut = np.partition(probs, -k)[-k]
        probs = np.where(probs < cut, 0, probs)
        probs = probs / probs.sum()
    if p is not None:
        order = probs.argsort()[::-1]
        n = np.searchsorted(np.cumsum(probs[order]), p) + 1
        kept = np.zeros_like(probs)
        kept[order[:n]] = probs[order[:n]]
        probs = kept
    return probs / probs.sum()
''',
        "chinese_names": '''
import numpy as np


class 采样器:
    def __init__(self, 分数):
        self.概率 = np.exp(分数 - 分数.max())
        self.归一()

    def 归一(self):
        self.概率 = self.概率 / self.概率.sum()

    def 只留(self, 名次):
        掩码 = np.isin(np.arange(len(self.概率)), 名次)
        self.概率 = np.where(掩码, self.概率, 0)
        self.归一()

    def 名次(self):
        return np.argsort(self.概率)[::-1]


def top_k_top_p(logits, k=None, p=None):
    器 = 采样器(logits)
    if k is not None:
        器.只留(器.名次()[:k])
    if p is not None:
        名次 = 器.名次()
        累计 = np.cumsum(器.概率[名次])
        器.只留(名次[: np.argmax(累计 >= p) + 1])
    return 器.概率
''',
    },
)  # fmt: skip
