"""GELU, exact: x times the chance that a standard normal variable lies below x."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from ... import ops
from ..mistakes import say
from ..task import Function, Line, Mistake, Probe, Task, Text, formula
from ..wire import Array


def erf(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x))


def by_root_of_two(x: Array) -> Array:
    return x / np.sqrt(2)


def by_erf(inside: Array) -> Array:
    return (1 + erf(inside)) / 2


def times(x: Array, below: Array) -> Array:
    return x * below


def as_it_is(out: Array, x: Array) -> Array:
    return out


@formula
def normal(
    x: Array,
    *,
    shrink: Function = by_root_of_two,
    chance: Function = by_erf,
    weigh: Function = times,
    finish: Function = as_it_is,
) -> Array:
    with np.errstate(all="ignore"):
        inside = shrink(x)
        below = chance(inside)
        out = finish(weigh(x, below), x)
    return out


# the steps as they go wrong


def as_x(x: Array) -> Array:
    return x


def by_two(x: Array) -> Array:
    return x / 2


def times_root_of_two(x: Array) -> Array:
    return x * np.sqrt(2)


def by_tanh(inside: Array, *, factor: float = np.sqrt(2 / np.pi)) -> Array:
    x = times_root_of_two(inside)
    return (1 + np.tanh(factor * (x + 0.044715 * x**3))) / 2


def by_sigmoid(inside: Array, *, steepness: float) -> Array:
    return 1 / (1 + np.exp(-steepness * times_root_of_two(inside)))


def by_step(inside: Array) -> Array:
    return np.where(inside > 0, 1.0, 0.0)


def not_halved(inside: Array) -> Array:
    return 1 + erf(inside)


def without_one(inside: Array) -> Array:
    return erf(inside) / 2


def by_upper_tail(inside: Array) -> Array:
    return (1 - erf(inside)) / 2


def by_density(inside: Array) -> Array:
    return np.exp(-inside * inside) / np.sqrt(2 * np.pi)


def only_chance(x: Array, below: Array) -> Array:
    return below


def in_dtype_of_input(out: Array, x: Array) -> Array:
    return out.astype(x.dtype)


def flattened(out: Array, x: Array) -> Array:
    return out.ravel()


def in_place(x: Array) -> Array:
    x *= by_erf(by_root_of_two(x))
    return x


TASK = Task(
    name="gelu",
    signature="gelu(x)",
    returns=Text("the shape of x", "形状与 x 相同"),
    title=Text("GELU, exact", "GELU（精确式）"),
    statement=Text(
        "x * Phi(x), where Phi(x) = (1 + erf(x / sqrt(2))) / 2 is the chance that a standard normal variable lies below x.\n"
        "Number by number, for an array of any shape. The exact form, not the tanh approximation.\n"
        "NumPy has no erf; Python's math.erf takes one number at a time.",
        "x * Phi(x)，其中 Phi(x) = (1 + erf(x / sqrt(2))) / 2，即标准正态变量小于 x 的概率。\n"
        "逐个数计算，数组可以是任意形状。要精确式，不要 tanh 近似。\n"
        "NumPy 没有 erf；Python 的 math.erf 一次算一个数。",
    ),
    reference=ops.gelu,
    formula=normal,
    # No number between -12 and -1: there an erf good to 1e-7, as many write it by hand, leaves too few digits.
    probes=(
        Probe("example", {"x": np.array([-1.0, 0.0, 2.7])}, Text("three numbers", "三个数")),
        Probe("matrix", {"x": np.array([[-12, 3, 1], [12, -1, 2]])}, Text("a matrix of whole numbers", "整数矩阵")),
    ),
    mistakes=(
        Mistake("gelu_tanh", (partial(normal, shrink=by_root_of_two, chance=by_tanh),)),
        Mistake("gelu_tanh_constant", tuple(
            partial(normal, shrink=by_root_of_two, chance=partial(by_tanh, factor=f)) for f in (1.0, 2 / np.pi, np.sqrt(2 * np.pi), 0.5**0.5)
        ), say(
            ("GELU is the tanh approximation, and its factor is not √(2/π).", "GELU 用的是 tanh 近似，而且系数不是 √(2/π)。"),
            ("the tanh approximation of GELU with a wrong factor", "系数有误的 tanh 近似 GELU"),
            ("Which form is asked for: tanh or erf?", "题目要的是哪种形式：tanh 还是 erf？"),
            ("Look at the factor in front of x + 0.044715 x³.", "看 x + 0.044715 x³ 前面的系数。"),
            ("The exact form needs none: x / 2 * (1 + erf(x / √2)).", "精确式不需要它：x / 2 * (1 + erf(x / √2))。"),
        )),
        Mistake("gelu_sigmoid", tuple(
            partial(normal, shrink=by_root_of_two, chance=partial(by_sigmoid, steepness=s)) for s in (1.702, 1.0)
        )),
        Mistake("gelu_relu", (partial(normal, shrink=by_root_of_two, chance=by_step),), say(
            ("This is ReLU: negative numbers are cut off.", "这是 ReLU：负数被直接截掉。"),
            ("max(x, 0)", "max(x, 0)"),
            ("What is GELU of -1? It is not 0.", "GELU(-1) 是多少？不是 0。"),
            ("Look for maximum or x > 0.", "找 maximum 或 x > 0。"),
            ("x / 2 * (1 + erf(x / √2)).", "x / 2 * (1 + erf(x / √2))。"),
        )),
        Mistake("gelu_no_root", tuple(partial(normal, shrink=s) for s in (as_x, by_two, times_root_of_two)), say(
            ("x is not divided by √2 before erf.", "erf 之前没有除以 √2。"),
            ("GELU with another argument than x / √2 in erf", "erf 里不是 x / √2 的 GELU"),
            ("erf belongs to exp(-t²), the normal distribution to exp(-x²/2): what is t?",
             "erf 对应 exp(-t²)，正态分布对应 exp(-x²/2)：t 是多少？"),
            ("Look at what goes into erf.", "看传入 erf 的是什么。"),
            ("erf(x / math.sqrt(2)).", "erf(x / math.sqrt(2))。"),
        )),
        Mistake("gelu_wrong_chance", tuple(partial(normal, chance=c) for c in (not_halved, without_one, by_upper_tail)), say(
            ("erf is not turned into a chance between 0 and 1 the right way.", "没有正确地把 erf 换算成 0 到 1 之间的概率。"),
            ("GELU with something else in place of (1 + erf) / 2", "没有用 (1 + erf) / 2 的 GELU"),
            ("erf runs from -1 to 1: how does that become 0 to 1?", "erf 的取值从 -1 到 1：怎样变成从 0 到 1？"),
            ("Look at the 1 and the 2 around erf, and at the sign.", "看 erf 旁边的 1 和 2，以及正负号。"),
            ("(1 + erf(x / √2)) / 2.", "(1 + erf(x / √2)) / 2。"),
        )),
        Mistake("gelu_density", (partial(normal, chance=by_density),), say(
            ("x is multiplied by the density of the normal distribution, not by the chance below x.",
             "x 乘的是正态分布的密度，而不是小于 x 的概率。"),
            ("x times the normal density", "x 乘以正态密度的结果"),
            ("What should GELU of 100 be?", "GELU(100) 应是多少？"),
            ("Look for exp(-x² / 2).", "找 exp(-x² / 2)。"),
            ("Use the sum under the density: (1 + erf(x / √2)) / 2.", "用密度的累积：(1 + erf(x / √2)) / 2。"),
        )),
        Mistake("gelu_no_x", (partial(normal, weigh=only_chance),), say(
            ("The chance is returned, not x times it.", "返回了概率本身，没有乘 x。"),
            ("Phi(x) without the factor x", "没有乘 x 的 Phi(x)"),
            ("What should GELU of 0 be? What do you get?", "GELU(0) 应是多少？你得到多少？"),
            ("Look at the last line.", "看最后一行。"),
            ("Multiply by x: x * (1 + erf(x / √2)) / 2.", "乘上 x：x * (1 + erf(x / √2)) / 2。"),
        )),
        Mistake("integer_result", (partial(normal, finish=in_dtype_of_input),)),
        Mistake("mutates_input", (in_place,)),
        Mistake("wrong_shape", (partial(normal, finish=flattened),)),
    ),
    solution=(
        Line("import math\n\nerf = np.vectorize(math.erf)\n\n", "NumPy has no erf: apply Python's to each number.",
             "NumPy 没有 erf：把 Python 的 erf 用到每个数上。"),
        Line("def gelu(x):\n    return x * (1 + erf(x / np.sqrt(2))) / 2",
             "x is let through in proportion to how many normal numbers lie below it.",
             "x 按“有多大比例的正态随机数比它小”来放行。"),
    ),
    styles={
        "loops": '''
import math

import numpy as np


def gelu(x):
    out = np.zeros(x.shape)
    for where in np.ndindex(*x.shape):
        out[where] = 0.5 * x[where] * (1 + math.erf(x[where] / math.sqrt(2)))
    return out
''',
        "complement": '''
import math

import numpy as np


def gelu(x):
    tail = [math.erfc(-v / 2**0.5) for v in x.ravel()]
    return x * np.array(tail).reshape(x.shape) / 2
''',
        "erf_by_hand": '''
import numpy as np


def erf(x):
    t = 1 / (1 + 0.3275911 * np.abs(x))
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.sign(x) * (1 - poly * np.exp(-x * x))


def gelu(x):
    return 0.5 * x * (1.0 + erf(x / np.sqrt(2.0)))
''',
        "normal_distribution": '''
from statistics import NormalDist

import numpy as np


def gelu(输入):
    小于的概率 = np.vectorize(NormalDist().cdf, otypes=[float])(输入)
    return 输入 * 小于的概率
''',
    },
)  # fmt: skip
