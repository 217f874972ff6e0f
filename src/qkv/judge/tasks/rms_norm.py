"""RMS norm: each token is brought to root mean square 1."""

from __future__ import annotations

from functools import partial

import numpy as np

from ... import ops
from ..mistakes import say
from ..probes import drawn
from ..task import Function, Line, Mistake, Probe, Task, Text, formula
from ..wire import Array


def as_it_is(x: Array) -> Array:
    return x


def of_squares(x: Array) -> Array:
    return (x * x).mean(axis=-1, keepdims=True)


def by_root(x: Array, mean_square: Array, eps: float) -> Array:
    return x / np.sqrt(mean_square + eps)


def stretched(normed: Array, gamma: Array) -> Array:
    return gamma * normed


def unchanged(out: Array, x: Array) -> Array:
    return out


@formula
def norm(
    x: Array,
    gamma: Array,
    eps: float = 1e-6,
    *,
    numerator: Function = as_it_is,
    average: Function = of_squares,
    divide: Function = by_root,
    affine: Function = stretched,
    finish: Function = unchanged,
) -> Array:
    with np.errstate(all="ignore"):
        mean_square = average(x)
        normed = divide(numerator(x), mean_square, eps)
        out = finish(affine(normed, gamma), x)
    return out


# the steps as they go wrong


def centred(x: Array) -> Array:
    return x - x.mean(axis=-1, keepdims=True)


def variance(x: Array) -> Array:
    return x.var(axis=-1, keepdims=True)


def unbiased_variance(x: Array) -> Array:
    return x.var(axis=-1, ddof=1, keepdims=True)


def squares_along(x: Array, *, axis: int | tuple[int, ...] | None) -> Array:
    return (x * x).mean(axis=axis, keepdims=True)


def flat_squares(x: Array) -> Array:
    return (x * x).mean(axis=-1)


def sum_of_squares(x: Array) -> Array:
    return (x * x).sum(axis=-1, keepdims=True)


def mean_not_squared(x: Array) -> Array:
    return np.abs(x).mean(axis=-1, keepdims=True) ** 2


def square_of_mean(x: Array) -> Array:
    return x.mean(axis=-1, keepdims=True) ** 2


def eps_outside(x: Array, mean_square: Array, eps: float) -> Array:
    return x / (np.sqrt(mean_square) + eps)


def no_eps(x: Array, mean_square: Array, eps: float) -> Array:
    return x / np.sqrt(mean_square)


def fixed_eps(x: Array, mean_square: Array, eps: float, *, fixed: float) -> Array:
    return x / np.sqrt(mean_square + fixed)


def no_root(x: Array, mean_square: Array, eps: float) -> Array:
    return x / (mean_square + eps)


def times_root(x: Array, mean_square: Array, eps: float) -> Array:
    return x * np.sqrt(mean_square + eps)


def not_stretched(normed: Array, gamma: Array) -> Array:
    return normed


def one_plus_gamma(normed: Array, gamma: Array) -> Array:
    return (1 + gamma) * normed


def in_dtype_of_input(out: Array, x: Array) -> Array:
    return out.astype(x.dtype)


def normed_in_dtype_of_input(x: Array, mean_square: Array, eps: float) -> Array:
    return by_root(x, mean_square, eps).astype(x.dtype)


def in_place(x: Array, gamma: Array, eps: float = 1e-6) -> Array:
    x /= np.sqrt(of_squares(x) + eps)
    return gamma * x


