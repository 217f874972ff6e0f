"""The gradient of attention: three gradients from one, back through every step of the formula."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np

from ... import ops
from ..formulas import (
    all_axes_turned,
    by_constant,
    by_d,
    by_root,
    by_root_of_length,
    by_root_of_queries,
    by_root_of_value_width,
    down_an_axis,
    flat_both,
    flat_maximum,
    flat_sum,
    minus_global_maximum,
    minus_mean,
    products,
    rows,
    unscaled,
    without_maximum,
)
from ..mistakes import say
from ..probes import drawn, integers, qkv
from ..task import Function, Line, Mistake, Probe, Task, Text, formula, within
from ..wire import Array
from .softmax_backward import TASK as SOFTMAX
from .softmax_backward import backward as through_softmax
from .softmax_backward import total_along

Gradients = tuple[Array, Array, Array]


def to_values(weights: Array, d_output: Array) -> Array:
    return weights.mT @ d_output


def to_weights(d_output: Array, V: Array) -> Array:
    return d_output @ V.mT


def to_queries(d_scores: Array, Q: Array, K: Array) -> Array:
    return d_scores @ K


def to_keys(d_scores: Array, Q: Array, K: Array) -> Array:
    return d_scores.mT @ Q


@formula
def backward(
    Q: Array,
    K: Array,
    V: Array,
    d_output: Array,
    *,
    product: Function = products,
    scale: Function = by_root,
    softmax: Function = rows,
    values: Function = to_values,
    unmix: Function = to_weights,
    unsoften: Function = through_softmax,
    unscale: Function = by_root,
    queries: Function = to_queries,
    keys: Function = to_keys,
    order: tuple[int, ...] = (0, 1, 2),
) -> Gradients:
    with np.errstate(all="ignore"):
        scores = product(Q, K)
        scaled = scale(scores, Q, K, V)
        weights = softmax(scaled)
        dV = values(weights, d_output)
        d_weights = unmix(d_output, V)
        d_scaled = unsoften(weights, d_weights)
        d_scores = unscale(d_scaled, Q, K, V)
        dQ = queries(d_scores, Q, K)
        dK = keys(d_scores, Q, K)
    first, second, third = ((dQ, dK, dV)[n] for n in order)
    return first, second, third


# the steps as they go wrong


def no_softmax(weights: Array, d_weights: Array) -> Array:
    return d_weights


def to_queries_without_root(d_scores: Array, Q: Array, K: Array) -> Array:
    return d_scores @ K * np.sqrt(Q.shape[-1])


def to_keys_without_root(d_scores: Array, Q: Array, K: Array) -> Array:
    return d_scores.mT @ Q * np.sqrt(Q.shape[-1])


def to_queries_by_root(d_scores: Array, Q: Array, K: Array) -> Array:
    return d_scores @ K / np.sqrt(Q.shape[-1])


def to_keys_by_root(d_scores: Array, Q: Array, K: Array) -> Array:
    return d_scores.mT @ Q / np.sqrt(Q.shape[-1])


def weights_as_they_are(weights: Array, d_output: Array) -> Array:
    return weights @ d_output


def values_as_they_are(d_output: Array, V: Array) -> Array:
    return d_output @ V


def weights_turned(d_output: Array, V: Array) -> Array:
    return V @ d_output.mT


def queries_transposed(d_scores: Array, Q: Array, K: Array) -> Array:
    return d_scores.mT @ K


def keys_as_they_are(d_scores: Array, Q: Array, K: Array) -> Array:
    return d_scores @ Q


def queries_with_queries(d_scores: Array, Q: Array, K: Array) -> Array:
    return d_scores @ Q


def keys_with_keys(d_scores: Array, Q: Array, K: Array) -> Array:
    return d_scores.mT @ K


def all_value_axes_turned(d_output: Array, V: Array) -> Array:
    return d_output @ V.T


def all_weight_axes_turned(weights: Array, d_output: Array) -> Array:
    return weights.T @ d_output


def all_score_axes_turned(d_scores: Array, Q: Array, K: Array) -> Array:
    return d_scores.T @ Q


def in_dtype_of_inputs(*given: Array) -> Any:
    return tuple(gradient.astype(x.dtype) for gradient, x in zip(backward(*given), given))


def scaled_in_place(Q: Array, K: Array, V: Array, d_output: Array) -> Gradients:
    gradients = backward(Q, K, V, d_output)
    Q /= np.sqrt(Q.shape[-1])
    return gradients


def changed(**steps: Any) -> Function:
    return partial(backward, **steps)


def from_softmax(name: str, *more: Function) -> Mistake:
    """A mistake of the gradient of softmax, inside this one."""
    mistake = next(m for m in SOFTMAX.mistakes if m.id == name)
    return replace(mistake, variations=(*more, *within(backward, "unsoften", *mistake.variations)))


def reference(Q: Array, K: Array, V: Array, d_output: Array) -> Any:
    output, lse = ops.attention(Q, K, V, return_lse=True)
    return ops.attention_backward(d_output, Q, K, V, output, lse)


def inputs(seed: int, Tq: int, Tk: int, d_k: int, d_v: int, lead: tuple[int, ...] = ()) -> dict[str, Any]:
    return {**qkv(seed, Tq, Tk, d_k, d_v, lead), "d_output": drawn(seed + 3, *lead, Tq, d_v)}


def far_apart() -> dict[str, Any]:
    """Rows of scores near 1000 with one of 3000, near -1000 with one of -3000, and near 0."""
    Q, K = drawn(51, 3, 4), drawn(52, 5, 4)
    Q[:, 0], K[:, 0] = (2000.0, -2000.0, 0.0), (1.0, 1.0, 1.0, 1.0, 3.0)
    return {**inputs(41, 3, 5, 4, 2), "Q": Q, "K": K}


TURNED = {"values": all_weight_axes_turned, "unmix": all_value_axes_turned, "keys": all_score_axes_turned}

TASK = Task(
    name="attention_backward",
    signature="attention_backward(Q, K, V, d_output)",
    returns=Text("(dQ, dK, dV), the shapes of Q, K and V", "(dQ, dK, dV)，形状与 Q、K、V 相同"),
    title=Text("The gradient of attention", "注意力的反向传播"),
    statement=Text(
        "output = softmax(Q Kᵀ / √d_k) V, without a mask: Q (..., Tq, d_k), K (..., Tk, d_k), V (..., Tk, d_v).\n"
        "d_output (..., Tq, d_v) is the gradient of a loss with respect to output.\n"
        "Return the gradients with respect to Q, K and V, in this order. Compute the weights again from Q and K;\n"
        "scores may be large. The inputs stay as they are.",
        "output = softmax(Q Kᵀ / √d_k) V，不加掩码：Q (..., Tq, d_k)，K (..., Tk, d_k)，V (..., Tk, d_v)。\n"
        "d_output (..., Tq, d_v) 是损失对 output 的梯度。\n"
        "按这个次序返回损失对 Q、K、V 的梯度。权重要由 Q 和 K 重新算出；\n"
        "分数可能很大。不要改动输入。",
    ),
    reference=reference,
    formula=backward,
    probes=(
        Probe("example", {"Q": np.array([[1.0, 2.0], [-1.0, 1.0]]), "K": np.array([[1.0, 0.0], [0.0, 1.0], [2.0, -1.0]]),
                          "V": np.array([[1.0, 2.0], [3.0, 5.0], [-2.0, 4.0]]), "d_output": np.array([[1.0, 0.0], [0.5, -1.0]])},
              Text("two queries, three keys", "两个查询、三个键")),
        Probe("cube", inputs(11, 3, 3, 3, 3, (3,)),
              Text("a batch with all sizes equal: nothing breaks, only values differ", "有批量的维，各个尺寸都相同：不会报错，只有数值不同")),
        Probe("far_apart", far_apart(), Text("every size different; scores of thousands in one row, of minus thousands in another", "每个尺寸都不同；一行分数上千，另一行低于负一千")),
        Probe("integers", {**integers(), "d_output": np.array([[1, 0, -1, 2], [0, 1, 1, -2], [3, 0, 0, 1]])},
              Text("integer inputs", "输入是整数")),
    ),
    mistakes=(
        from_softmax("backward_missing_row_sum"),
        from_softmax("backward_diagonal_only"),
        from_softmax("backward_sum_unweighted"),
        from_softmax("backward_no_weights"),
        from_softmax("backward_sign"),
        Mistake("backward_no_softmax", (changed(unsoften=no_softmax),), say(
            ("The gradient skips the softmax: that of the weights is taken for that of the scores.",
             "梯度跳过了 softmax：把权重的梯度直接当成了分数的梯度。"),
            ("a gradient that does not go back through the softmax", "没有经过 softmax 的梯度"),
            ("What lies between the scores and the weights on the way forward?", "正向计算时，分数与权重之间隔着哪一步？"),
            ("Look between d_output @ Vᵀ and the product with K.", "看 d_output @ Vᵀ 与乘 K 之间的那一步。"),
            ("d_scaled = weights * (d_weights - (weights * d_weights).sum(axis=-1, keepdims=True)).",
             "d_scaled = weights * (d_weights - (weights * d_weights).sum(axis=-1, keepdims=True))。"),
        )),
        Mistake("backward_no_scale", (changed(unscale=unscaled), changed(queries=to_queries_without_root),
                                      changed(keys=to_keys_without_root)), say(
            ("On the way back, √d_k is missing from dQ or dK.", "反向计算时，dQ 或 dK 漏除了 √d_k。"),
            ("gradients of Q and K that are not both divided by √d_k", "dQ 与 dK 没有都除以 √d_k 的梯度"),
            ("The scores were divided by √d_k: by what must their gradient be multiplied?", "正向时分数除以了 √d_k，它的梯度要乘什么？"),
            ("Look between the softmax gradient and the products with K and Q.", "看 softmax 的梯度与乘 K、乘 Q 之间的那一步。"),
            ("d_scores = d_scaled / np.sqrt(Q.shape[-1]), then dQ and dK from d_scores.",
             "先 d_scores = d_scaled / np.sqrt(Q.shape[-1])，再由 d_scores 算 dQ 和 dK。"),
        )),
        Mistake("backward_scale_twice", (changed(unscale=by_d), changed(queries=to_queries_by_root), changed(keys=to_keys_by_root)), say(
            ("On the way back, √d_k divides dQ or dK twice.", "反向计算时，dQ 或 dK 除了两次 √d_k。"),
            ("gradients of Q or K divided by d_k instead of √d_k", "除以 d_k 而不是 √d_k 的 dQ 或 dK"),
            ("How often were the scores divided by √d_k on the way forward?", "正向时分数除了几次 √d_k？"),
            ("Count the divisions by √d_k after the softmax gradient.", "数一数 softmax 的梯度之后除了几次 √d_k。"),
            ("Divide once: in d_scores, not again in dQ and dK.", "只除一次：在 d_scores 里除过，就不要在 dQ、dK 里再除。"),
        )),
        Mistake("no_scale", (changed(scale=unscaled, unscale=unscaled), changed(scale=unscaled))),
        Mistake("scale_by_d", (changed(scale=by_d, unscale=by_d), changed(scale=by_d))),
        Mistake("scale_wrong_size", tuple(changed(scale=s, unscale=s) for s in (
            by_root_of_length, by_root_of_queries, by_root_of_value_width))),
        Mistake("scale_hard_coded", tuple(changed(scale=s, unscale=s) for s in (
            partial(by_constant, constant=8.0), partial(by_constant, constant=512**0.5)))),
        Mistake("backward_transposed", (
            changed(values=weights_as_they_are), changed(keys=keys_as_they_are),
            changed(values=weights_as_they_are, keys=keys_as_they_are), changed(queries=queries_transposed),
            changed(queries=queries_transposed, keys=keys_as_they_are), changed(unmix=values_as_they_are),
            changed(unmix=weights_turned),
        ), say(
            ("In one of the products of the gradient, a transpose is missing or one too many.", "梯度的某个乘积里，少了或多了一次转置。"),
            ("gradients with a transpose missing or one too many", "少了或多了一次转置的梯度"),
            ("Write down the shapes with Tq ≠ Tk: does every product still fit?", "取 Tq ≠ Tk，写出每一步的形状：每个乘法都还对得上吗？"),
            ("Look at the four products with weights, d_output and d_scores.", "看用到 weights、d_output、d_scores 的四个乘法。"),
            ("dV = weightsᵀ @ d_output, d_weights = d_output @ Vᵀ, dQ = d_scores @ K, dK = d_scoresᵀ @ Q.",
             "dV = weightsᵀ @ d_output，d_weights = d_output @ Vᵀ，dQ = d_scores @ K，dK = d_scoresᵀ @ Q。"),
        )),
        Mistake("backward_operands_swapped", (
            changed(queries=queries_with_queries, keys=keys_with_keys), changed(queries=queries_with_queries),
            changed(keys=keys_with_keys),
        ), say(
            ("dQ is made with Q or dK with K: each needs the other one.", "dQ 用了 Q，或 dK 用了 K：其实要用对方。"),
            ("gradients in which Q and K are multiplied by themselves", "dQ 乘了 Q、或 dK 乘了 K 的梯度"),
            ("What is the derivative of q · k by q?", "q · k 对 q 的导数是什么？"),
            ("Look at the last factor in dQ and in dK.", "看 dQ 与 dK 的最后一个因子。"),
            ("dQ = d_scores @ K, dK = d_scoresᵀ @ Q.", "dQ = d_scores @ K，dK = d_scoresᵀ @ Q。"),
        )),
        Mistake("gradients_out_of_order", tuple(changed(order=p) for p in permutations(range(3)) if p != (0, 1, 2)), say(
            ("The three gradients are returned in another order.", "三个梯度返回的次序不对。"),
            ("the right gradients in another order", "次序不同的正确梯度"),
            ("Which gradient is asked for first?", "最先要返回的是哪个梯度？"),
            ("Look at the return statement.", "看 return 语句。"),
            ("return dQ, dK, dV.", "return dQ, dK, dV。"),
        )),
        from_softmax("softmax_wrong_axis", *(changed(softmax=partial(down_an_axis, axis=a), unsoften=partial(
            through_softmax, sum_of=partial(total_along, axis=b))) for a in (-2, 0, 1) for b in {a, -1})),
        from_softmax("softmax_no_keepdims", *(changed(softmax=s) for s in (flat_maximum, flat_sum, flat_both))),
        from_softmax("backward_softmax_again"),
        Mistake("softmax_no_max", (changed(softmax=without_maximum),)),
        Mistake("softmax_wrong_shift", (changed(softmax=minus_mean),)),
        Mistake("softmax_global_max", (changed(softmax=minus_global_maximum),)),
        Mistake("batch_axes_turned", (changed(product=all_axes_turned), changed(product=all_axes_turned, **TURNED),
                                      changed(**TURNED), *(changed(**{step: f}) for step, f in TURNED.items()))),
        Mistake("integer_result", (in_dtype_of_inputs,)),
        Mistake("mutates_input", (scaled_in_place,)),
    ),
    solution=(
        Line("def attention_backward(Q, K, V, d_output):\n    root = np.sqrt(Q.shape[-1])",
             "The forward pass once more: its weights are needed.", "先重做一次正向计算，因为要用到权重。"),
        Line("    scores = Q @ K.swapaxes(-1, -2) / root\n    exp = np.exp(scores - scores.max(axis=-1, keepdims=True))\n"
             "    weights = exp / exp.sum(axis=-1, keepdims=True)",
             "softmax(Q Kᵀ / √d_k).", "softmax(Q Kᵀ / √d_k)。"),
        Line("    dV = weights.swapaxes(-1, -2) @ d_output", "Each value gets back from each query as much as it gave.",
             "每个值给了某个查询多少权重，就按多少收回梯度。"),
        Line("    d_weights = d_output @ V.swapaxes(-1, -2)", "A weight counts as much as its value points along d_output.",
             "一个权重的梯度，是它的值与 d_output 的点积。"),
        Line("    d_scores = weights * (d_weights - (weights * d_weights).sum(axis=-1, keepdims=True)) / root",
             "Back through the softmax, row by row, and through the scale.", "逐行穿回 softmax，再穿回缩放。"),
        Line("    return d_scores @ K, d_scores.swapaxes(-1, -2) @ Q, dV",
             "q · k has the derivative k for q, and q for k.", "q · k 对 q 的导数是 k，对 k 的导数是 q。"),
    ),
    styles={
        "einsum": '''
import numpy as np


def attention_backward(Q, K, V, d_output):
    scale = Q.shape[-1] ** -0.5
    s = np.einsum("...id,...jd->...ij", Q, K) * scale
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    dv = np.einsum("...ij,...ie->...je", p, d_output)
    dp = np.einsum("...ie,...je->...ij", d_output, V)
    ds = p * (dp - np.einsum("...ij,...ij->...i", p, dp)[..., None])
    return scale * np.einsum("...ij,...jd->...id", ds, K), scale * np.einsum("...ij,...id->...jd", ds, Q), dv
''',
        "delta_from_the_output": '''
import numpy as np


def attention_backward(Q, K, V, d_output):
    q = Q / np.sqrt(Q.shape[-1])
    s = q @ K.mT
    top = s.max(axis=-1, keepdims=True)
    lse = top + np.log(np.exp(s - top).sum(axis=-1, keepdims=True))
    P = np.exp(s - lse)
    O = P @ V
    delta = np.sum(d_output * O, axis=-1, keepdims=True)
    dS = P * (d_output @ V.mT - delta)
    return dS @ K / np.sqrt(Q.shape[-1]), dS.mT @ q, P.mT @ d_output
''',
        "loops_with_the_jacobian": '''
import numpy as np


def one(Q, K, V, dO):
    dQ, dK, dV = np.zeros(Q.shape), np.zeros(K.shape), np.zeros(V.shape)
    root = len(Q[0]) ** 0.5
    for i in range(len(Q)):
        s = K @ Q[i] / root
        w = np.exp(s - max(s)) / sum(np.exp(s - max(s)))
        dw = V @ dO[i]
        ds = (np.diag(w) - np.outer(w, w)) @ dw / root
        for j in range(len(K)):
            dV[j] += w[j] * dO[i]
            dQ[i] += ds[j] * K[j]
            dK[j] += ds[j] * Q[i]
    return dQ, dK, dV


def attention_backward(Q, K, V, d_output):
    if Q.ndim == 2:
        return one(Q, K, V, d_output)
    parts = [attention_backward(*four) for four in zip(Q, K, V, d_output)]
    return tuple(np.stack(gradients) for gradients in zip(*parts))
''',
        "class_with_chinese_names": '''
import numpy as np


class 注意力:
    def 正向(self, 查询, 键, 值):
        self.查询, self.键, self.值 = 查询, 键, 值
        self.根 = 查询.shape[-1] ** 0.5
        分数 = 查询 @ np.swapaxes(键, -1, -2) / self.根
        指数 = np.exp(分数 - 分数.max(-1, keepdims=True))
        self.权重 = 指数 / 指数.sum(-1, keepdims=True)
        return self.权重 @ 值

    def 反向(self, 输出梯度):
        权重梯度 = 输出梯度 @ np.swapaxes(self.值, -1, -2)
        乘积 = self.权重 * 权重梯度
        分数梯度 = (乘积 - self.权重 * 乘积.sum(-1, keepdims=True)) / self.根
        return (
            分数梯度 @ self.键,
            np.swapaxes(分数梯度, -1, -2) @ self.查询,
            np.swapaxes(self.权重, -1, -2) @ 输出梯度,
        )


def attention_backward(Q, K, V, d_output):
    层 = 注意力()
    层.正向(Q, K, V)
    return 层.反向(d_output)
''',
    },
)  # fmt: skip
