"""The online softmax: maximum and sum in one pass, while the scores arrive in pieces."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from ..mistakes import say
from ..task import Function, Line, Mistake, Probe, Task, Text, formula
from ..wire import Array, Stream

Chunks = Iterable[Array]


# the steps as they are right


def larger(top: Any, chunk: Array) -> Any:
    return np.maximum(top, chunk.max())


def measured_again(total: Any, top: Any, new_top: Any) -> Any:
    return total * np.exp(top - new_top)


def from_new_top(chunk: Array, top: Any, new_top: Any) -> Any:
    return np.exp(chunk - new_top).sum()


def sum_of_both(kept: Any, added: Any, top: Any, new_top: Any) -> Any:
    return kept + added


def the_new_one(new_top: Any, chunk: Array) -> Any:
    return new_top


def both(top: Any, total: Any) -> tuple[Any, Any]:
    return top, total


@formula
def online(
    chunks: Chunks,
    *,
    start: float = -np.inf,
    grow: Function = larger,
    rescale: Function = measured_again,
    weigh: Function = from_new_top,
    add: Function = sum_of_both,
    remember: Function = the_new_one,
    give: Function = both,
) -> tuple[Any, Any]:
    top, total = start, 0.0
    with np.errstate(all="ignore"):
        for chunk in chunks:
            new_top = grow(top, chunk)
            kept = rescale(total, top, new_top)
            added = weigh(chunk, top, new_top)
            total = add(kept, added, top, new_top)
            top = remember(new_top, chunk)
        result = give(top, total)
    return result


def reference(chunks: Chunks) -> tuple[Any, Any]:
    scores = np.concatenate(list(chunks))
    return scores.max(), np.exp(scores - scores.max()).sum()


# the steps as they go wrong


def as_it_was(total: Any, top: Any, new_top: Any) -> Any:
    return total


def top_of_this_chunk(new_top: Any, chunk: Array) -> Any:
    return chunk.max()


def turned_over(total: Any, top: Any, new_top: Any) -> Any:
    return total * np.exp(new_top - top) if total else total


def turned_over_from_the_start(total: Any, top: Any, new_top: Any) -> Any:
    return total * np.exp(new_top - top)


def by_difference(total: Any, top: Any, new_top: Any) -> Any:
    return total * (top - new_top) if total else total


def forgotten(total: Any, top: Any, new_top: Any) -> Any:
    return 0.0


def from_own_top(chunk: Array, top: Any, new_top: Any) -> Any:
    return np.exp(chunk - chunk.max()).sum()


def from_old_top(chunk: Array, top: Any, new_top: Any) -> Any:
    return np.exp(chunk - (new_top if np.isneginf(top) else top)).sum()


def from_nothing(chunk: Array, top: Any, new_top: Any) -> Any:
    return np.exp(chunk).sum()


def of_this_chunk(top: Any, chunk: Array) -> Any:
    return chunk.max()


def of_first_chunk(top: Any, chunk: Array) -> Any:
    return chunk.max() if np.isneginf(top) else top


def all_rescaled(kept: Any, added: Any, top: Any, new_top: Any) -> Any:
    return kept + added if np.isneginf(top) else kept + added * np.exp(top - new_top)


def all_rescaled_from_the_start(kept: Any, added: Any, top: Any, new_top: Any) -> Any:
    return kept + added * np.exp(top - new_top)


def sum_first(top: Any, total: Any) -> tuple[Any, Any]:
    return total, top


def logarithm(top: Any, total: Any) -> tuple[Any, Any]:
    return top, np.log(total)


def top_and_logsumexp(top: Any, total: Any) -> tuple[Any, Any]:
    return top, top + np.log(total)


def one_over(top: Any, total: Any) -> tuple[Any, Any]:
    return top, 1 / total


def measured_at_the_end(top: Any, total: Any) -> tuple[Any, Any]:
    return top, total / np.exp(top)


def read_twice(chunks: Chunks) -> tuple[Any, Any]:
    top = max(chunk.max() for chunk in chunks)
    return top, sum((np.exp(chunk - top).sum() for chunk in chunks), 0.0)


def shifted_in_place(chunks: Chunks) -> tuple[Any, Any]:
    top, total = -np.inf, 0.0
    for chunk in chunks:
        new_top = np.maximum(top, chunk.max())
        chunk -= new_top
        total = total * np.exp(top - new_top) + np.exp(chunk).sum()
        top = new_top
    return top, total


def taken_out(chunks: Any) -> tuple[Any, Any]:
    kept = []
    while isinstance(chunks, list) and chunks:
        kept.append(chunks.pop(0))
    return reference([*kept, *chunks])


def pieces(*chunks: tuple[float, ...]) -> list[Array]:
    return [np.array(chunk, float) for chunk in chunks]


TASK = Task(
    name="online_softmax",
    signature="online_softmax(chunks)",
    returns=Text("(max, sum), two numbers", "(max, sum)，两个数"),
    title=Text("Online softmax: maximum and sum in one pass", "Online softmax：一遍求出最大值与和"),
    statement=Text(
        "chunks is an iterable of 1-D arrays, the scores of one row in pieces. It may be a generator, so it can be read once only.\n"
        "Return the maximum of all scores and the sum of exp(score - maximum) over all of them. Scores may be large.",
        "chunks 是可迭代对象，依次给出若干一维数组，即分段到来的一行分数。它可能是生成器，所以只能读一遍。\n"
        "返回所有分数的最大值，以及所有 exp(分数 - 最大值) 之和。分数可能很大。",
    ),
    reference=reference,
    formula=online,
    probes=(
        Probe("example", {"chunks": pieces((0, 1), (3, 2))}, Text("two pieces, the larger numbers in the second",
                                                                  "两段，第二段的数更大")),
        Probe("up_and_down", {"chunks": pieces((0.5, -1, 2), (1, 3.5, 3), (-2, 1, 0.25), (2.5, 3, 2))},
              Text("the maximum is in the middle", "最大值在中间的一段")),
        Probe("below_zero", {"chunks": pieces((-3, -1.5), (-2, -4))}, Text("all scores negative", "分数全是负数")),
        Probe("huge", {"chunks": pieces((-1000, -999), (1000, 998), (0, 999))}, Text("scores of 1000: exp overflows", "分数达到 1000：exp 会溢出")),
        Probe("generator", {"chunks": Stream(tuple(pieces((1, 2, 1.5))))}, Text("an iterator, which can be read once", "只能读一遍的迭代器")),
    ),
    mistakes=(
        Mistake("flash_no_rescale", (partial(online, rescale=as_it_was), partial(online, rescale=as_it_was, weigh=from_own_top)), say(
            ("The sum is not rescaled when the maximum grows.", "最大值变大时，没有重新缩放已有的和。"),
            ("a sum whose parts are measured from different maxima", "各部分以不同的最大值为基准的和"),
            ("From which maximum was the old sum measured, and from which is the new part?", "旧的和以哪个最大值为基准？新加的部分呢？"),
            ("Look at what happens to the sum before the new part is added.", "看加上新的部分之前，对已有的和做了什么。"),
            ("total = total * np.exp(old_max - new_max) + np.exp(chunk - new_max).sum().",
             "total = total * np.exp(old_max - new_max) + np.exp(chunk - new_max).sum()。"),
        )),
        Mistake("flash_rescale_inverted", tuple(partial(online, rescale=r) for r in (turned_over, turned_over_from_the_start, by_difference)), say(
            ("The old sum is rescaled by a wrong factor: exp(new - old), or without exp.", "重新缩放的系数错了：写成了 exp(新 - 旧)，或没有取 exp。"),
            ("a sum rescaled by exp(new - old) or by the bare difference", "按 exp(新 - 旧) 或直接按差值缩放的和"),
            ("When the maximum grows, should the old sum become larger or smaller?", "最大值变大时，旧的和应变大还是变小？"),
            ("Look at the factor of the old sum.", "看旧的和所乘的系数。"),
            ("np.exp(old_max - new_max), which is at most 1.", "np.exp(old_max - new_max)，它不超过 1。"),
        )),
        Mistake("flash_rescales_new", (
            partial(online, add=all_rescaled), partial(online, add=all_rescaled_from_the_start),
            partial(online, weigh=from_old_top), partial(online, rescale=as_it_was, weigh=from_old_top),
        ), say(
            ("The new part is not measured from the new maximum.", "新加的部分没有以新的最大值为基准。"),
            ("a sum whose new part is measured from the old maximum, or rescaled too", "新的部分以旧的最大值为基准、或也被重新缩放的和"),
            ("Which part still has to be rescaled, and which is already right?", "哪部分需要重新缩放？哪部分本来就对？"),
            ("Look at the brackets, and at the maximum inside exp for the new chunk.", "看括号的位置，以及新的一段在 exp 里减的是哪个最大值。"),
            ("total * np.exp(old_max - new_max) + np.exp(chunk - new_max).sum(): only the old sum gets the factor.",
             "total * np.exp(old_max - new_max) + np.exp(chunk - new_max).sum()：只有旧的和要乘系数。"),
        )),
        Mistake("flash_no_running_max", (
            partial(online, grow=of_this_chunk), partial(online, grow=of_first_chunk),
            partial(online, grow=of_this_chunk, rescale=as_it_was), partial(online, remember=top_of_this_chunk),
        ), say(
            ("The maximum is that of one chunk, not of all so far.", "最大值只取自某一段，而不是至今所有的分数。"),
            ("maximum and sum measured from the maximum of a single chunk", "以某一段的最大值为基准的结果"),
            ("What if a later chunk is smaller, or larger, than the one before?", "如果后一段比前一段小，或者大，会怎样？"),
            ("Look at how the maximum is updated.", "看最大值是怎样更新的。"),
            ("new_max = max(old_max, chunk.max()).", "new_max = max(old_max, chunk.max())。"),
        )),
        Mistake("flash_overwrites", (partial(online, rescale=forgotten), partial(online, grow=of_this_chunk, rescale=forgotten)), say(
            ("Only the last chunk is counted in the sum.", "和里只算了最后一段。"),
            ("the sum of the last chunk alone", "只有最后一段的和"),
            ("What is left of the first chunk at the end?", "到最后，第一段还剩下什么？"),
            ("Look for = where the sum should grow, and whether the new maximum is remembered.", "看本该累加的地方是否写成了赋值，以及新的最大值有没有记住。"),
            ("Add to the rescaled sum: total = total * np.exp(old_max - new_max) + ....",
             "要在重新缩放的和上累加：total = total * np.exp(old_max - new_max) + ...。"),
        )),
        Mistake("running_max_from_zero", (partial(online, start=0.0),), say(
            ("The maximum starts at 0, so it is wrong when all scores are negative.", "最大值从 0 开始，分数全为负时就错了。"),
            ("maximum and sum with 0 among the candidates for the maximum", "把 0 也算进最大值候选的结果"),
            ("What is the maximum of -3 and -2?", "-3 和 -2 的最大值是多少？"),
            ("Look at the line before the loop.", "看循环之前的那一行。"),
            ("Start from -np.inf.", "从 -np.inf 开始。"),
        )),
        Mistake("softmax_no_max", tuple(partial(online, rescale=as_it_was, weigh=from_nothing, give=g) for g in (both, measured_at_the_end)), say(
            ("exp is taken without subtracting the maximum first.", "没有先减去最大值就取 exp。"),
            ("a sum of exp(score), without subtracting the maximum first", "没有先减最大值的 exp(分数) 之和"),
            ("What is np.exp(1000)?", "np.exp(1000) 是多少？"),
            ("Look at what goes into exp.", "看传入 exp 的是什么。"),
            ("np.exp(chunk - new_max), and rescale the old sum when the maximum grows.",
             "np.exp(chunk - new_max)，最大值变大时重新缩放旧的和。"),
        )),
        Mistake("chunks_read_twice", (read_twice,), say(
            ("The chunks are read twice; an iterator is empty the second time.", "把 chunks 读了两遍，而迭代器第二遍已经空了。"),
            ("a second pass over chunks that are used up", "对已经读完的 chunks 再读一遍的结果"),
            ("What does a generator give when you loop over it again?", "生成器循环过一次之后，再循环会得到什么？"),
            ("Count how often you go through chunks.", "数一数遍历了几次 chunks。"),
            ("Keep maximum and sum up to date in one loop.", "在同一个循环里同时更新最大值与和。"),
        )),
        Mistake("results_swapped", (partial(online, give=sum_first),), say(
            ("The two results come in the wrong order.", "两个结果的顺序反了。"),
            ("(sum, max) in place of (max, sum)", "(sum, max)，而不是 (max, sum)"),
            ("What should come first?", "先返回哪一个？"),
            ("Look at the return line.", "看 return 那一行。"),
            ("Return the maximum first, then the sum.", "先返回最大值，再返回和。"),
        )),
        Mistake("online_not_the_sum", tuple(partial(online, give=g) for g in (logarithm, top_and_logsumexp, one_over)), say(
            ("Something made of the sum is returned, not the sum itself.", "返回的是由和算出的另一个数，而不是和本身。"),
            ("the logarithm or the inverse of the sum", "和的对数或倒数"),
            ("What does the task ask for: the sum, its logarithm, or a weight?", "题目要的是和、和的对数，还是权重？"),
            ("Look at the return line.", "看 return 那一行。"),
            ("Return the sum of exp(score - maximum) as it is.", "原样返回 exp(分数 - 最大值) 之和。"),
        )),
        Mistake("mutates_input", (shifted_in_place, taken_out)),
    ),
    solution=(
        Line("def online_softmax(chunks):\n    top, total = -np.inf, 0.0", "Nothing seen yet: no maximum, nothing in the sum.", "还什么都没见到：没有最大值，和为 0。"),
        Line("    for chunk in chunks:\n        new_top = max(top, chunk.max())", "The maximum of all scores so far.", "至今所有分数的最大值。"),
        Line("        total = total * np.exp(top - new_top) + np.exp(chunk - new_top).sum()",
             "The old sum was measured from the old maximum: exp(old - new) measures it from the new one.",
             "旧的和以旧的最大值为基准：乘 exp(旧 - 新) 就换成以新的为基准。"),
        Line("        top = new_top\n    return top, total", "Remember the maximum for the next chunk.", "记住最大值，留给下一段。"),
    ),
    styles={
        "score_by_score": '''
import math


def online_softmax(chunks):
    m, s = float("-inf"), 0.0
    for chunk in chunks:
        for x in chunk:
            if x > m:
                s = s * math.exp(m - x) + 1.0
                m = x
            else:
                s += math.exp(x - m)
    return m, s
''',
        "all_at_once": '''
import numpy as np


def online_softmax(chunks):
    x = np.concatenate([c for c in chunks])
    m = np.max(x)
    return m, np.sum(np.exp(x - m))
''',
        "merged_pairs": '''
from functools import reduce

import numpy as np


def merge(a, b):
    m = np.maximum(a[0], b[0])
    return m, a[1] * np.exp(a[0] - m) + b[1] * np.exp(b[0] - m)


def online_softmax(chunks):
    parts = ((c.max(), np.exp(c - c.max()).sum()) for c in chunks)
    return reduce(merge, parts)
''',
        "logarithms": '''
import numpy as np


def online_softmax(chunks):
    top, log_sum = -np.inf, -np.inf
    for chunk in chunks:
        top = np.maximum(top, chunk.max())
        log_sum = np.logaddexp(log_sum, np.logaddexp.reduce(chunk))
    return top, np.exp(log_sum - top)
''',
        "chinese_names_class": '''
import numpy as np


class 在线归一:
    def __init__(self):
        self.最大, self.总和 = None, 0.0

    def 更新(self, 分数):
        新最大 = 分数.max() if self.最大 is None else max(self.最大, 分数.max())
        if self.最大 is not None:
            self.总和 *= np.exp(self.最大 - 新最大)
        self.总和 += np.sum(np.exp(分数 - 新最大))
        self.最大 = 新最大


def online_softmax(chunks):
    状态 = 在线归一()
    for 一段 in chunks:
        状态.更新(一段)
    return 状态.最大, 状态.总和
''',
    },
)  # fmt: skip
