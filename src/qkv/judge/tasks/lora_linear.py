"""A linear layer with a low-rank adapter beside it: LoRA."""

from __future__ import annotations

from functools import partial

import numpy as np

from ..mistakes import say
from ..probes import SQUARE, drawn
from ..task import Function, Line, Mistake, Probe, Task, Text, formula
from ..wire import Array

# the steps as they are right


def product(x: Array, W: Array) -> Array:
    return x @ W


def down_and_up(x: Array, A: Array, B: Array) -> Array:
    return x @ A @ B


def by_rank(alpha: float, W: Array, A: Array) -> float:
    return alpha / A.shape[-1]


def sum_of_both(base: Array, adapter: Array, scale: float) -> Array:
    return base + scale * adapter


@formula
def lora(
    x: Array,
    W: Array,
    A: Array,
    B: Array,
    alpha: float,
    *,
    frozen: Function = product,
    adapt: Function = down_and_up,
    scale: Function = by_rank,
    add: Function = sum_of_both,
) -> Array:
    base = frozen(x, W)
    adapter = adapt(x, A, B)
    output = add(base, adapter, scale(alpha, W, A))
    return output


def reference(x: Array, W: Array, A: Array, B: Array, alpha: float) -> Array:
    return x @ (W + alpha / A.shape[1] * (A @ B))


# the steps as they go wrong


def one(alpha: float, W: Array, A: Array) -> float:
    return 1.0


def one_over_rank(alpha: float, W: Array, A: Array) -> float:
    return 1 / A.shape[-1]


def alpha_alone(alpha: float, W: Array, A: Array) -> float:
    return alpha


def by_width_in(alpha: float, W: Array, A: Array) -> float:
    return alpha / W.shape[0]


def by_width_out(alpha: float, W: Array, A: Array) -> float:
    return alpha / W.shape[1]


def by_root(alpha: float, W: Array, A: Array) -> float:
    return alpha / np.sqrt(A.shape[-1])


def turned_over(alpha: float, W: Array, A: Array) -> float:
    return A.shape[-1] / alpha


def times_rank(alpha: float, W: Array, A: Array) -> float:
    return alpha * A.shape[-1]


def whole_number(alpha: float, W: Array, A: Array) -> float:
    return alpha // A.shape[-1]


def no_base(base: Array, adapter: Array, scale: float) -> Array:
    return scale * adapter


def no_adapter(base: Array, adapter: Array, scale: float) -> Array:
    return base


def all_scaled(base: Array, adapter: Array, scale: float) -> Array:
    return scale * (base + adapter)


def base_scaled(base: Array, adapter: Array, scale: float) -> Array:
    return scale * base + adapter


def subtracted(base: Array, adapter: Array, scale: float) -> Array:
    return base - scale * adapter


def product_transposed(x: Array, W: Array) -> Array:
    return x @ W.mT


def factors_transposed(x: Array, A: Array, B: Array) -> Array:
    return x @ A.mT @ B.mT


def matrix_transposed(x: Array, A: Array, B: Array) -> Array:
    return x @ (A @ B).mT


def up_and_down(x: Array, A: Array, B: Array) -> Array:
    return x @ B @ A


def weights_in_place(x: Array, W: Array, A: Array, B: Array, alpha: float) -> Array:
    W += alpha / A.shape[1] * (A @ B)
    return x @ W


def factor_in_place(x: Array, W: Array, A: Array, B: Array, alpha: float) -> Array:
    A *= alpha / A.shape[1]
    return x @ W + x @ A @ B


def inputs(seed: int, n: int, d_in: int, d_out: int, r: int) -> dict[str, object]:
    return {
        "x": drawn(seed, n, d_in), "W": drawn(seed + 1, d_in, d_out), "A": drawn(seed + 2, d_in, r),
        "B": drawn(seed + 3, r, d_out), "alpha": 5.0,
    }  # fmt: skip


