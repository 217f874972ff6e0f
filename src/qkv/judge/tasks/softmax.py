"""softmax: scores become weights."""

from __future__ import annotations

from functools import partial

import numpy as np

from ... import ops
from ..probes import drawn
from ..properties import rows_sum_to_one
from ..task import Function, Line, Mistake, Probe, Task, Text, formula
from ..wire import Array


def largest(x: Array, axis: int) -> Array:
    return x.max(axis=axis, keepdims=True)


def total(exp: Array, axis: int) -> Array:
    return exp.sum(axis=axis, keepdims=True)


def as_it_is(out: Array, x: Array) -> Array:
    return out


@formula
def softmax(
    x: Array, axis: int = -1, *, top: Function = largest, sum_of: Function = total, finish: Function = as_it_is
) -> Array:
    with np.errstate(all="ignore"):
        shifted = x - top(x, axis)
        exp = np.exp(shifted)
        out = finish(exp / sum_of(exp, axis), x)
    return out


def nothing(x: Array, axis: int) -> Array:
    return np.zeros(())


def mean(x: Array, axis: int) -> Array:
    return x.mean(axis=axis, keepdims=True)


def largest_of_all(x: Array, axis: int) -> Array:
    return x.max()


def flat_largest(x: Array, axis: int) -> Array:
    return x.max(axis=axis)


def flat_total(exp: Array, axis: int) -> Array:
    return exp.sum(axis=axis)


def total_of_all(exp: Array, axis: int) -> Array:
    return exp.sum()


def at_axis(step: Function, x: Array, axis: int, *, instead: int) -> Array:
    return step(x, instead)


def along(axis: int) -> Function:
    """Maximum and sum along a fixed axis, whatever was asked for."""
    return partial(softmax, top=partial(at_axis, largest, instead=axis), sum_of=partial(at_axis, total, instead=axis))


def in_dtype_of_input(out: Array, x: Array) -> Array:
    return out.astype(x.dtype)


def in_place(x: Array, axis: int = -1) -> Array:
    x -= x.max(axis=axis, keepdims=True)
    return softmax(x, axis)


TASK = Task(
    name="softmax",
    signature="softmax(x, axis=-1)",
    returns=Text("weights, the shape of x", "weights，形状与 x 相同"),
    title=Text("Softmax", "Softmax"),
    statement=Text(
        "Turn scores into weights: exp(x_j) / sum of all exp(x_j) along an axis.\n"
        "The weights along that axis are positive and sum to 1, for scores of any size.",
        "把分数变成权重：沿一个维计算 exp(x_j) / 所有 exp(x_j) 之和。\n沿这一维的权重为正，和为 1；分数无论多大都要成立。",
    ),
    reference=ops.softmax,
    formula=softmax,
    probes=(
        Probe("example", {"x": np.array([1.0, 2.0, 3.0])}, Text("three scores", "三个分数")),
        Probe("first_axis", {"x": drawn(3, 3, 4), "axis": 0}, Text("axis=0", "axis=0")),
        Probe("huge", {"x": np.array([[1000.0, 1001.0, 998.0], [-1002.0, -1000.0, -1001.0]])},
              Text("scores of 1000: exp overflows", "分数达到 1000：exp 会溢出")),
        Probe("far_apart", {"x": np.array([[0.0, -1.0, 3000.0]])},
              Text("scores of one row far apart", "同一行的分数相差很远")),
        Probe("integers", {"x": np.array([[1, 2, 4], [3, 0, 3]])}, Text("integer input", "输入是整数"), numpy_only=True),
    ),
    mistakes=(
        Mistake("softmax_no_max", (partial(softmax, top=nothing),)),
        Mistake("softmax_wrong_shift", (partial(softmax, top=mean),)),
        Mistake("softmax_global_max", (partial(softmax, top=largest_of_all),)),
        Mistake("softmax_wrong_axis", (along(-1), along(0), along(1), partial(softmax, sum_of=total_of_all),
                                       partial(softmax, top=largest_of_all, sum_of=total_of_all))),
        Mistake("softmax_no_keepdims", (partial(softmax, top=flat_largest), partial(softmax, sum_of=flat_total),
                                        partial(softmax, top=flat_largest, sum_of=flat_total))),
        Mistake("integer_result", (partial(softmax, finish=in_dtype_of_input),)),
        Mistake("mutates_input", (in_place,)),
    ),
    solution=(
        Line("def softmax(x, axis=-1):", "Scores along an axis become weights.", "沿一个维的分数变成权重。"),
        Line("    exp = np.exp(x - x.max(axis=axis, keepdims=True))",
             "Subtracting the maximum changes nothing in the quotient, and exp(0) = 1 is the largest value there is.",
             "减去最大值不改变商，而最大的值就是 exp(0) = 1。"),
        Line("    return exp / exp.sum(axis=axis, keepdims=True)",
             "Divide by the sum; keepdims lets it fit its own row.", "除以总和；keepdims 让它对上自己的那一行。"),
    ),
    styles={
        "loops": '''
import math

import numpy as np


def softmax(x, axis=-1):
    moved = np.moveaxis(np.asarray(x, dtype=float), axis, -1)
    result = np.empty(moved.shape)
    for where in np.ndindex(*moved.shape[:-1]):
        top = max(moved[where])
        exps = [math.exp(score - top) for score in moved[where]]
        result[where] = [e / sum(exps) for e in exps]
    return np.moveaxis(result, -1, axis)
''',
        "log_sum_exp": '''
import numpy as np


def softmax(x, axis=-1):
    top = np.max(x, axis, keepdims=True)
    return np.exp(x - top - np.log(np.sum(np.exp(x - top), axis, keepdims=True)))
''',
        "chinese_names": '''
import numpy as np


def softmax(输入, axis=-1):
    最大值 = np.expand_dims(np.max(输入, axis=axis), axis)
    指数 = np.exp(输入 - 最大值)
    总和 = np.expand_dims(指数.sum(axis), axis)
    return 指数 / 总和
''',
    },
    properties=(rows_sum_to_one(),),
)  # fmt: skip
