"""ALiBi: each head's penalty grows linearly with how far back a key lies."""

from __future__ import annotations

from functools import partial

import numpy as np

from ... import ops
from ..mistakes import say
from ..task import Function, Line, Mistake, Probe, Task, Text, formula
from ..wire import Array


def powers(n: int) -> Array:
    return 2.0 ** (-8 * np.arange(1, n + 1) / n)


def power_below(n_heads: int) -> int:
    return 1 << (n_heads.bit_length() - 1)


def of_the_paper(n_heads: int) -> Array:
    below = power_below(n_heads)
    return np.concatenate([powers(below), powers(2 * below)[::2][: n_heads - below]])


def times_distance(slopes: Array, distance: Array) -> Array:
    return -slopes * distance


def zero_above(penalty: Array, distance: Array) -> Array:
    return np.where(distance >= 0, penalty, 0.0)


@formula
def bias(
    n_heads: int,
    n: int,
    *,
    slope: Function = of_the_paper,
    penalise: Function = times_distance,
    above: Function = zero_above,
) -> Array:
    slopes = slope(n_heads)
    i_minus_j = np.arange(n)[:, None] - np.arange(n)
    penalty = penalise(slopes[:, None, None], i_minus_j)
    out = above(penalty, i_minus_j)
    return out


# the steps as they go wrong


def from_power_zero(n_heads: int) -> Array:
    return of_the_paper(n_heads) * 2.0 ** (8 / power_below(n_heads))


def first_slope_one(n_heads: int) -> Array:
    return 2.0 ** (-8 * np.arange(n_heads) / n_heads)


def any_number_alike(n_heads: int) -> Array:
    return powers(n_heads)


def of_the_power_above(n_heads: int) -> Array:
    return powers(1 << (n_heads - 1).bit_length())[:n_heads]


def in_order_of_size(n_heads: int) -> Array:
    return np.sort(of_the_paper(n_heads))[::-1]


def next_slopes_in_a_row(n_heads: int) -> Array:
    below = power_below(n_heads)
    return np.concatenate([powers(below), powers(2 * below)[: n_heads - below]])


def next_slopes_from_second(n_heads: int) -> Array:
    below = power_below(n_heads)
    return np.concatenate([powers(below), powers(2 * below)[1::2][: n_heads - below]])


def halved_each_time(n_heads: int) -> Array:
    return 2.0 ** -np.arange(1, n_heads + 1)


def one_over_head(n_heads: int) -> Array:
    return 1 / np.arange(1, n_heads + 1)


def one_for_all(n_heads: int) -> Array:
    return np.full(n_heads, of_the_paper(n_heads)[0])


def largest_last(n_heads: int) -> Array:
    return of_the_paper(n_heads)[::-1]


def with_plus(slopes: Array, distance: Array) -> Array:
    return slopes * distance


def distance_plus_one(slopes: Array, distance: Array) -> Array:
    return -slopes * (distance + 1)


def distance_minus_one(slopes: Array, distance: Array) -> Array:
    return -slopes * np.maximum(distance - 1, 0)


def by_square(slopes: Array, distance: Array) -> Array:
    return -slopes * distance**2


def without_slope(slopes: Array, distance: Array) -> Array:
    return -distance + 0 * slopes


def symmetric(slopes: Array, distance: Array) -> Array:
    return -slopes * np.abs(distance)


def as_it_is(penalty: Array, distance: Array) -> Array:
    return penalty


def masked(penalty: Array, distance: Array) -> Array:
    return np.where(distance >= 0, penalty, -np.inf)


def masked_by_a_number(penalty: Array, distance: Array) -> Array:
    return np.where(distance >= 0, penalty, -1e9)


def zero_below(penalty: Array, distance: Array) -> Array:
    return np.where(distance <= 0, -penalty, 0.0)


def by_key_alone(n_heads: int, n: int) -> Array:
    return np.broadcast_to(of_the_paper(n_heads)[:, None, None] * np.arange(n), (n_heads, n, n))


def by_key_alone_below(n_heads: int, n: int) -> Array:
    return np.tril(by_key_alone(n_heads, n))


def heads_last(n_heads: int, n: int) -> Array:
    return np.moveaxis(bias(n_heads, n), 0, -1)


def one_row(n_heads: int, n: int) -> Array:
    return by_key_alone(n_heads, n)[:, :1]


def reference(n_heads: int, n: int) -> Array:
    return ops.biases.alibi(n_heads)(np.arange(n), np.arange(n))


