"""The gradient of softmax: how scores should move, from how their weights should."""

from __future__ import annotations

from functools import partial

import numpy as np

from ... import ops
from ..mistakes import say
from ..probes import drawn
from ..task import Function, Line, Mistake, Probe, Task, Text, formula
from ..wire import Array


def weighted_by_p(p: Array, dp: Array) -> Array:
    return p * dp


def total(weighted: Array) -> Array:
    return weighted.sum(axis=-1, keepdims=True)


def less_the_sum(p: Array, dp: Array, row_sum: Array) -> Array:
    return p * (dp - row_sum)


@formula
def backward(
    p: Array,
    dp: Array,
    *,
    weigh: Function = weighted_by_p,
    sum_of: Function = total,
    combine: Function = less_the_sum,
) -> Array:
    weighted = weigh(p, dp)
    row_sum = sum_of(weighted)
    dx = combine(p, dp, row_sum)
    return dx


def nothing(weighted: Array) -> Array:
    return np.zeros(())


def gradient_alone(p: Array, dp: Array) -> Array:
    return dp


def mean(weighted: Array) -> Array:
    return weighted.mean(axis=-1, keepdims=True)


def total_along(weighted: Array, *, axis: int | None) -> Array:
    return weighted.sum(axis=axis, keepdims=True)


def flat_total(weighted: Array) -> Array:
    return weighted.sum(axis=-1)


def diagonal(p: Array, dp: Array, row_sum: Array) -> Array:
    return p * (1 - p) * dp


def without_p(p: Array, dp: Array, row_sum: Array) -> Array:
    return dp - row_sum


def p_on_one_side(p: Array, dp: Array, row_sum: Array) -> Array:
    return p * dp - row_sum


def turned_round(p: Array, dp: Array, row_sum: Array) -> Array:
    return p * (row_sum - dp)


def added(p: Array, dp: Array, row_sum: Array) -> Array:
    return p * (dp + row_sum)


def in_dtype_of_gradient(p: Array, dp: Array, row_sum: Array) -> Array:
    return less_the_sum(p, dp, row_sum).astype(dp.dtype)


def of_softmax_again(p: Array, dp: Array) -> Array:
    return backward(ops.softmax(p), dp)


def in_place(p: Array, dp: Array) -> Array:
    dp -= (p * dp).sum(axis=-1, keepdims=True)
    return p * dp


def reference(p: Array, dp: Array) -> Array:
    jacobian = p[..., :, None] * (np.eye(p.shape[-1]) - p[..., None, :])
    return (jacobian @ dp[..., None])[..., 0]


def changed(**steps: Function) -> Function:
    return partial(backward, **steps)


def along(axis: int | None) -> Function:
    """The sum of products along a fixed axis, None for all of them at once."""
    return changed(sum_of=partial(total_along, axis=axis))


