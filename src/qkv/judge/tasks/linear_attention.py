"""Linear attention: a feature map in place of the softmax, so that keys and values can be summed up first."""

from __future__ import annotations

from functools import partial

import numpy as np

from ... import ops
from ..formulas import attention
from ..mistakes import say
from ..probes import SQUARE, qkv
from ..task import Function, Line, Mistake, Probe, Task, Text, formula
from ..wire import Array


def elu_plus_one(x: Array) -> Array:
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def as_it_is(x: Array) -> Array:
    return x


def last_two(x: Array) -> Array:
    return x.mT


def with_all_keys(q_features: Array, k_features: Array, K: Array) -> Array:
    return (q_features * k_features.sum(axis=-2, keepdims=True)).sum(axis=-1, keepdims=True)


def divided(mixed: Array, normaliser: Array) -> Array:
    return mixed / normaliser


def unchanged(result: Array, V: Array) -> Array:
    return result


@formula
def linear(
    Q: Array,
    K: Array,
    V: Array,
    *,
    map_queries: Function = elu_plus_one,
    map_keys: Function = elu_plus_one,
    map_values: Function = as_it_is,
    turn: Function = last_two,
    norm: Function = with_all_keys,
    divide: Function = divided,
    finish: Function = unchanged,
) -> Array:
    with np.errstate(all="ignore"):
        q_features = map_queries(Q)
        k_features = map_keys(K)
        state = turn(k_features) @ map_values(V)
        normaliser = norm(q_features, k_features, K)
        output = finish(divide(q_features @ state, normaliser), V)
    return output


def all_axes(x: Array) -> Array:
    return x.T


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def relu_plus_one(x: Array) -> Array:
    return np.maximum(x, 0) + 1


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softplus(x: Array) -> Array:
    return np.logaddexp(x, 0)


def softmax(x: Array, *, axis: int) -> Array:
    exp = np.exp(x - x.max(axis=axis, keepdims=True))
    return exp / exp.sum(axis=axis, keepdims=True)


def elu(x: Array) -> Array:
    return elu_plus_one(x) - 1


def one_for_positive_only(x: Array) -> Array:
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)) - 1)


def one_for_negative_only(x: Array) -> Array:
    return np.where(x > 0, x, np.exp(np.minimum(x, 0)))


def one_too_many_for_negative(x: Array) -> Array:
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)) + 1)


def branches_swapped(x: Array) -> Array:
    return np.where(x > 0, np.exp(x), x + 1)


def both_branches_times_truth(x: Array) -> Array:
    return (x > 0) * (x + 1) + (x <= 0) * np.exp(x)


def scaled_first(x: Array, *, power: float) -> Array:
    return elu_plus_one(x / x.shape[-1] ** power)


def in_dtype_of_input(x: Array) -> Array:
    return elu_plus_one(x).astype(x.dtype)


def in_place(x: Array) -> Array:
    x = np.asarray(x, dtype=float)
    low = x <= 0
    x[low] = np.exp(x[low])
    x[~low] += 1
    return x


def in_dtype_of_values(result: Array, V: Array) -> Array:
    return result.astype(V.dtype)


def undivided(mixed: Array, normaliser: Array) -> Array:
    return mixed


def values_alone(result: Array, V: Array) -> Array:
    return V


def with_raw_keys(q_features: Array, k_features: Array, K: Array) -> Array:
    return with_all_keys(q_features, K, K)


def number_of_keys(q_features: Array, k_features: Array, K: Array) -> Array:
    return np.array(float(K.shape[-2]))


def sum_of_queries(q_features: Array, k_features: Array, K: Array) -> Array:
    return q_features.sum(axis=-1, keepdims=True)


def sum_of_keys(q_features: Array, k_features: Array, K: Array) -> Array:
    return k_features.sum(axis=(-2, -1), keepdims=True)


def row_sums_squared(q_features: Array, k_features: Array, K: Array) -> Array:
    return q_features.sum(axis=-1, keepdims=True) * k_features.sum(axis=(-2, -1), keepdims=True)


def columns_sum_to_one(Q: Array, K: Array, V: Array) -> Array:
    products = elu_plus_one(Q) @ elu_plus_one(K).mT
    return (products / products.sum(axis=-2, keepdims=True)) @ V