TASK = Task(
    name="alibi_bias",
    signature="alibi_bias(n_heads, n)",
    returns=Text("bias (n_heads, n, n)", "bias (n_heads, n, n)"),
    title=Text("ALiBi: a bias by distance", "ALiBi：按距离的偏置"),
    statement=Text(
        "What is added to the scores of head h, query i, key j: -slope_h * (i - j) for j <= i, and 0 for j > i.\n"
        "For 2^p heads the slopes are 2^(-8 * 1/n_heads), 2^(-8 * 2/n_heads), ..., 2^-8. For other numbers of heads: those of\n"
        "the next smaller power of two, then the 1st, 3rd, 5th, ... slope of the next larger power of two, until there are enough.",
        "加到第 h 个头、查询 i、键 j 的分数上的数：j <= i 时为 -slope_h * (i - j)，j > i 时为 0。\n"
        "头数为 2 的幂时，各头的斜率为 2^(-8 * 1/n_heads)、2^(-8 * 2/n_heads)、……、2^-8。\n"
        "头数不是 2 的幂时：先取比它小的最近的 2 的幂的全部斜率，再依次取比它大的最近的 2 的幂的第 1、3、5……个斜率，直到够数。",
    ),
    reference=reference,
    formula=bias,
    probes=(
        Probe("example", {"n_heads": 2, "n": 3}, Text("two heads, three tokens", "两个头、三个词元")),
        Probe("six_heads", {"n_heads": 6, "n": 4}, Text("six heads: no power of two", "六个头：不是 2 的幂")),
    ),
    mistakes=(
        Mistake("alibi_slope", tuple(partial(bias, slope=s) for s in (
            from_power_zero, first_slope_one, any_number_alike, of_the_power_above, in_order_of_size, next_slopes_in_a_row,
            next_slopes_from_second, halved_each_time, one_over_head, one_for_all, largest_last,
        )), say(
            ("The slopes of the heads are not those of the paper.", "各头的斜率与论文不同。"),
            ("ALiBi with other slopes", "斜率不同的 ALiBi"),
            ("What are the slopes of 2 heads? And of 6?", "2 个头的斜率是多少？6 个头呢？"),
            ("Look at the exponent of 2: does it begin at -8/n_heads? And what if n_heads is no power of two?",
             "看 2 的指数：是从 -8/n_heads 开始的吗？头数不是 2 的幂时怎么办？"),
            ("2.0 ** (-8 * np.arange(1, n + 1) / n) for a power of two n; 6 heads take all 4 slopes of n = 4, "
             "then the 1st and 3rd of n = 8.",
             "n 为 2 的幂时：2.0 ** (-8 * np.arange(1, n + 1) / n)；6 个头取 n = 4 的全部 4 个斜率，再取 n = 8 的第 1、3 个。"),
        )),
        Mistake("alibi_sign", (partial(bias, penalise=with_plus),), say(
            ("The sign is turned round: far keys are rewarded, not penalised.", "符号反了：远处的键受到奖励，而不是惩罚。"),
            ("ALiBi with a plus sign", "符号为正的 ALiBi"),
            ("Should a key far back get a higher score or a lower one?", "很久以前的键，分数应更高还是更低？"),
            ("Look at the sign, and at i - j or j - i.", "看正负号，以及 i - j 还是 j - i。"),
            ("-slope * (i - j): 0 for itself, ever lower further back.", "-slope * (i - j)：对自己为 0，越往前越低。"),
        )),
        Mistake("alibi_above_diagonal", (partial(bias, penalise=symmetric, above=as_it_is), partial(bias, above=as_it_is)), say(
            ("Keys behind the query get a number too; they should get 0.", "查询之后的键也得到了数值；那里应为 0。"),
            ("ALiBi with numbers above the diagonal", "对角线上方也有数值的 ALiBi"),
            ("What should stand where j > i?", "j > i 处应是什么？"),
            ("Look above the diagonal: is there a rule for it?", "看对角线上方：有没有处理？"),
            ("np.where(j <= i, -slope * (i - j), 0), or np.tril.", "np.where(j <= i, -slope * (i - j), 0)，或者 np.tril。"),
        )),
        Mistake("alibi_masks_future", (partial(bias, above=masked), partial(bias, above=masked_by_a_number)), say(
            ("The future is masked as well; here it should be 0, the mask is another step.", "把未来也遮住了；这里应为 0，掩码是另外一步。"),
            ("ALiBi with a causal mask inside", "带因果掩码的 ALiBi"),
            ("Is hiding the future the task of this function?", "遮住未来是这个函数的任务吗？"),
            ("Look at what you put where j > i.", "看 j > i 处填了什么。"),
            ("Put 0 there.", "那里填 0。"),
        )),
        Mistake("alibi_transposed", (partial(bias, above=zero_below),), say(
            ("Rows and columns are swapped: i is the query (row), j the key (column).", "行与列对调了：i 是查询（行），j 是键（列）。"),
            ("ALiBi with rows and columns swapped", "行列对调的 ALiBi"),
            ("The first token has nothing before it: which row is all 0?", "第一个词元前面什么都没有：哪一行全是 0？"),
            ("Look at [:, None] and [None, :].", "看 [:, None] 与 [None, :]。"),
            ("i = np.arange(n)[:, None]; j = np.arange(n).", "i = np.arange(n)[:, None]；j = np.arange(n)。"),
        )),
        Mistake("alibi_distance", tuple(
            partial(bias, penalise=p) for p in (distance_plus_one, distance_minus_one, by_square, without_slope)
        ), say(
            ("The penalty is not slope times i - j.", "惩罚不是斜率乘以 i - j。"),
            ("ALiBi with another distance or without the slope", "距离不对、或没有乘斜率的 ALiBi"),
            ("What is the penalty for a token itself? For the one before? For the one before that?",
             "对自己的惩罚是多少？对前一个呢？再前一个呢？"),
            ("Look at what the slope is multiplied by.", "看斜率乘的是什么。"),
            ("The distance i - j: 0, 1, 2, ...", "距离 i - j：0、1、2……"),
        )),
        Mistake("alibi_by_key", (by_key_alone, by_key_alone_below), say(
            ("The bias depends on the key alone (slope * j). Under a softmax each row comes out the same, but it is not this table.",
             "偏置只与键有关（slope * j）。经过 softmax 后每行结果相同，但不是题目要的表。"),
            ("slope * j, the same for every query", "对每个查询都相同的 slope * j"),
            ("What does your bias give a token for itself? It should be 0.", "你的偏置对词元自己是多少？应为 0。"),
            ("Look for i: does the position of the query take part?", "找 i：查询的位置参与了吗？"),
            ("-slope * (i - j).", "-slope * (i - j)。"),
        )),
        Mistake("wrong_shape", (heads_last, one_row)),
    ),
    solution=(
        Line("def powers(n):\n    return 2.0 ** (-8 * np.arange(1, n + 1) / n)\n\n",
             "The slopes for a power of two: a geometric series that ends at 2^-8.", "2 的幂时的斜率：到 2^-8 为止的等比数列。"),
        Line("def alibi_bias(n_heads, n):\n    below = 1 << (n_heads.bit_length() - 1)",
             "The power of two that is not larger than n_heads.", "不大于 n_heads 的最大的 2 的幂。"),
        Line("    slopes = np.concatenate([powers(below), powers(2 * below)[::2][: n_heads - below]])",
             "Its slopes, and every other one of the next power for the heads that are left.",
             "先取它的斜率，余下的头隔一个取下一个 2 的幂的斜率。"),
        Line("    distance = np.tril(np.arange(n)[:, None] - np.arange(n))",
             "i - j, and 0 above the diagonal.", "i - j，对角线上方为 0。"),
        Line("    return -slopes[:, None, None] * distance", "One table for each head: (n_heads, n, n).",
             "每个头一张表：(n_heads, n, n)。"),
    ),
    styles={
        "loops": '''
import math

import numpy as np


def slopes_of(heads):
    if math.log2(heads).is_integer():
        first = 2 ** (-(2 ** -(math.log2(heads) - 3)))
        return [first * first**k for k in range(heads)]
    below = 2 ** math.floor(math.log2(heads))
    return slopes_of(below) + slopes_of(2 * below)[0::2][: heads - below]


def alibi_bias(n_heads, n):
    out = np.zeros((n_heads, n, n))
    for h, slope in enumerate(slopes_of(n_heads)):
        for i in range(n):
            for j in range(i):
                out[h, i, j] = -slope * (i - j)
    return out
''',
        "reordered": '''
import numpy as np


def alibi_bias(n_heads, n):
    above = 2 ** int(np.ceil(np.log2(n_heads)))
    m = 1 / 2 ** (np.arange(1, above + 1) * 8 / above)
    if above != n_heads:
        m = np.concatenate([m[1::2], m[::2]])[:n_heads]
    i, j = np.indices((n, n))
    return np.einsum("h,ij->hij", m, np.minimum(j - i, 0))
''',
        "class": '''
import numpy as np


class ALiBi:
    def __init__(self, n_heads):
        p = 1
        while p * 2 <= n_heads:
            p *= 2
        start = 2 ** (-8 / p)
        extra = 2 ** (-4 / p)
        self.slopes = [start ** (k + 1) for k in range(p)] + [extra ** (2 * k + 1) for k in range(n_heads - p)]

    def bias(self, n):
        pos = np.arange(n)
        far = np.clip(pos[:, None] - pos[None, :], 0, None)
        return np.stack([-s * far for s in self.slopes])


def alibi_bias(n_heads, n):
    return ALiBi(n_heads).bias(n)
''',
        "chinese_names": '''
import numpy as np


def alibi_bias(头数, n):
    小 = 2 ** int(np.log2(头数))
    斜率 = [2.0 ** (-8 * k / 小) for k in range(1, 小 + 1)]
    斜率 += [2.0 ** (-4 * k / 小) for k in range(1, 2 * 小 + 1, 2)][: 头数 - 小]
    行, 列 = np.ogrid[:n, :n]
    return np.where(列 > 行, 0, np.array(斜率).reshape(-1, 1, 1) * (列 - 行))
''',
    },
)  # fmt: skip