TASK = Task(
    name="lora_linear",
    signature="lora_linear(x, W, A, B, alpha)",
    returns=Text("output (n, d_out)", "output (n, d_out)"),
    title=Text("A linear layer with LoRA", "带 LoRA 的线性层"),
    statement=Text(
        "x W + (alpha / r) x A B, with x (n, d_in), the frozen weight W (d_in, d_out), and the adapter A (d_in, r), B (r, d_out).\n"
        "The rank r is read off A. The inputs stay as they are: nothing is merged into W.",
        "x W + (alpha / r) x A B，其中 x (n, d_in)，冻结的权重 W (d_in, d_out)，适配器 A (d_in, r) 与 B (r, d_out)。\n"
        "秩 r 从 A 的形状读取。不要改动输入：不要把结果合并进 W。",
    ),
    reference=reference,
    formula=lora,
    probes=(
        Probe("example", inputs(1, 2, 3, 4, 2), Text("two tokens, rank 2, every size different", "两个词元，秩为 2，每个尺寸都不同")),
        Probe("square", inputs(11, 3, 3, 3, 3), SQUARE),
    ),
    mistakes=(
        Mistake("lora_no_scaling", (partial(lora, scale=one),), say(
            ("The adapter is added without alpha / r.", "加上适配器时没有乘 alpha / r。"),
            ("x W + x A B, without alpha / r", "不乘 alpha / r 的 x W + x A B"),
            ("Does your result change with alpha?", "alpha 变了，你的结果会变吗？"),
            ("Look at where the adapter is added.", "看加上适配器的地方。"),
            ("x @ W + alpha / A.shape[1] * (x @ A @ B).", "x @ W + alpha / A.shape[1] * (x @ A @ B)。"),
        )),
        Mistake("lora_wrong_rank", tuple(partial(lora, scale=s) for s in (alpha_alone, by_width_in, by_width_out)), say(
            ("alpha is not divided by the rank r, but by nothing or by another size.", "alpha 没有除以秩 r，而是没除，或除以了别的尺寸。"),
            ("an adapter scaled by alpha, or by alpha over a size that is not the rank", "用 alpha 本身、或 alpha 除以非秩的尺寸来缩放的适配器"),
            ("Which number in the shapes is the rank?", "形状里的哪个数是秩？"),
            ("Look at what alpha is divided by.", "看 alpha 除以了什么。"),
            ("A is (d_in, r): divide by A.shape[1].", "A 是 (d_in, r)：除以 A.shape[1]。"),
        )),
        Mistake("lora_scale_inverted", (partial(lora, scale=turned_over), partial(lora, scale=times_rank)), say(
            ("The scale is turned over: r / alpha, or alpha · r.", "缩放系数颠倒了：写成了 r / alpha 或 alpha · r。"),
            ("an adapter scaled by r / alpha or alpha · r", "用 r / alpha 或 alpha · r 缩放的适配器"),
            ("Should a larger rank make the scale larger or smaller?", "秩变大时，缩放系数应变大还是变小？"),
            ("Look at what stands above and below the line.", "看分子与分母各是什么。"),
            ("alpha / r.", "alpha / r。"),
        )),
        Mistake("lora_root_of_rank", (partial(lora, scale=by_root),), say(
            ("alpha is divided by √r: that is rsLoRA, not LoRA.", "alpha 除以了 √r：那是 rsLoRA，不是 LoRA。"),
            ("an adapter scaled by alpha / √r", "用 alpha / √r 缩放的适配器"),
            ("Does the formula above take a root?", "题目的公式里有开根号吗？"),
            ("Look at what alpha is divided by.", "看 alpha 除以了什么。"),
            ("alpha / r, without the root.", "alpha / r，不要开根号。"),
        )),
        Mistake("lora_scale_floored", (partial(lora, scale=whole_number),), say(
            ("alpha // r cuts off the fraction.", "alpha // r 把小数部分截掉了。"),
            ("an adapter scaled by alpha // r", "用 alpha // r 缩放的适配器"),
            ("What is 5 // 2, and what is 5 / 2?", "5 // 2 是多少？5 / 2 呢？"),
            ("Look at the division.", "看那个除法。"),
            ("Use /, not //.", "用 /，不要用 //。"),
        )),
        Mistake("lora_no_alpha", (partial(lora, scale=one_over_rank),), say(
            ("alpha is missing: the adapter is only divided by r.", "缺少 alpha：适配器只除以了 r。"),
            ("an adapter scaled by 1 / r", "用 1 / r 缩放的适配器"),
            ("Does your result change with alpha?", "alpha 变了，你的结果会变吗？"),
            ("Look at the scale of the adapter.", "看适配器的缩放系数。"),
            ("alpha / r.", "alpha / r。"),
        )),
        Mistake("lora_scales_everything", (partial(lora, add=all_scaled), partial(lora, add=base_scaled)), say(
            ("alpha / r multiplies x W too, which should stay as it is.", "alpha / r 也乘到了 x W 上，而 x W 应保持原样。"),
            ("the frozen layer's own output scaled by alpha / r", "冻结层自身的输出乘了 alpha / r 的结果"),
            ("With B = 0, what should come out?", "如果 B 全是 0，应该输出什么？"),
            ("Look at the brackets.", "看括号的位置。"),
            ("Scale the adapter alone: x @ W + scale * (x @ A @ B).", "只缩放适配器：x @ W + scale * (x @ A @ B)。"),
        )),
        Mistake("lora_subtracted", (partial(lora, add=subtracted),), say(
            ("The adapter is subtracted.", "适配器是减去的，而不是加上的。"),
            ("x W minus the adapter", "x W 减去适配器的结果"),
            ("What sign has the adapter in the formula?", "公式里适配器前面是什么符号？"),
            ("Look at the sign between the two products.", "看两个乘积之间的符号。"),
            ("Use +.", "用 +。"),
        )),
        Mistake("lora_no_base", (partial(lora, add=no_base),), say(
            ("x W is missing: only the adapter is left.", "缺少 x W：只剩下适配器。"),
            ("the adapter alone, without x W", "没有 x W、只有适配器的结果"),
            ("With B = 0, what should come out?", "如果 B 全是 0，应该输出什么？"),
            ("Look for W in your code.", "看代码里哪里用到了 W。"),
            ("Add x @ W.", "加上 x @ W。"),
        )),
        Mistake("lora_no_adapter", (partial(lora, add=no_adapter),), say(
            ("The adapter is missing: the result is x W.", "缺少适配器：结果就是 x W。"),
            ("x W, without the adapter", "没有适配器的 x W"),
            ("Does your result change with A and B?", "A、B 变了，你的结果会变吗？"),
            ("Look for A and B in what you return.", "看返回值里有没有 A 和 B。"),
            ("Add alpha / r * (x @ A @ B).", "加上 alpha / r * (x @ A @ B)。"),
        )),
        Mistake("lora_factors_swapped", (partial(lora, adapt=up_and_down),), say(
            ("A and B have changed places.", "A 与 B 的位置对调了。"),
            ("an adapter x B A in place of x A B", "用 x B A 代替 x A B 的适配器"),
            ("Which of the two brings d_in down to r?", "A 和 B 中，哪个把 d_in 降到 r？"),
            ("Look at the order of the two products.", "看两个乘法的先后。"),
            ("x @ A @ B: first down to r, then up to d_out.", "x @ A @ B：先降到 r，再升到 d_out。"),
        )),
        Mistake("weights_transposed", (
            partial(lora, frozen=product_transposed),
            partial(lora, adapt=factors_transposed),
            partial(lora, adapt=matrix_transposed),
            partial(lora, frozen=product_transposed, adapt=factors_transposed),
            partial(lora, frozen=product_transposed, adapt=matrix_transposed),
        ), say(
            ("A matrix is transposed: PyTorch stores (d_out, d_in), here it is (d_in, d_out).",
             "有矩阵被转置了：PyTorch 存的是 (d_out, d_in)，这里是 (d_in, d_out)。"),
            ("a layer with its matrices transposed", "矩阵被转置的结果"),
            ("Which axis of W is as long as a row of x?", "W 的哪一维与 x 的一行一样长？"),
            ("Look at .T.", "看 .T。"),
            ("x @ W and x @ A @ B, without .T.", "x @ W 与 x @ A @ B，都不要 .T。"),
        )),
        Mistake("mutates_input", (weights_in_place, factor_in_place)),
    ),
    solution=(
        Line("def lora_linear(x, W, A, B, alpha):\n    r = A.shape[1]", "The rank is the inner width of the adapter.", "秩是适配器中间的宽度。"),
        Line("    return x @ W + alpha / r * (x @ A @ B)",
             "The frozen layer, and beside it the adapter: down to r columns, up again, scaled by alpha / r.",
             "冻结的层加上旁边的适配器：先降到 r 列，再升回来，按 alpha / r 缩放。"),
    ),
    styles={
        "merged": '''
import numpy as np


def lora_linear(x, W, A, B, alpha):
    merged = W + (alpha / B.shape[0]) * np.matmul(A, B)
    return np.matmul(x, merged)
''',
        "class": '''
import numpy as np


class LoRA:
    def __init__(self, weight, down, up, alpha):
        self.weight, self.down, self.up = weight, down, up
        self.scaling = alpha / down.shape[-1]

    def __call__(self, x):
        result = x.dot(self.weight)
        result += x.dot(self.down).dot(self.up) * self.scaling
        return result


def lora_linear(x, W, A, B, alpha):
    return LoRA(W, A, B, alpha)(x)
''',
        "einsum": '''
import numpy as np


def lora_linear(x, W, A, B, alpha):
    delta = np.einsum("ni,ir,ro->no", x, A, B)
    return np.einsum("ni,io->no", x, W) + delta * alpha / A.shape[1]
''',
        "loops": '''
import numpy as np


def lora_linear(x, W, A, B, alpha):
    n, d_in, d_out, r = len(x), len(W), len(W[0]), len(B)
    y = np.zeros((n, d_out))
    for t in range(n):
        hidden = [sum(x[t, i] * A[i, k] for i in range(d_in)) for k in range(r)]
        for o in range(d_out):
            y[t, o] = sum(x[t, i] * W[i, o] for i in range(d_in))
            y[t, o] += alpha / r * sum(hidden[k] * B[k, o] for k in range(r))
    return y
''',
        "chinese_names_transposed": '''
import numpy as np


def lora_linear(输入, 权重, 降维, 升维, 系数):
    秩 = 升维.shape[0]
    增量 = 升维.T @ 降维.T
    return (权重.T @ 输入.T + 系数 / 秩 * (增量 @ 输入.T)).T
''',
    },
)  # fmt: skip