def running_sums(Q: Array, K: Array, V: Array) -> Array:
    q_features, k_features = elu_plus_one(Q), elu_plus_one(K)
    states = np.cumsum(k_features[..., :, None] * V[..., None, :], axis=-3)
    normaliser = (q_features * np.cumsum(k_features, axis=-2)).sum(axis=-1, keepdims=True)
    return (q_features[..., None, :] @ states)[..., 0, :] / normaliser


def lower_triangle(Q: Array, K: Array, V: Array) -> Array:
    products = np.tril(elu_plus_one(Q) @ elu_plus_one(K).mT)
    return products @ V / products.sum(axis=-1, keepdims=True)


def ordinary(Q: Array, K: Array, V: Array, **steps: Function) -> Array:
    return np.asarray(attention(Q, K, V, **steps)[0])


def unscaled(scores: Array, Q: Array, K: Array, V: Array) -> Array:
    return scores


def queries_and_keys_swapped(Q: Array, K: Array, V: Array) -> Array:
    return np.asarray(linear(K, Q, V))


def keys_and_values_swapped(Q: Array, K: Array, V: Array) -> Array:
    return np.asarray(linear(Q, V, K))


def mapped(*maps: Function) -> tuple[Function, ...]:
    """Each map for queries and keys alike."""
    return tuple(partial(linear, map_queries=m, map_keys=m) for m in maps)


def huge() -> dict[str, Array]:
    """One query of 1000 and -1, one of -1000 and 2: exp overflows where it is not needed."""
    return {"Q": np.array([[1000.0, -1.0], [-1000.0, 2.0]]), "K": np.array([[2.0, 3.0], [0.5, -3.0], [-1.0, 0.0]]),
            "V": np.array([[1.0, 4.0], [3.0, -2.0], [2.0, 7.0]])}  # fmt: skip


def integers() -> dict[str, Array]:
    """Whole numbers, zero and negative ones among them."""
    return {"Q": np.array([[1, -1, 0], [0, 2, -2]]), "K": np.array([[-1, 1, 2], [0, -2, 1], [3, 0, -1], [1, 1, 0]]),
            "V": np.array([[1, 2, 0, 3, 8], [7, 4, 6, 1, 2], [3, 5, 2, 2, 9], [9, 0, 4, 7, 5]])}  # fmt: skip


def reference(Q: Array, K: Array, V: Array) -> Array:
    return ops.linear_attention(Q, K, V)


