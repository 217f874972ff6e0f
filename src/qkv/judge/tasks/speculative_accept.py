"""Speculative decoding: how many drafted tokens the target model accepts, and what the next one is drawn from."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..mistakes import say
from ..task import Function, Line, Mistake, Probe, Task, Text, formula
from ..wire import Array


def quotient(target: Array, draft: Array) -> Array:
    return target / draft


def below(u: Array, ratio: Array, target: Array, p: Array, tokens: Array) -> Array:
    return u < ratio


def until_the_first_no(accepted: Array) -> int:
    return int(np.cumprod(accepted).sum())


def rows_at(n: int, t: int) -> tuple[int, int]:
    return n, n


def row_after_the_drafts(p: Array, q: Array) -> Array:
    return p[len(q)]


def only_more(p_row: Array, q_row: Array) -> Array:
    return np.maximum(p_row - q_row, 0)


def summing_to_one(surplus: Array) -> Array:
    return surplus / surplus.sum()


def as_counted(n: int, t: int) -> int:
    return n


@formula
def accept(
    p: Array,
    q: Array,
    tokens: Array,
    u: Array,
    *,
    divide: Function = quotient,
    compare: Function = below,
    count: Function = until_the_first_no,
    rows: Function = rows_at,
    left: Function = only_more,
    normalise: Function = summing_to_one,
    bonus: Function = row_after_the_drafts,
    report: Function = as_counted,
) -> tuple[int, Array]:
    drafted = np.arange(len(tokens))
    with np.errstate(all="ignore"):
        target = p[drafted, tokens]
        draft = q[drafted, tokens]
        ratio = divide(target, draft)
        accepted = compare(u, ratio, target, p, tokens)
        n = count(accepted)
        if n >= len(q):
            residual = bonus(p, q)
        else:
            i, j = rows(n, len(q))
            surplus = left(p[i], q[j])
            residual = normalise(surplus)
    return report(n, len(q)), residual


# the steps as they go wrong


def upside_down(target: Array, draft: Array) -> Array:
    return draft / target


def no_quotient(target: Array, draft: Array) -> Array:
    return target


def above(u: Array, ratio: Array, target: Array, p: Array, tokens: Array) -> Array:
    return u > ratio


# It stands with its own quotient (see u_ignored): with another one, nothing would ever be accepted.
def at_least_as_likely(u: Array, ratio: Array, target: Array, p: Array, tokens: Array) -> Array:
    return ratio >= 1


def is_likeliest(u: Array, ratio: Array, target: Array, p: Array, tokens: Array) -> Array:
    return p[: len(tokens)].argmax(axis=-1) == tokens


def every_yes(accepted: Array) -> int:
    return int(accepted.sum())


def one_more(n: int, t: int) -> int:
    return n + 1


def counted_from_one(n: int, t: int) -> int:
    return min(n + 1, t)


def one_less(n: int, t: int) -> int:
    return n - 1 if n < t else n


def next_rows(n: int, t: int) -> tuple[int, int]:
    return n + 1, n + 1


def next_row_of_target(n: int, t: int) -> tuple[int, int]:
    return n + 1, n


def rows_before(n: int, t: int) -> tuple[int, int]:
    return n - 1, n - 1


def last_rows(n: int, t: int) -> tuple[int, int]:
    return t - 1, t - 1


def first_rows(n: int, t: int) -> tuple[int, int]:
    return 0, 0


def difference(p_row: Array, q_row: Array) -> Array:
    return p_row - q_row


def distance(p_row: Array, q_row: Array) -> Array:
    return np.abs(p_row - q_row)


def only_less(p_row: Array, q_row: Array) -> Array:
    return np.maximum(q_row - p_row, 0)


def target_itself(p_row: Array, q_row: Array) -> Array:
    return p_row


def draft_itself(p_row: Array, q_row: Array) -> Array:
    return q_row


def as_it_is(surplus: Array) -> Array:
    return surplus


def by_softmax(surplus: Array) -> Array:
    exp = np.exp(surplus - surplus.max())
    return exp / exp.sum()


def row_of_the_last_draft(p: Array, q: Array) -> Array:
    return p[len(q) - 1]


def draft_of_the_last(p: Array, q: Array) -> Array:
    return q[-1]


def residual_of_the_last(p: Array, q: Array) -> Array:
    return summing_to_one(only_more(p[len(q) - 1], q[-1]))


def residual_against_the_last(p: Array, q: Array) -> Array:
    return summing_to_one(only_more(p[len(q)], q[-1]))


def in_place(p: Array, q: Array, tokens: Array, u: Array) -> tuple[int, Array]:
    n, residual = accept(p, q, tokens, u)
    p[n] = residual
    return n, residual


def every_yes_counted(p: Array, q: Array, tokens: Array, u: Array) -> tuple[int, Array]:
    drafted = np.arange(len(u))
    n = np.sum(u < p[drafted, tokens] / q[drafted, tokens])
    return int(n), accept(p, q, tokens, u)[1]


def reference(p: Array, q: Array, tokens: Array, u: Array) -> Any:
    for i, token in enumerate(tokens):
        if u[i] * q[i, token] >= p[i, token]:
            surplus = np.clip(p[i] - q[i], 0, None)
            return i, surplus / surplus.sum()
    return len(tokens), p[-1]


def changed(**steps: Function) -> Function:
    return partial(accept, **steps)


def inputs(p: list[list[int]], q: list[list[int]], tokens: list[int], u: list[float]) -> dict[str, Any]:
    """Probabilities in sixteenths, which are exact: the difference of two rows sums to 0 without rounding."""
    return {"p": np.array(p) / 16, "q": np.array(q) / 16, "tokens": np.array(tokens), "u": np.array(u)}


TASK = Task(
    name="speculative_accept",
    signature="speculative_accept(p, q, tokens, u)",
    returns=Text("(n_accepted, residual (vocab,))", "(n_accepted, residual (vocab,))"),
    title=Text("Speculative decoding: accept or reject", "投机解码：接受还是拒绝"),
    statement=Text(
        "A small model drafted t tokens (t,), drawn from its distributions q (t, vocab). p (t + 1, vocab) are the target\n"
        "model's at the same places and one further; u (t,) are uniform numbers in [0, 1). Draft i is accepted if\n"
        "u_i < p_i(token) / q_i(token). The first rejection ends it: what comes behind is dropped.\n"
        "Return how many were accepted, and the distribution to draw the next token from: after a rejection at i\n"
        "max(0, p_i - q_i), normalised; if all were accepted, the last row of p.",
        "小模型从它的分布 q (t, vocab) 中采样，起草了 t 个词元 tokens (t,)。p (t + 1, vocab) 是目标模型在相同位置\n"
        "以及再下一个位置的分布；u (t,) 是 [0, 1) 上的均匀随机数。若 u_i < p_i(词元) / q_i(词元)，接受第 i 个。\n"
        "遇到第一个拒绝就停下，后面的全部丢弃。\n"
        "返回接受的个数，以及下一个词元要从中采样的分布：在 i 处拒绝时为 max(0, p_i - q_i)，归一化；\n"
        "全部接受时为 p 的最后一行。",
    ),
    reference=reference,
    formula=accept,
    probes=(
        Probe("example", inputs([[4, 8, 4], [2, 4, 10], [6, 7, 3]], [[2, 12, 2], [8, 2, 6]], [1, 0], [0.4, 0.5]),
              Text("two drafts, the second is rejected", "两个草稿词元，第二个被拒绝")),
        Probe("first_rejected", inputs([[1, 5, 6, 4], [4, 3, 4, 5], [8, 2, 2, 4], [3, 5, 7, 1]], [[8, 3, 3, 2], [2, 6, 5, 3], [4, 3, 4, 5]],
                                       [0, 1, 0], [0.3, 0.2, 0.9]),
              Text("the first is rejected, the others would pass", "第一个被拒绝，后面的本来都能通过")),
        Probe("all_accepted", inputs([[6, 4, 3, 3], [9, 3, 2, 2], [3, 8, 4, 1], [7, 3, 3, 3], [1, 2, 6, 7]],
                                     [[4, 6, 4, 2], [12, 2, 1, 1], [4, 6, 4, 2], [8, 4, 2, 2]], [0, 0, 2, 0], [0.9, 0.2, 0.2, 0.8]),
              Text("all are accepted", "全部接受")),
    ),
    mistakes=(
        Mistake("residual_not_clipped", (changed(left=difference), changed(left=difference, normalise=as_it_is), changed(left=distance)), say(
            ("The residual p - q is not cut off at 0: where q is larger, it is negative or counted by its size.",
             "残差 p - q 没有在 0 处截断：q 更大的地方成了负数，或取了绝对值。"),
            ("a residual made of p - q without max(0, ...)", "没有用 max(0, ...) 的残差 p - q"),
            ("Can a probability be negative?", "概率可以是负的吗？"),
            ("Look at p - q, where the draft was likelier than the target.", "看 p - q 中草稿概率更大的那些位置。"),
            ("np.maximum(p[n] - q[n], 0), then divide by the sum.", "np.maximum(p[n] - q[n], 0)，再除以总和。"),
        )),
        Mistake("not_renormalised", (changed(normalise=as_it_is),), say(
            ("The residual is not normalised: it does not sum to 1.", "残差没有归一化，和不是 1。"),
            ("max(0, p - q) without dividing by its sum", "没有除以总和的 max(0, p - q)"),
            ("What does your residual sum to?", "你的残差加起来是多少？"),
            ("Look at the last step after the clipping.", "看截断之后的那一步。"),
            ("residual / residual.sum().", "residual / residual.sum()。"),
        )),
        Mistake("residual_softmax", (changed(normalise=by_softmax),), say(
            ("The residual is put through a softmax instead of divided by its sum.", "残差做了 softmax，而不是除以总和。"),
            ("softmax of max(0, p - q)", "max(0, p - q) 的 softmax"),
            ("May a token with residual 0 be drawn?", "残差为 0 的词元可以被采到吗？"),
            ("Look at how the residual is made to sum to 1.", "看残差是怎样变成和为 1 的。"),
            ("These are probabilities, no logits: residual / residual.sum().", "它们是概率，不是 logits：residual / residual.sum()。"),
        )),
        Mistake("residual_is_target", (changed(left=target_itself), changed(left=draft_itself)), say(
            ("After a rejection the next token is drawn from p or q itself, not from their difference.",
             "拒绝之后，从 p 或 q 本身采样，而不是从两者之差采样。"),
            ("a row of p or q in place of the residual", "用 p 或 q 的一行代替残差"),
            ("Tokens likelier in q were drafted already: may they get their full share of p again?",
             "q 中更可能的词元已经有机会被起草了，还能再拿 p 的全部份额吗？"),
            ("Look at what is returned after a rejection.", "看拒绝之后返回的是什么。"),
            ("np.maximum(p[n] - q[n], 0), normalised.", "np.maximum(p[n] - q[n], 0)，再归一化。"),
        )),
        Mistake("residual_sign", (changed(left=only_less),), say(
            ("The residual is q - p: the wrong way round.", "残差成了 q - p，方向反了。"),
            ("max(0, q - p), normalised", "归一化的 max(0, q - p)"),
            ("Which tokens has the draft proposed too rarely?", "哪些词元是草稿模型提得太少的？"),
            ("Look at the order of the subtraction.", "看减法的次序。"),
            ("Target minus draft: p[n] - q[n].", "目标减草稿：p[n] - q[n]。"),
        )),
        Mistake("residual_wrong_row", tuple(changed(rows=r) for r in (
            next_rows, next_row_of_target, rows_before, last_rows, first_rows)), say(
            ("The residual is made of another row than that of the first rejection.", "残差取的不是第一个被拒绝的那一行。"),
            ("a residual from a neighbouring, the first or the last row", "取自相邻、第一或最后一行的残差"),
            ("If n drafts were accepted, at which index stands the rejected one?", "接受了 n 个，被拒绝的那个下标是多少？"),
            ("Look at the index into p and q.", "看 p 与 q 的下标。"),
            ("Row n of both: p[n] - q[n].", "两者都取第 n 行：p[n] - q[n]。"),
        )),
        Mistake("bonus_wrong", tuple(changed(bonus=b) for b in (
            row_of_the_last_draft, draft_of_the_last, residual_of_the_last, residual_against_the_last)), say(
            ("When all drafts are accepted, the next token is not drawn from the last row of p.", "全部接受时，没有从 p 的最后一行采样。"),
            ("a residual or another row where all were accepted", "全部接受时仍用残差或别的行"),
            ("All t are accepted: which place comes next, and which model knows it?", "t 个都接受了：下一个位置是哪个？哪个模型给出它的分布？"),
            ("Look at the case without any rejection.", "看没有任何拒绝的情形。"),
            ("Return p[t], as it is: there is no q to subtract.", "直接返回 p[t]：没有 q 可减。"),
        )),
        Mistake("accept_after_rejection", (changed(count=every_yes), every_yes_counted), say(
            ("Accepted tokens behind a rejection are counted too.", "拒绝之后的词元也被计入接受数。"),
            ("a count of all passing drafts, those behind a rejection included", "把拒绝之后通过的也算进去的个数"),
            ("What was draft i + 1 conditioned on, if draft i is thrown away?", "第 i 个被丢弃后，第 i + 1 个是以什么为前提起草的？"),
            ("Look at how the accepted are counted: sum, or up to the first no?", "看接受数怎样数：是求和，还是数到第一个拒绝为止？"),
            ("Stop at the first rejection: np.cumprod(accepted).sum(), or break.", "遇到第一个拒绝就停：np.cumprod(accepted).sum()，或用 break。"),
        )),
        Mistake("n_accepted_off_by_one", (changed(report=one_more), changed(report=counted_from_one), changed(report=one_less)), say(
            ("The number of accepted drafts is off by one.", "接受的个数差了一。"),
            ("the right residual with a count off by one", "残差正确、个数差一的结果"),
            ("If the very first draft is rejected, how many were accepted?", "第一个就被拒绝时，接受了几个？"),
            ("Look at where the count is raised or returned.", "看个数在哪里加一、在哪里返回。"),
            ("Count accepted drafts only: the token drawn afterwards is not one of them.", "只数被接受的草稿：之后采样的词元不算。"),
        )),
        Mistake("ratio_inverted", (changed(divide=upside_down),), say(
            ("The ratio is q / p: the wrong way round.", "比值成了 q / p，上下颠倒了。"),
            ("acceptance by q / p", "按 q / p 接受"),
            ("A token that the target finds likelier than the draft: should it ever be rejected?", "目标模型认为更可能的词元，应该被拒绝吗？"),
            ("Look at the division.", "看除法。"),
            ("Target by draft: p / q.", "目标除以草稿：p / q。"),
        )),
        Mistake("accept_no_ratio", (changed(divide=no_quotient),), say(
            ("u is compared with p alone, not with p / q.", "u 与 p 比较，而不是与 p / q 比较。"),
            ("acceptance with probability p", "按概率 p 接受"),
            ("If draft and target agree (p = q), how often should a draft be accepted?", "草稿与目标一致（p = q）时，应该多常接受？"),
            ("Look at what u is compared with.", "看 u 与什么比较。"),
            ("u < p / q.", "u < p / q。"),
        )),
        Mistake("accept_inverted", (changed(compare=above),), say(
            ("A draft is accepted where it should be rejected: the comparison is turned round.", "该拒绝时接受、该接受时拒绝：比较的方向反了。"),
            ("acceptance where u > p / q", "在 u > p / q 时接受"),
            ("With p / q = 0.9, how often should a draft be accepted?", "p / q = 0.9 时，接受的机会应该有多大？"),
            ("Look at < and >.", "看 < 与 >。"),
            ("Accept if u < p / q.", "u < p / q 时接受。"),
        )),
        Mistake("u_ignored", (changed(divide=quotient, compare=at_least_as_likely), changed(compare=is_likeliest)), say(
            ("Chance is left out: a draft is accepted by a fixed rule, whatever u is.", "没有用随机数：无论 u 是多少，都按固定规则接受。"),
            ("acceptance by a fixed rule, without u", "不看 u、按固定规则接受"),
            ("Does your answer change with u?", "u 变了，你的结果会变吗？"),
            ("Look at the condition for accepting.", "看接受的条件。"),
            ("u < p / q.", "u < p / q。"),
        )),
        Mistake("mutates_input", (in_place,)),
    ),
    solution=(
        Line("def speculative_accept(p, q, tokens, u):\n    for i, token in enumerate(tokens):",
             "One draft after the other.", "逐个检查草稿词元。"),
        Line("        if u[i] >= p[i, token] / q[i, token]:",
             "Accepted with probability min(1, p / q): so often that what comes out is distributed like p.",
             "以概率 min(1, p / q) 接受：这样得到的词元恰好服从 p。"),
        Line("            residual = np.maximum(p[i] - q[i], 0)\n            return i, residual / residual.sum()",
             "What the draft proposes too rarely makes up for the rest. What was drafted behind is worthless now.",
             "草稿提得太少的部分，正好补上差额。后面的草稿都作废。"),
        Line("    return len(tokens), p[-1]", "Nothing was rejected: the target's next row comes for free.",
             "没有拒绝：目标模型的下一行白得。"),
    ),
    styles={
        "vectors": '''
import numpy as np


def speculative_accept(p, q, tokens, u):
    t = len(tokens)
    ratio = np.take_along_axis(p[:t], tokens[:, None], 1) / np.take_along_axis(q, tokens[:, None], 1)
    rejected = np.flatnonzero(u >= np.minimum(1.0, ratio[:, 0]))
    n = rejected[0] if rejected.size else t
    padded = np.vstack([q, np.zeros_like(p[:1])])
    residual = (p[n] - padded[n]).clip(min=0)
    return n, residual / residual.sum()
''',
        "counting": '''
import numpy as np


def speculative_accept(p, q, tokens, u):
    n = 0
    while n < len(tokens) and u[n] * q[n][tokens[n]] < p[n][tokens[n]]:
        n += 1
    if n == len(tokens):
        return n, p[n]
    left = [max(a - b, 0.0) for a, b in zip(p[n], q[n])]
    return n, np.array(left) / sum(left)
''',
        "minimum_instead_of_maximum": '''
import numpy as np


def speculative_accept(p, q, tokens, u):
    i = np.arange(tokens.size)
    accepted = np.log(u) < np.log(p[i, tokens]) - np.log(q[i, tokens])
    n = int(np.logical_and.accumulate(accepted).sum())
    if n == tokens.size:
        return n, p[n].copy()
    overlap = np.minimum(p[n], q[n])
    return n, (p[n] - overlap) / (1 - overlap.sum())
''',
        "chinese_names": '''
import numpy as np


class 投机解码:
    def __init__(self, 目标, 草稿):
        self.目标, self.草稿 = 目标, 草稿

    def 接受(self, 位置, 词元, 随机数):
        return 随机数 < min(1.0, self.目标[位置, 词元] / self.草稿[位置, 词元])

    def 残差(self, 位置):
        if 位置 == len(self.草稿):
            return self.目标[位置]
        差 = np.where(self.目标[位置] > self.草稿[位置], self.目标[位置] - self.草稿[位置], 0)
        return 差 / np.sum(差)


def speculative_accept(p, q, tokens, u):
    解码 = 投机解码(p, q)
    个数 = 0
    for 位置, (词元, 随机数) in enumerate(zip(tokens, u)):
        if not 解码.接受(位置, 词元, 随机数):
            break
        个数 += 1
    return 个数, 解码.残差(个数)
''',
    },
)  # fmt: skip