TASK = Task(
    name="rms_norm",
    signature="rms_norm(x, gamma, eps=1e-6)",
    returns=Text("the shape of x", "形状与 x 相同"),
    title=Text("RMS norm", "均方根归一化（RMSNorm）"),
    statement=Text(
        "x (..., d), gamma (d,). For each token (the last axis) by itself: gamma * x / sqrt(mean(x^2) + eps).\n"
        "No mean is subtracted.",
        "x (..., d)，gamma (d,)。对每个词元（最后一维）单独计算：gamma * x / sqrt(mean(x^2) + eps)。\n不减均值。",
    ),
    reference=ops.rms_norm,
    formula=norm,
    probes=(
        Probe("example", {"x": np.array([[3.0, 4.0, -1.0], [1.0, 0.0, 2.0]]), "gamma": np.array([1.0, 2.0, 0.5])},
              Text("two tokens, three features", "两个词元、三个特征")),
        Probe("small", {"x": drawn(21, 2, 3, 4) * 1e-3, "gamma": drawn(22, 4)},
              Text("a batch of very small numbers: eps matters", "一批很小的数：eps 起作用")),
        Probe("zeros", {"x": np.array([[0.0, 0.0, 0.0], [3.0, 1.0, 0.5], [-1.0, 4.0, 2.0]]),
                        "gamma": np.array([2.0, -1.0, 0.5]), "eps": 0.01},
              Text("square, one token all zeros, another eps", "词元数与特征数相同，有一个词元全是 0，并传入另一个 eps")),
        Probe("integers", {"x": np.array([[1, 2, 4], [7, 0, 3]]), "gamma": np.array([1.5, 2.0, 0.5])},
              Text("integer input", "输入是整数")),
    ),
    mistakes=(
        Mistake("norm_eps_outside_root", (partial(norm, divide=eps_outside),)),
        Mistake("norm_no_eps", (partial(norm, divide=no_eps),)),
        Mistake("norm_eps_hard_coded",
                tuple(partial(norm, divide=partial(fixed_eps, fixed=e)) for e in (1e-6, 1e-5, 1e-8, 1e-12))),
        Mistake("norm_no_root", (partial(norm, divide=no_root),)),
        Mistake("norm_multiplied", (partial(norm, divide=times_root),), say(
            ("x is multiplied by its root mean square instead of divided by it.", "x 乘了均方根，而不是除以它。"),
            ("x times its root mean square", "x 乘以均方根的结果"),
            ("Should large tokens become larger?", "数值大的词元应该变得更大吗？"),
            ("Look at the sign between x and the root.", "看 x 与根号之间的运算符号。"),
            ("Divide: x / np.sqrt(...), or multiply by (...) ** -0.5.", "用除法：x / np.sqrt(...)，或者乘 (...) ** -0.5。"),
        )),
        Mistake("norm_wrong_axis",
                tuple(partial(norm, average=partial(squares_along, axis=a)) for a in (0, 1, -2, (-2, -1), None))),
        Mistake("norm_no_keepdims", (partial(norm, average=flat_squares),)),
        Mistake("norm_no_affine", (partial(norm, affine=not_stretched),)),
        Mistake("norm_affine_wrong", (partial(norm, affine=one_plus_gamma),), say(
            ("x is stretched by 1 + gamma, not by gamma (Gemma does that, this task does not).",
             "乘的是 1 + gamma，而不是 gamma（Gemma 这样做，本题不是）。"),
            ("an RMS norm stretched by 1 + gamma", "乘以 1 + gamma 的 RMSNorm"),
            ("What should come out for gamma = 0?", "gamma = 0 时结果应是什么？"),
            ("Look at what the normalised x is multiplied by.", "看归一化之后的 x 乘的是什么。"),
            ("gamma * x / np.sqrt(...), without 1 +.", "gamma * x / np.sqrt(...)，不要 1 +。"),
        )),
        Mistake("norm_subtracts_mean", (
            partial(norm, numerator=centred, average=variance), partial(norm, average=variance),
            partial(norm, numerator=centred), partial(norm, average=unbiased_variance),
        ), say(
            ("The mean is subtracted, as in layer norm.", "减去了均值，那是层归一化的做法。"),
            ("a norm that subtracts the mean", "减去均值的归一化"),
            ("What makes RMS norm cheaper than layer norm?", "RMSNorm 比层归一化省掉了哪一步？"),
            ("Look for mean, var and std: var and std subtract the mean too.", "找 mean、var、std：var 和 std 也会减均值。"),
            ("Use x itself: x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps).",
             "直接用 x：x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)。"),
        )),
        Mistake("norm_sum_not_mean", (partial(norm, average=sum_of_squares),), say(
            ("The squares are summed, not averaged: x gets length 1, not root mean square 1.",
             "平方后求了和，而不是平均：x 的长度变成 1，而不是均方根变成 1。"),
            ("x divided by its length", "x 除以自身长度的结果"),
            ("What is the mean of the squares after your division?", "除完之后，平方的平均是多少？"),
            ("Look at sum, or at np.linalg.norm.", "看 sum，或者 np.linalg.norm。"),
            ("Take the mean: (x * x).mean(axis=-1, keepdims=True).", "取平均：(x * x).mean(axis=-1, keepdims=True)。"),
        )),
        Mistake("norm_mean_before_square", tuple(partial(norm, average=a) for a in (square_of_mean, mean_not_squared)), say(
            ("The mean is taken before squaring, not after.", "先求了平均再平方，而不是先平方。"),
            ("a norm by the square of a mean", "用平均的平方来归一化的结果"),
            ("For x = (1, -1): what is the mean of the squares, and what the square of the mean?",
             "x = (1, -1) 时，平方的平均是多少？平均的平方又是多少？"),
            ("Look at the order of ** 2 and mean.", "看 ** 2 与 mean 的先后。"),
            ("Square first: (x**2).mean(axis=-1, keepdims=True).", "先平方：(x**2).mean(axis=-1, keepdims=True)。"),
        )),
        Mistake("integer_result", (partial(norm, finish=in_dtype_of_input), partial(norm, divide=normed_in_dtype_of_input))),
        Mistake("mutates_input", (in_place,)),
    ),
    solution=(
        Line("def rms_norm(x, gamma, eps=1e-6):\n    mean_square = (x**2).mean(axis=-1, keepdims=True)",
             "How large each token is, on average; no mean is subtracted.", "每个词元平均有多大；不减均值。"),
        Line("    return gamma * x / np.sqrt(mean_square + eps)",
             "Every token gets the same size, then the learnt stretch; eps keeps the root above 0.",
             "每个词元变成同样大小，再做学到的伸缩；eps 使根号大于 0。"),
    ),
    styles={
        "loops": '''
import numpy as np


def rms_norm(x, gamma, eps=1e-6):
    out = np.zeros(x.shape)
    for where in np.ndindex(*x.shape[:-1]):
        total = 0.0
        for v in x[where]:
            total += float(v) ** 2
        rms = (total / x.shape[-1] + eps) ** 0.5
        for k in range(x.shape[-1]):
            out[where][k] = x[where][k] / rms * gamma[k]
    return out
''',
        "as_in_llama": '''
import numpy as np


class RMSNorm:
    def __init__(self, weight, eps):
        self.weight, self.eps = weight, eps

    def _norm(self, x):
        return x * np.power(np.mean(np.power(x, 2), axis=-1, keepdims=True) + self.eps, -0.5)

    def __call__(self, x):
        return self._norm(x.astype(np.float64)) * self.weight


def rms_norm(x, gamma, eps=1e-6):
    return RMSNorm(gamma, eps)(x)
''',
        "length": '''
import numpy as np


def rms_norm(x, gamma, eps=1e-6):
    d = x.shape[-1]
    length = np.linalg.norm(x, axis=-1, keepdims=True)
    return x * gamma * np.sqrt(d) / np.sqrt(length**2 + d * eps)
''',
        "chinese_names_einsum": '''
import numpy as np


def rms_norm(输入, gamma, eps=1e-6):
    均方 = np.einsum("...d,...d->...", 输入, 输入) / 输入.shape[-1]
    return np.einsum("...d,d,...->...d", 输入, gamma, 1 / np.sqrt(均方 + eps))
''',
    },
    aliases={
        "mean_square": ("mean_square", "ms", "variance", "均方"),
        "normed": ("normed", "normalized", "x_hat", "x_norm", "归一化"),
    },
)  # fmt: skip