TASK = Task(
    name="linear_attention",
    signature="linear_attention(Q, K, V)",
    returns=Text("output (..., Tq, d_v)", "output (..., Tq, d_v)"),
    title=Text("Linear attention", "线性注意力"),
    statement=Text(
        "φ(Q) (φ(K)ᵀ V), each row divided by φ(q) · Σ φ(k), with φ(x) = elu(x) + 1: x + 1 for x > 0, exp(x) otherwise.\n"
        "Q is (..., Tq, d_k), K is (..., Tk, d_k), V is (..., Tk, d_v). Not causal, no scaling.\n"
        "Numbers may be large; the inputs stay as they are.",
        "φ(Q) (φ(K)ᵀ V)，每行除以 φ(q) · Σ φ(k)，其中 φ(x) = elu(x) + 1：x > 0 时为 x + 1，否则为 exp(x)。\n"
        "Q 为 (..., Tq, d_k)，K 为 (..., Tk, d_k)，V 为 (..., Tk, d_v)。不带因果，不缩放。\n"
        "数可能很大；不要改动输入。",
    ),
    reference=reference,
    formula=linear,
    probes=(
        Probe("example", {"Q": np.array([[1.0, -1.0], [0.0, 2.0]]), "K": np.array([[1.0, 0.0], [-1.0, 1.0], [2.0, -2.0]]),
                          "V": np.array([[1.0, 2.0], [3.0, 5.0], [-2.0, 4.0]])},
              Text("two queries, three keys: small enough to work out by hand", "两个查询、三个键：小到可以手算")),
        Probe("square", qkv(11, 6, 6, 6, 6), SQUARE),
        Probe("batch", qkv(31, 4, 4, 3, 5, (2, 3)), Text("axes in front", "前面还有批量的维")),
        Probe("huge", huge(), Text("numbers of 1000: exp overflows", "数达到 1000：exp 会溢出")),
        Probe("integers", integers(), Text("integers, zero and negative ones too; every size different", "整数，含 0 和负数；每个尺寸都不同")),
    ),
    mistakes=(
        Mistake("linear_no_normaliser", (partial(linear, divide=undivided),), say(
            ("The output is not divided by φ(q) · Σ φ(k).", "输出没有除以 φ(q) · Σ φ(k)。"),
            ("linear attention without its normaliser", "没有归一化的线性注意力"),
            ("If every value is 1, what should the output be?", "如果所有的值都是 1，输出应该是多少？"),
            ("Look at the last step.", "看最后一步。"),
            ("Divide: out / (phi_q @ phi_k.sum(axis=-2)[..., None]).", "做除法：out / (phi_q @ phi_k.sum(axis=-2)[..., None])。"),
        )),
        Mistake("linear_wrong_normaliser", (
            *(partial(linear, norm=n) for n in (with_raw_keys, number_of_keys, sum_of_queries, sum_of_keys,
                                                row_sums_squared)), columns_sum_to_one), say(
            ("The output is divided by something other than φ(q) · Σ φ(k).", "输出除以的不是 φ(q) · Σ φ(k)。"),
            ("linear attention divided by a wrong sum", "除以了错误的和的线性注意力"),
            ("If every value is 1, what should the output be?", "如果所有的值都是 1，输出应该是多少？"),
            ("Look at what is summed, along which axis, and after which map.", "看求和的是什么、沿哪一维、有没有先经过 φ。"),
            ("Sum φ(K) over the keys, then take the product with φ(q): phi_q @ phi_k.sum(axis=-2)[..., None].",
             "先把 φ(K) 沿键求和，再与 φ(q) 相乘：phi_q @ phi_k.sum(axis=-2)[..., None]。"),
        )),
        Mistake("linear_no_plus_one", mapped(elu, one_for_positive_only, one_for_negative_only, one_too_many_for_negative), say(
            ("The + 1 of elu(x) + 1 is missing or misplaced in a branch.", "elu(x) + 1 中的 + 1 漏了，或放错了分支。"),
            ("linear attention whose φ has its + 1 in the wrong place", "φ 的 + 1 有误的线性注意力"),
            ("What is your φ(0), from either side? And φ(-20)?", "你的 φ(0) 从两侧看各是多少？φ(-20) 呢？"),
            ("Look at both branches of φ.", "看 φ 的两个分支。"),
            ("elu is exp(x) - 1 for x <= 0, so φ is np.where(x > 0, x + 1, np.exp(x)).",
             "x <= 0 时 elu 为 exp(x) - 1，所以 φ 是 np.where(x > 0, x + 1, np.exp(x))。"),
        )),
        Mistake("linear_other_map", (
            *mapped(relu, relu_plus_one, np.exp, sigmoid, softplus, as_it_is, branches_swapped),
            partial(linear, map_queries=partial(softmax, axis=-1), map_keys=partial(softmax, axis=-2), divide=undivided),
            partial(linear, map_queries=partial(softmax, axis=-1), map_keys=partial(softmax, axis=-2)),
            partial(linear, map_queries=partial(softmax, axis=-1), map_keys=partial(softmax, axis=-1))), say(
            ("Queries and keys go through another map than elu(x) + 1.", "查询和键经过的不是 elu(x) + 1，而是别的映射。"),
            ("linear attention with another φ", "换了别的 φ 的线性注意力"),
            ("What is your φ(-1), and your φ(2)?", "你的 φ(-1) 和 φ(2) 各是多少？"),
            ("Look at φ.", "看 φ。"),
            ("np.where(x > 0, x + 1, np.exp(x)).", "np.where(x > 0, x + 1, np.exp(x))。"),
        )),
        Mistake("linear_map_missing", (partial(linear, map_queries=as_it_is), partial(linear, map_keys=as_it_is)), say(
            ("Only one of queries and keys goes through φ.", "查询和键中只有一个经过了 φ。"),
            ("linear attention with φ on one side only", "只有一侧经过 φ 的线性注意力"),
            ("Can a weight of yours be negative?", "你的权重会是负数吗？"),
            ("Look at where φ is applied.", "看 φ 用在哪里。"),
            ("Both: phi_q = φ(Q), phi_k = φ(K).", "两个都要：phi_q = φ(Q)，phi_k = φ(K)。"),
        )),
        Mistake("linear_values_mapped", (partial(linear, map_values=elu_plus_one),), say(
            ("The values go through φ too.", "值也经过了 φ。"),
            ("linear attention with φ(V) in place of V", "用 φ(V) 代替 V 的线性注意力"),
            ("Can your output be negative?", "你的输出可能是负数吗？"),
            ("Look at where φ is applied.", "看 φ 用在哪里。"),
            ("Map queries and keys only; V stays as it is.", "只映射查询和键，V 保持原样。"),
        )),
        Mistake("linear_is_softmax", (ordinary, partial(ordinary, scale=unscaled)), say(
            ("This is ordinary softmax attention.", "这是普通的 softmax 注意力。"),
            ("softmax attention, not linear attention", "softmax 注意力，而不是线性注意力"),
            ("Which function replaces the exponential of q·k?", "用什么函数代替了 q·k 的指数？"),
            ("Look at the softmax.", "看 softmax。"),
            ("Weights are φ(q) · φ(k), divided by their sum.", "权重是 φ(q) · φ(k)，再除以它们的和。"),
        )),
        Mistake("linear_scaled", tuple(
            partial(linear, **{name: partial(scaled_first, power=power) for name in names})
            for names, power in ((("map_queries",), 0.5), (("map_keys",), 0.5), (("map_queries", "map_keys"), 0.25),
                                 (("map_queries", "map_keys"), 0.5))), say(
            ("Queries or keys are divided by √d_k before φ.", "在 φ 之前把查询或键除以了 √d_k。"),
            ("linear attention with inputs scaled before φ", "在 φ 之前缩放了输入的线性注意力"),
            ("Does the formula hold a √d_k?", "公式里有 √d_k 吗？"),
            ("Look at what φ is given.", "看传给 φ 的是什么。"),
            ("φ(Q) and φ(K), without scaling.", "直接用 φ(Q) 和 φ(K)，不要缩放。"),
        )),
        Mistake("linear_exp_overflow", mapped(both_branches_times_truth), say(
            ("exp is taken of large numbers and then multiplied by 0, which gives NaN.", "先对很大的数取了 exp，再乘 0，得到 NaN。"),
            ("linear attention whose φ is NaN for large numbers", "φ 对很大的数得到 NaN 的线性注意力"),
            ("What is 0 * np.exp(1000)?", "0 * np.exp(1000) 是多少？"),
            ("Look at how φ chooses between its branches.", "看 φ 怎样在两个分支之间选择。"),
            ("Choose, don't multiply: np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))).",
             "要选择，不要相乘：np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))。"),
        )),
        Mistake("causal_not_asked", (running_sums, lower_triangle)),
        Mistake("qk_swapped", (queries_and_keys_swapped,), say(
            ("Queries and keys are swapped.", "查询与键对调了。"),
            ("linear attention with Q and K swapped", "Q 与 K 对调的线性注意力"),
            ("How many rows should the output have: Tq or Tk?", "输出应有几行：Tq 还是 Tk？"),
            ("Look at which of the two is summed up with V.", "看与 V 一起求和的是哪一个。"),
            ("state = φ(K)ᵀ V, output = φ(Q) state.", "state = φ(K)ᵀ V，output = φ(Q) state。"),
        )),
        Mistake("batch_axes_turned", (partial(linear, turn=all_axes),)),
        Mistake("keys_not_transposed", (partial(linear, turn=as_it_is),), say(
            ("φ(K) is not transposed before it meets V.", "φ(K) 与 V 相乘之前没有转置。"),
            ("linear attention with φ(K) V in place of φ(K)ᵀ V", "用 φ(K) V 代替 φ(K)ᵀ V 的线性注意力"),
            ("Over which axis of K and of V must be summed?", "应该沿 K 和 V 的哪一维求和？"),
            ("Look at the product of keys and values.", "看键与值的乘积。"),
            ("Sum over the keys: phi_k.swapaxes(-1, -2) @ V.", "沿键求和：phi_k.swapaxes(-1, -2) @ V。"),
        )),
        Mistake("kv_swapped", (keys_and_values_swapped,)),
        Mistake("returns_values_only", (partial(linear, finish=values_alone),), say(
            ("The output is V itself.", "输出就是 V 本身。"),
            ("V, not mixed by any weights", "没有用权重混合的 V"),
            ("Does your output depend on Q?", "你的输出与 Q 有关吗？"),
            ("Look at what is returned.", "看返回的是什么。"),
            ("Return φ(Q) (φ(K)ᵀ V), divided row by row.", "返回 φ(Q) (φ(K)ᵀ V)，并逐行做除法。"),
        )),
        Mistake("integer_result", (*mapped(in_dtype_of_input), partial(linear, finish=in_dtype_of_values))),
        Mistake("mutates_input", (*mapped(in_place), partial(linear, map_queries=in_place),
                                  partial(linear, map_keys=in_place))),
    ),
    aliases={
        "q_features": ("phi_q", "phi_Q", "q", "Qp", "Q_", "fq", "qf"), "k_features": ("phi_k", "phi_K", "k", "Kp", "K_"),
        "state": ("kv", "KV", "S", "s", "context", "状态"), "normaliser": ("z", "Z", "norm", "denominator", "den", "分母"),
    },
    solution=(
        Line("def linear_attention(Q, K, V):\n    def phi(x):\n        return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))\n",
             "elu(x) + 1 is positive everywhere, as weights must be; the minimum keeps exp from overflowing.",
             "elu(x) + 1 处处为正，正如权重所需；取最小值使 exp 不溢出。"),
        Line("    phi_q, phi_k = phi(Q), phi(K)", "Features in place of exp(q·k).", "用特征代替 exp(q·k)。"),
        Line("    state = phi_k.swapaxes(-1, -2) @ V",
             "Keys and values are summed up once, (d_k, d_v), whatever the number of queries.",
             "键和值只汇总一次，(d_k, d_v)，与查询数无关。"),
        Line("    normaliser = phi_q @ phi_k.sum(axis=-2)[..., None]",
             "What the weights of each query sum to.", "每个查询的权重之和。"),
        Line("    return phi_q @ state / normaliser", "So the output is an average of the values.", "这样输出就是值的平均。"),
    ),
    styles={
        "quadratic": '''
import numpy as np


def phi(x):
    return np.where(x > 0, x, np.exp(x) - 1) + 1


def linear_attention(Q, K, V):
    A = phi(Q) @ np.swapaxes(phi(K), -1, -2)
    A = A / A.sum(axis=-1, keepdims=True)
    return A @ V
''',
        "einsum": '''
import numpy as np


def linear_attention(Q, K, V):
    q, k = (np.maximum(x, 0) + np.exp(np.minimum(x, 0)) for x in (Q, K))
    kv = np.einsum("...nd,...nm->...dm", k, V)
    z = 1 / np.einsum("...ld,...d->...l", q, k.sum(axis=-2))
    return np.einsum("...ld,...dm,...l->...lm", q, kv, z)
''',
        "loops": '''
import math

import numpy as np


def phi(row):
    return [float(x) + 1 if x > 0 else math.exp(x) for x in row]


def linear_attention(Q, K, V):
    lead = Q.shape[:-2]
    out = np.zeros((*lead, Q.shape[-2], V.shape[-1]))
    for b in np.ndindex(*lead):
        keys = [phi(k) for k in K[b]]
        for i, q in enumerate(Q[b]):
            w = [sum(x * y for x, y in zip(phi(q), k)) for k in keys]
            for j, v in enumerate(V[b]):
                out[b][i] += w[j] * v / sum(w)
    return out
''',
        "ones_beside_the_values": '''
import numpy as np


class LinearAttention:
    def feature(self, x):
        y = np.array(x, dtype=float)
        low = y <= 0
        y[low] = np.exp(y[low])
        y[~low] += 1
        return y

    def forward(self, q, k, v):
        v1 = np.concatenate([v, np.ones((*v.shape[:-1], 1))], axis=-1)
        o = self.feature(q) @ (self.feature(k).mT @ v1)
        return o[..., :-1] / o[..., -1:]


def linear_attention(Q, K, V):
    return LinearAttention().forward(Q, K, V)
''',
        "chinese_names": '''
import numpy as np


def 特征(x):
    return np.where(x > 0, x + 1, np.exp(x))


def linear_attention(查询, 键, 值):
    查询特征, 键特征 = 特征(查询), 特征(键)
    分子 = 查询特征 @ (np.swapaxes(键特征, -1, -2) @ 值)
    分母 = (查询特征 * 键特征.sum(axis=-2, keepdims=True)).sum(axis=-1, keepdims=True)
    return 分子 / (分母 + 1e-9)
''',
    },
)  # fmt: skip
