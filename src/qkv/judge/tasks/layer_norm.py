"""Layer norm: each token is brought to mean 0 and variance 1."""

from __future__ import annotations

from functools import partial

import numpy as np

from ... import ops
from ..mistakes import say
from ..probes import drawn
from ..task import Function, Line, Mistake, Probe, Task, Text, formula
from ..wire import Array


def of_each_token(x: Array) -> Array:
    return x.mean(axis=-1, keepdims=True)


def of_squares(x: Array, centred: Array) -> Array:
    return of_each_token(centred * centred)


def by_root(centred: Array, x: Array, variance: Array, eps: float) -> Array:
    return centred / np.sqrt(variance + eps)


def stretched_then_shifted(normed: Array, gamma: Array, beta: Array) -> Array:
    return gamma * normed + beta


def as_it_is(out: Array, x: Array) -> Array:
    return out


@formula
def norm(
    x: Array,
    gamma: Array,
    beta: Array,
    eps: float = 1e-5,
    *,
    average: Function = of_each_token,
    spread: Function = of_squares,
    divide: Function = by_root,
    affine: Function = stretched_then_shifted,
    finish: Function = as_it_is,
) -> Array:
    with np.errstate(all="ignore"):
        mean = average(x)
        centred = x - mean
        variance = spread(x, centred)
        normed = divide(centred, x, variance, eps)
        out = finish(affine(normed, gamma, beta), x)
    return out


# the steps as they go wrong


def along(x: Array, *, axis: int | tuple[int, ...] | None) -> Array:
    return x.mean(axis=axis, keepdims=True)


def squares_along(x: Array, centred: Array, *, axis: int | tuple[int, ...] | None) -> Array:
    return (centred * centred).mean(axis=axis, keepdims=True)


def over(axis: int | tuple[int, ...] | None) -> Function:
    """Mean and variance along a fixed axis."""
    return partial(norm, average=partial(along, axis=axis), spread=partial(squares_along, axis=axis))


def flat(x: Array) -> Array:
    return x.mean(axis=-1)


def flat_squares(x: Array, centred: Array) -> Array:
    return x.var(axis=-1)


def unbiased(x: Array, centred: Array) -> Array:
    return x.var(axis=-1, ddof=1, keepdims=True)


def uncentred_squares(x: Array, centred: Array) -> Array:
    return (x * x).mean(axis=-1, keepdims=True)


def nothing(x: Array) -> Array:
    return np.zeros(())


def own_variance(x: Array, centred: Array) -> Array:
    return x.var(axis=-1, keepdims=True)


def eps_outside(centred: Array, x: Array, variance: Array, eps: float) -> Array:
    return centred / (np.sqrt(variance) + eps)


def no_eps(centred: Array, x: Array, variance: Array, eps: float) -> Array:
    return centred / np.sqrt(variance)


def fixed_eps(centred: Array, x: Array, variance: Array, eps: float, *, fixed: float) -> Array:
    return centred / np.sqrt(variance + fixed)


def no_root(centred: Array, x: Array, variance: Array, eps: float) -> Array:
    return centred / (variance + eps)


def neither(normed: Array, gamma: Array, beta: Array) -> Array:
    return normed


def only_gamma(normed: Array, gamma: Array, beta: Array) -> Array:
    return gamma * normed


def only_beta(normed: Array, gamma: Array, beta: Array) -> Array:
    return normed + beta


def shifted_then_stretched(normed: Array, gamma: Array, beta: Array) -> Array:
    return gamma * (normed + beta)


def swapped(normed: Array, gamma: Array, beta: Array) -> Array:
    return beta * normed + gamma


def one_plus_gamma(normed: Array, gamma: Array, beta: Array) -> Array:
    return (1 + gamma) * normed + beta


def in_dtype_of_input(out: Array, x: Array) -> Array:
    return out.astype(x.dtype)


def normed_in_dtype_of_input(centred: Array, x: Array, variance: Array, eps: float) -> Array:
    return by_root(centred, x, variance, eps).astype(x.dtype)


