"""SwiGLU: a feed-forward layer with a gate."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from ... import ops
from ..mistakes import say
from ..probes import drawn
from ..task import Function, Line, Mistake, Probe, Task, Text, formula
from ..wire import Array


def product(x: Array, W: Array) -> Array:
    return x @ W


def first_weight(W_gate: Array, W_up: Array) -> Array:
    return W_gate


def second_weight(W_gate: Array, W_up: Array) -> Array:
    return W_up


def silu(z: Array) -> Array:
    return z / (1 + np.exp(-z))


def as_it_is(z: Array) -> Array:
    return z


def multiplied(gate: Array, up: Array) -> Array:
    return gate * up


@formula
def gated(
    x: Array,
    W_gate: Array,
    W_up: Array,
    W_down: Array,
    *,
    of_gate: Function = first_weight,
    of_up: Function = second_weight,
    project: Function = product,
    bend: Function = silu,
    lift: Function = as_it_is,
    combine: Function = multiplied,
    lower: Function = product,
) -> Array:
    with np.errstate(all="ignore"):
        gate_activation = bend(project(x, of_gate(W_gate, W_up)))
        up = lift(project(x, of_up(W_gate, W_up)))
        hidden = combine(gate_activation, up)
        out = lower(hidden, W_down)
    return out


# the steps as they go wrong


def sigmoid(z: Array) -> Array:
    return 1 / (1 + np.exp(-z))


def relu(z: Array) -> Array:
    return np.maximum(z, 0)


def gelu(z: Array) -> Array:
    return z * (1 + np.vectorize(math.erf, otypes=[np.float64])(z / np.sqrt(2))) / 2


def gelu_tanh(z: Array) -> Array:
    return z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))) / 2


def steeper(z: Array) -> Array:
    return z / (1 + np.exp(-1.702 * z))


def growing(z: Array) -> Array:
    return z / (1 + np.exp(z))


def silu_by_growing_exp(z: Array) -> Array:
    return z * np.exp(z) / (1 + np.exp(z))


def bent_product(gate: Array, up: Array) -> Array:
    return silu(gate * up)


def added(gate: Array, up: Array) -> Array:
    return gate + up


def only_gate(gate: Array, up: Array) -> Array:
    return gate


def only_up(gate: Array, up: Array) -> Array:
    return up


def not_lowered(hidden: Array, W_down: Array) -> Array:
    return hidden


def transposed(x: Array, W: Array) -> Array:
    return x @ W.mT


def inputs(seed: int, d: int, d_ff: int, *lead: int) -> dict[str, Any]:
    """x and the three weights."""
    shapes = {"x": (*lead, d), "W_gate": (d, d_ff), "W_up": (d, d_ff), "W_down": (d_ff, d)}
    return {name: drawn(seed + k, *shape) for k, (name, shape) in enumerate(shapes.items())}


TASK = Task(
    name="swiglu",
    signature="swiglu(x, W_gate, W_up, W_down)",
    returns=Text("output (..., d_model)", "output (..., d_model)"),
    title=Text("SwiGLU feed-forward layer", "SwiGLU 前馈层"),
    statement=Text(
        "x (..., d_model), W_gate and W_up (d_model, d_ff), W_down (d_ff, d_model), applied as x @ W:\n"
        "(silu(x W_gate) * (x W_up)) W_down, where silu(z) = z * sigmoid(z) = z / (1 + exp(-z)).",
        "x (..., d_model)，W_gate 和 W_up 为 (d_model, d_ff)，W_down 为 (d_ff, d_model)，用法为 x @ W：\n"
        "(silu(x W_gate) * (x W_up)) W_down，其中 silu(z) = z * sigmoid(z) = z / (1 + exp(-z))。",
    ),
    reference=ops.swiglu,
    formula=gated,
    probes=(
        Probe("example", inputs(1, 2, 3, 2), Text("two tokens of width 2, three hidden features", "两个词元，宽度 2，三个隐藏特征")),
        Probe("square", inputs(11, 4, 4, 2, 3),
              Text("a batch, as many hidden features as the width: nothing breaks, only values differ",
                   "一批词元，隐藏特征数与宽度相同：不会报错，只有数值不同")),
        Probe("large", {**inputs(21, 3, 5, 2), "x": drawn(21, 2, 3) * 1000}, Text("large numbers: exp overflows", "数值很大：exp 会溢出")),
    ),
    mistakes=(
        Mistake("gate_up_swapped", (partial(gated, of_gate=second_weight, of_up=first_weight),), say(
            ("The gate and the up projection are swapped: silu is applied to x W_up.", "门与升维投影对调了：silu 用在了 x W_up 上。"),
            ("SwiGLU with W_gate and W_up swapped", "W_gate 与 W_up 对调的 SwiGLU"),
            ("Which of the two products goes through silu?", "两个乘积中，哪一个要经过 silu？"),
            ("Look at what silu is applied to.", "看 silu 用在什么上。"),
            ("silu(x @ W_gate) * (x @ W_up).", "silu(x @ W_gate) * (x @ W_up)。"),
        )),
        Mistake("no_gate_activation", (partial(gated, bend=as_it_is),), say(
            ("The gate goes through no activation.", "门没有经过激活函数。"),
            ("SwiGLU without silu", "没有 silu 的 SwiGLU"),
            ("Is your gate anything but a product of matrices?", "你的门除了矩阵乘法还有别的吗？"),
            ("Look at x @ W_gate: what happens to it?", "看 x @ W_gate 之后做了什么。"),
            ("gate = silu(x @ W_gate).", "gate = silu(x @ W_gate)。"),
        )),
        Mistake("gate_wrong_activation", tuple(
            partial(gated, bend=f) for f in (sigmoid, gelu, gelu_tanh, relu, np.tanh, steeper, growing)
        ), say(
            ("The gate goes through another function than silu.", "门经过的不是 silu，而是别的函数。"),
            ("a gated layer with another activation", "用别的激活函数的门控层"),
            ("What is silu(2)? And silu(-2)?", "silu(2) 是多少？silu(-2) 呢？"),
            ("Look at the function of the gate: is z itself in it, and is the sign in exp right?",
             "看门的函数：乘了 z 本身吗？exp 里的符号对吗？"),
            ("silu(z) = z / (1 + np.exp(-z)).", "silu(z) = z / (1 + np.exp(-z))。"),
        )),
        Mistake("gate_activation_misplaced", (
            partial(gated, lift=silu), partial(gated, bend=as_it_is, combine=bent_product),
        ), say(
            ("silu is applied to more than the gate.", "silu 不只用在了门上。"),
            ("SwiGLU with silu on both factors or on their product", "silu 用在两个因子或它们的乘积上的 SwiGLU"),
            ("Which one factor is bent, and which stays linear?", "哪一个因子经过激活？哪一个保持线性？"),
            ("Count the uses of silu, and look at what is inside.", "数一数用了几次 silu，再看括号里是什么。"),
            ("silu(x @ W_gate) * (x @ W_up): the second factor stays as it is.", "silu(x @ W_gate) * (x @ W_up)：第二个因子保持不变。"),
        )),
        Mistake("silu_overflows", (partial(gated, bend=silu_by_growing_exp),), say(
            ("silu is computed with exp(z), which overflows for large z.", "silu 用 exp(z) 计算，z 很大时会溢出。"),
            ("SwiGLU with z * exp(z) / (1 + exp(z)) as silu", "用 z * exp(z) / (1 + exp(z)) 作 silu 的 SwiGLU"),
            ("What is inf / inf?", "inf / inf 是多少？"),
            ("Look at the exp in silu for z = 1000.", "看 z = 1000 时 silu 里的 exp。"),
            ("z / (1 + np.exp(-z)): there an overflow only gives 0.", "z / (1 + np.exp(-z))：这样溢出也只是得到 0。"),
        )),
        Mistake("gate_added", (partial(gated, combine=added),), say(
            ("Gate and up are added, not multiplied.", "门与升维的结果相加了，而不是相乘。"),
            ("a layer that adds gate and up", "把两者相加的前馈层"),
            ("A closed gate is 0: what should it let through?", "门关上时为 0：这时应放过多少？"),
            ("Look at the sign between the two factors.", "看两个因子之间的运算符号。"),
            ("Number by number: silu(x @ W_gate) * (x @ W_up).", "逐个数相乘：silu(x @ W_gate) * (x @ W_up)。"),
        )),
        Mistake("gate_or_up_missing", (partial(gated, combine=only_gate), partial(gated, combine=only_up)), say(
            ("One of the two products is never used.", "两个乘积中有一个没有用到。"),
            ("a layer without one of its two factors", "少了一个因子的前馈层"),
            ("Does your result change with W_gate and with W_up?", "W_gate 变了、W_up 变了，你的结果都会变吗？"),
            ("Look at what is multiplied before W_down.", "看乘 W_down 之前是什么。"),
            ("(silu(x @ W_gate) * (x @ W_up)) @ W_down.", "(silu(x @ W_gate) * (x @ W_up)) @ W_down。"),
        )),
        Mistake("no_down_projection", (partial(gated, lower=not_lowered),), say(
            ("The last product, with W_down, is missing.", "缺少最后与 W_down 的乘法。"),
            ("the hidden features, without W_down", "没有乘 W_down 的隐藏特征"),
            ("How wide is your result, and how wide is x?", "你的结果有多宽？x 有多宽？"),
            ("Look at what is returned.", "看返回的是什么。"),
            ("return hidden @ W_down.", "return hidden @ W_down。"),
        )),
        Mistake("weights_transposed", (
            partial(gated, project=transposed, lower=transposed), partial(gated, project=transposed),
            partial(gated, lower=transposed),
        ), say(
            ("Weight matrices are transposed: x @ W.T.", "权重矩阵被转置了：x @ W.T。"),
            ("SwiGLU with x @ W.T in place of x @ W", "用 x @ W.T 代替 x @ W 的 SwiGLU"),
            ("Which axis of W_gate is as long as a token is wide, and means it?", "W_gate 的哪一维对应词元的宽度？"),
            ("Look at the products: is there a .T?", "看几个矩阵乘法：有没有 .T？"),
            ("Here weights are applied as x @ W, without .T (PyTorch's nn.Linear stores them turned).",
             "这里的用法是 x @ W，不要 .T（PyTorch 的 nn.Linear 存的是转置）。"),
        )),
    ),
    solution=(
        Line("def swiglu(x, W_gate, W_up, W_down):\n    z = x @ W_gate", "What decides how far each gate opens.", "决定每个门开多大。"),
        Line("    gate = z / (1 + np.exp(-z))", "silu: z times its own sigmoid.", "silu：z 乘以自己的 sigmoid。"),
        Line("    return (gate * (x @ W_up)) @ W_down", "Gate times content, number by number, and back to the width of x.",
             "门与内容逐个数相乘，再回到 x 的宽度。"),
    ),
    styles={
        "loops": '''
import math

import numpy as np


def swiglu(x, W_gate, W_up, W_down):
    out = np.zeros(x.shape)
    for where in np.ndindex(*x.shape[:-1]):
        for j in range(W_gate.shape[1]):
            z = sum(float(a) * float(b) for a, b in zip(x[where], W_gate[:, j]))
            u = sum(float(a) * float(b) for a, b in zip(x[where], W_up[:, j]))
            sigmoid = 1 / (1 + math.exp(-z)) if z > 0 else math.exp(z) / (1 + math.exp(z))
            out[where] += z * sigmoid * u * W_down[j]
    return out
''',
        "einsum": '''
import numpy as np


def swiglu(x, W_gate, W_up, W_down):
    g = np.einsum("...d,df->...f", x, W_gate)
    u = np.einsum("...d,df->...f", x, W_up)
    return np.einsum("...f,...f,fd->...d", g * 0.5 * (1 + np.tanh(g / 2)), u, W_down)
''',
        "class_with_one_matrix": '''
import numpy as np


def silu(x):
    return x * np.exp(-np.logaddexp(0, -x))


class SwiGLU:
    def __init__(self, w1, w3, w2):
        self.w13, self.w2 = np.concatenate([w1, w3], axis=1), w2

    def forward(self, x):
        a, b = np.split(x @ self.w13, 2, axis=-1)
        return np.matmul(b * silu(a), self.w2)


def swiglu(x, W_gate, W_up, W_down):
    return SwiGLU(W_gate, W_up, W_down).forward(x)
''',
        "chinese_names": '''
import numpy as np


def swiglu(输入, 门权重, 升维权重, 降维权重):
    门 = 输入 @ 门权重
    sigmoid = 1 / (1 + np.exp(-门))
    隐藏 = 门 * sigmoid * (输入 @ 升维权重)
    return 隐藏 @ 降维权重
''',
    },
    aliases={
        "gate_activation": ("gate_activation", "activated", "swish", "silu_gate"),
        "up": ("up", "u", "升维"),
        "hidden": ("hidden", "h", "隐藏"),
    },
)  # fmt: skip