TASK = Task(
    name="softmax_backward",
    signature="softmax_backward(p, dp)",
    returns=Text("dx, the shape of p", "dx，形状与 p 相同"),
    title=Text("The gradient of softmax", "Softmax 的反向传播"),
    statement=Text(
        "p = softmax(x) along the last axis, shape (..., n): the finished weights, not the scores.\n"
        "dp is the gradient of a loss with respect to p, of the same shape. Return the gradient with respect to x.\n"
        "In each row: dx_i = sum over j of dp_j times the derivative of p_j by x_i,\n"
        "which is p_i (1 - p_i) for j = i, and -p_i p_j for j ≠ i. The inputs stay as they are.",
        "p = softmax(x)，沿最后一维，形状 (..., n)：给的是算好的权重，不是分数。\n"
        "dp 是损失对 p 的梯度，形状相同。返回损失对 x 的梯度。\n"
        "在每一行里：dx_i = 对所有 j 求和的 dp_j 乘以 p_j 对 x_i 的导数，\n"
        "j = i 时导数为 p_i (1 - p_i)，j ≠ i 时为 -p_i p_j。不要改动输入。",
    ),
    reference=reference,
    formula=backward,
    probes=(
        Probe("example", {"p": np.array([[0.5, 0.25, 0.25], [0.2, 0.3, 0.5]]), "dp": np.array([[1.0, -1.0, 2.0], [0.5, 3.0, 0.0]])},
              Text("two rows of three weights", "两行，每行三个权重")),
        Probe("cube", {"p": ops.softmax(drawn(11, 3, 3, 3)), "dp": drawn(12, 3, 3, 3)},
              Text("a batch with all sizes equal: nothing breaks, only values differ", "有批量的维，各个尺寸都相同：不会报错，只有数值不同")),
        Probe("integers", {"p": np.array([[0.25, 0.75], [0.5, 0.5], [0.125, 0.875]]), "dp": np.array([[1, 0], [2, -3], [0, 4]])},
              Text("a gradient of whole numbers", "传来的梯度是整数")),
    ),
    mistakes=(
        Mistake("backward_missing_row_sum", (changed(sum_of=nothing),)),
        Mistake("backward_diagonal_only", (changed(combine=diagonal),)),
        Mistake("backward_sum_unweighted", (changed(weigh=gradient_alone), changed(weigh=gradient_alone, sum_of=mean))),
        Mistake("backward_no_weights", (changed(combine=without_p), changed(combine=p_on_one_side))),
        Mistake("backward_sign", (changed(combine=turned_round), changed(combine=added))),
        Mistake("backward_softmax_again", (of_softmax_again,), say(
            ("p is put through the softmax once more, although it is its result.", "p 已经是 softmax 的结果，却又做了一次 softmax。"),
            ("the gradient at softmax(p) in place of p", "用 softmax(p) 代替 p 的梯度"),
            ("What does each row of p sum to already?", "p 的每一行加起来已经是多少？"),
            ("Look for exp: does this task need it at all?", "找代码里的 exp：这道题需要它吗？"),
            ("Use p as it is: p * (dp - (p * dp).sum(axis=-1, keepdims=True)).",
             "直接用 p：p * (dp - (p * dp).sum(axis=-1, keepdims=True))。"),
        )),
        Mistake("softmax_wrong_axis", tuple(along(axis) for axis in (-2, 0, 1, None)), say(
            ("The row sum runs along the wrong axis.", "整行之和沿错误的维计算。"),
            ("a softmax gradient summed along another axis", "沿另一维求和的 softmax 梯度"),
            ("Along which axis do the weights of p sum to 1?", "p 沿哪一维加起来是 1？"),
            ("Look at axis= in the sum.", "看求和时的 axis=。"),
            ("The last axis: (p * dp).sum(axis=-1, keepdims=True).", "最后一维：(p * dp).sum(axis=-1, keepdims=True)。"),
        )),
        Mistake("softmax_no_keepdims", (changed(sum_of=flat_total),)),
        Mistake("integer_result", (changed(combine=in_dtype_of_gradient),)),
        Mistake("mutates_input", (in_place,)),
    ),
    solution=(
        Line("def softmax_backward(p, dp):", "The Jacobian is diag(p) - p pᵀ; it need not be built.",
             "雅可比矩阵是 diag(p) - p pᵀ，不必真的构造出来。"),
        Line("    row_sum = (p * dp).sum(axis=-1, keepdims=True)",
             "All keys share one total of 1: what one gains the others lose, in proportion to p.",
             "所有键共分总量 1：一个多了，其他就按 p 的比例变少。"),
        Line("    return p * (dp - row_sum)", "Better than the average goes up, worse goes down; each row of dx sums to 0.",
             "比加权平均好的上升，差的下降；dx 每行之和为 0。"),
    ),
    styles={
        "jacobian": '''
import numpy as np


def softmax_backward(p, dp):
    jacobian = p[..., :, None] * np.eye(p.shape[-1]) - p[..., :, None] * p[..., None, :]
    return np.einsum("...ij,...j->...i", jacobian, dp)
''',
        "loops": '''
import numpy as np


def softmax_backward(p, dp):
    n = p.shape[-1]
    rows, grads = p.reshape(-1, n), dp.reshape(-1, n)
    dx = np.zeros(rows.shape)
    for r in range(len(rows)):
        for i in range(n):
            for j in range(n):
                slope = rows[r, i] * (1 - rows[r, i]) if i == j else -rows[r, i] * rows[r, j]
                dx[r, i] += grads[r, j] * slope
    return dx.reshape(p.shape)
''',
        "one_row_at_a_time": '''
import numpy as np


def one(p, dp):
    return (np.diag(p) - np.outer(p, p)) @ dp


def softmax_backward(p, dp):
    if p.ndim == 1:
        return one(p, dp)
    return np.stack([softmax_backward(a, b) for a, b in zip(p, dp)])
''',
        "chinese_names": '''
import numpy as np


def softmax_backward(概率, 上游梯度):
    乘积 = 概率 * 上游梯度
    return 乘积 - 概率 * np.sum(乘积, axis=-1)[..., np.newaxis]
''',
    },
)  # fmt: skip