def in_place(x: Array, gamma: Array, beta: Array, eps: float = 1e-5) -> Array:
    x -= of_each_token(x)
    return norm(x, gamma, beta, eps)


TASK = Task(
    name="layer_norm",
    signature="layer_norm(x, gamma, beta, eps=1e-5)",
    returns=Text("the shape of x", "形状与 x 相同"),
    title=Text("Layer norm", "层归一化"),
    statement=Text(
        "x (..., d), gamma and beta (d,). For each token (the last axis) by itself:\n"
        "gamma * (x - mean) / sqrt(variance + eps) + beta, the variance being the mean of (x - mean)^2.",
        "x (..., d)，gamma 和 beta 为 (d,)。对每个词元（最后一维）单独计算：\n"
        "gamma * (x - 均值) / sqrt(方差 + eps) + beta，方差是 (x - 均值)^2 的平均。",
    ),
    reference=ops.layer_norm,
    formula=norm,
    probes=(
        Probe("example", {"x": np.array([[1.0, 2.0, 6.0], [4.0, 0.0, -1.0]]), "gamma": np.array([1.0, 2.0, 0.5]),
                          "beta": np.array([0.0, 1.0, -1.0])}, Text("two tokens, three features", "两个词元、三个特征")),
        Probe("small", {"x": drawn(21, 2, 3, 4) * 1e-3, "gamma": drawn(22, 4), "beta": drawn(23, 4)},
              Text("a batch of very small numbers: eps matters", "一批很小的数：eps 起作用")),
        Probe("constant", {"x": np.array([[0.5, 0.5, 0.5], [3.0, 1.0, 0.5], [-1.0, 4.0, 2.0]]),
                           "gamma": np.array([2.0, -1.0, 0.5]), "beta": np.array([0.25, 3.0, -2.0]), "eps": 0.01},
              Text("square, one token's numbers all the same, another eps",
                   "词元数与特征数相同，有一个词元的数全都相同，并传入另一个 eps")),
        Probe("integers", {"x": np.array([[1, 2, 4], [7, 0, 3]]), "gamma": np.array([1.5, 2.0, 0.5]),
                           "beta": np.array([0.5, 1.0, -1.25])}, Text("integer input", "输入是整数")),
    ),
    mistakes=(
        Mistake("norm_unbiased_variance", (partial(norm, spread=unbiased),)),
        Mistake("norm_eps_outside_root", (partial(norm, divide=eps_outside),)),
        Mistake("norm_no_eps", (partial(norm, divide=no_eps),)),
        Mistake("norm_eps_hard_coded",
                tuple(partial(norm, divide=partial(fixed_eps, fixed=e)) for e in (1e-5, 1e-3, 1e-6, 1e-8, 1e-12))),
        Mistake("norm_no_root", (partial(norm, divide=no_root),)),
        Mistake("norm_wrong_axis", tuple(map(over, (0, 1, -2, (-2, -1), None)))),
        Mistake("norm_no_keepdims", (partial(norm, average=flat), partial(norm, spread=flat_squares),
                                     partial(norm, average=flat, spread=flat_squares))),
        Mistake("norm_no_affine", tuple(partial(norm, affine=a) for a in (neither, only_gamma, only_beta))),
        Mistake("norm_affine_wrong",
                tuple(partial(norm, affine=a) for a in (shifted_then_stretched, swapped, one_plus_gamma)), say(
            ("gamma and beta are both used, but not as gamma * (...) + beta.", "gamma 和 beta 都用到了，但不是 gamma * (...) + beta。"),
            ("a layer norm whose gamma and beta are put in the wrong places", "gamma 与 beta 用错地方的层归一化"),
            ("What does a token become whose numbers are all the same?", "如果一个词元的数全都相同，结果应是什么？"),
            ("Look at the last line.", "看最后一行。"),
            ("Multiply by gamma first, then add beta: gamma * normed + beta.", "先乘 gamma，再加 beta：gamma * normed + beta。"),
        )),
        Mistake("norm_no_mean", (partial(norm, average=nothing), partial(norm, average=nothing, spread=own_variance),
                                 partial(norm, spread=uncentred_squares)), say(
            ("The mean is not subtracted, in one place or in both.", "没有减去均值：漏了一处，或者两处都漏了。"),
            ("a layer norm in which the mean is not subtracted", "漏减均值的层归一化"),
            ("What is the mean of a token after your normalisation, before gamma and beta?",
             "归一化之后、乘 gamma 之前，一个词元的均值是多少？"),
            ("Look above the division and under the root: both take x - mean.", "看分子和根号里：两处都要用 x - 均值。"),
            ("centred = x - mean; centred / np.sqrt((centred**2).mean(...) + eps).",
             "centred = x - mean；centred / np.sqrt((centred**2).mean(...) + eps)。"),
        )),
        Mistake("integer_result", (partial(norm, finish=in_dtype_of_input), partial(norm, divide=normed_in_dtype_of_input))),
        Mistake("mutates_input", (in_place,)),
    ),
    solution=(
        Line("def layer_norm(x, gamma, beta, eps=1e-5):\n    mean = x.mean(axis=-1, keepdims=True)",
             "Each token's own mean; keepdims lets it fit its own row.", "每个词元自己的均值；keepdims 让它对上自己的那一行。"),
        Line("    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)",
             "The mean of the squared distances: divided by d, not d - 1.", "距离平方的平均：除以 d，而不是 d - 1。"),
        Line("    return gamma * (x - mean) / np.sqrt(variance + eps) + beta",
             "Mean 0, variance 1, then the learnt stretch and shift; eps keeps the root above 0.",
             "均值变为 0、方差变为 1，再做学到的伸缩和平移；eps 使根号大于 0。"),
    ),
    styles={
        "loops": '''
import math

import numpy as np


def layer_norm(x, gamma, beta, eps=1e-5):
    out = np.zeros(x.shape)
    for where in np.ndindex(*x.shape[:-1]):
        row = [float(v) for v in x[where]]
        mean = sum(row) / len(row)
        var = sum((v - mean) ** 2 for v in row) / len(row)
        for k, v in enumerate(row):
            out[where][k] = gamma[k] * (v - mean) / math.sqrt(var + eps) + beta[k]
    return out
''',
        "mean_of_squares_minus_square_of_mean": '''
import numpy as np


def layer_norm(x, gamma, beta, eps=1e-5):
    mu = np.mean(x, -1)[..., None]
    var = np.mean(np.square(x), -1)[..., None] - mu**2
    return (x - mu) * (var + eps) ** -0.5 * gamma + beta
''',
        "class": '''
import numpy as np


class LayerNorm:
    def __init__(self, gamma, beta, eps):
        self.gamma, self.beta, self.eps = gamma, beta, eps

    def forward(self, x):
        scale = self.gamma / np.sqrt(np.var(x, axis=-1, keepdims=True) + self.eps)
        return x * scale + (self.beta - x.mean(axis=-1, keepdims=True) * scale)


def layer_norm(x, gamma, beta, eps=1e-5):
    return LayerNorm(gamma, beta, eps).forward(x)
''',
        "chinese_names_einsum": '''
import numpy as np


def layer_norm(输入, gamma, beta, eps=1e-5):
    宽度 = 输入.shape[-1]
    中心化 = 输入 - np.einsum("...d->...", 输入)[..., None] / 宽度
    方差 = np.einsum("...d,...d->...", 中心化, 中心化) / 宽度
    return np.einsum("d,...d,...->...d", gamma, 中心化, 1 / np.sqrt(方差 + eps)) + beta
''',
    },
    aliases={
        "mean": ("mean", "mu", "m", "均值"),
        "centred": ("centred", "centered", "diff", "c", "中心化"),
        "variance": ("variance", "var", "v", "方差"),
        "normed": ("normed", "normalized", "x_hat", "x_norm", "归一化"),
    },
)  # fmt: skip
