"""A transformer block: causal attention and a feed-forward layer, each normalised before and added to the stream."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from ...layers import Block, FeedForward, LayerNorm, MultiHeadAttention
from ...ops import gelu
from ..formulas import attention, changed, huge_negative, left_nan, mistakes
from ..mistakes import say
from ..probes import drawn
from ..task import Function, Line, Mistake, Probe, Task, Text, formula
from ..wire import Array
from .causal_mask import before_itself, behind_itself, everything, from_itself_on, up_to_itself, up_to_the_next
from .gelu import erf
from .multi_head_attention import (
    by_root_of_all_heads,
    merge,
    merged_without_swap,
    not_joined,
    one_head,
    projected,
    reshaped,
    split,
    with_transposed,
)

Parameters = Mapping[str, Array]


# the steps as they are right


def layer_norm(x: Array, gamma: Array, beta: Array, *, eps: float = 1e-5) -> Array:
    return gamma * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) + beta


def normed_stream(stream: Array, norm: Function, x: Array) -> Array:
    return np.asarray(norm(stream))


def exact(hidden: Array) -> Array:
    return hidden * (1 + erf(hidden / np.sqrt(2))) / 2


def plus(hidden: Array, bias: Array) -> Array:
    return hidden + bias


def added(stream: Array, part: Array, normed: Array, norm: Function, x: Array) -> Array:
    return stream + part


@formula
def block(
    x: Array,
    p: Parameters,
    n_heads: int,
    *,
    first: str = "ln1",
    second: str = "ln2",
    norm: Function = layer_norm,
    enter_1: Function = normed_stream,
    project: Function = projected,
    split_heads: Function = split,
    rule: Function = up_to_itself,
    attend: Function = attention,
    merge_heads: Function = merge,
    join: Function = projected,
    leave_1: Function = added,
    enter_2: Function = normed_stream,
    bias_1: Function = plus,
    bend: Function = exact,
    bias_2: Function = plus,
    leave_2: Function = added,
) -> Array:
    with np.errstate(all="ignore"):
        norm_1 = partial(norm, gamma=p[f"{first}_gamma"], beta=p[f"{first}_beta"])
        norm_2 = partial(norm, gamma=p[f"{second}_gamma"], beta=p[f"{second}_beta"])
        normed_1 = enter_1(x, norm_1, x)
        Q = split_heads(project(normed_1, p["W_Q"]), n_heads)
        K = split_heads(project(normed_1, p["W_K"]), n_heads)
        V = split_heads(project(normed_1, p["W_V"]), n_heads)
        mask = rule(np.arange(len(x))[:, None], np.arange(len(x)))
        heads = attend(Q, K, V, mask)[0]
        attended = join(merge_heads(heads), p["W_O"])
        resid_mid = leave_1(x, attended, normed_1, norm_1, x)
        normed_2 = enter_2(resid_mid, norm_2, x)
        hidden = bias_1(normed_2 @ p["W_1"], p["b_1"])
        bent = bend(hidden)
        fed = bias_2(bent @ p["W_2"], p["b_2"])
        resid_post = leave_2(resid_mid, fed, normed_2, norm_2, x)
    return resid_post


def reference(x: Array, p: Parameters, n_heads: int) -> Any:
    layer = Block(
        MultiHeadAttention(p["W_Q"], p["W_K"], p["W_V"], p["W_O"], n_heads),
        FeedForward(p["W_1"], p["W_2"], p["b_1"], p["b_2"]),
        LayerNorm(p["ln1_gamma"], p["ln1_beta"]),
        LayerNorm(p["ln2_gamma"], p["ln2_beta"]),
    )
    return layer(x, causal=True)


# the steps as they go wrong


def unbiased(x: Array, gamma: Array, beta: Array) -> Array:
    variance = x.var(-1, ddof=1, keepdims=True)
    return gamma * (x - x.mean(-1, keepdims=True)) / np.sqrt(variance + 1e-5) + beta


def eps_outside(x: Array, gamma: Array, beta: Array, *, ddof: int = 0) -> Array:
    return gamma * (x - x.mean(-1, keepdims=True)) / (x.std(-1, ddof=ddof, keepdims=True) + 1e-5) + beta


def by_variance(x: Array, gamma: Array, beta: Array) -> Array:
    return gamma * (x - x.mean(-1, keepdims=True)) / (x.var(-1, keepdims=True) + 1e-5) + beta


def down_the_tokens(x: Array, gamma: Array, beta: Array) -> Array:
    return gamma * (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5) + beta


def over_everything(x: Array, gamma: Array, beta: Array) -> Array:
    return gamma * (x - x.mean()) / np.sqrt(x.var() + 1e-5) + beta


def plain(x: Array, gamma: Array, beta: Array) -> Array:
    return layer_norm(x, np.ones(()), np.zeros(()))


def gamma_only(x: Array, gamma: Array, beta: Array) -> Array:
    return layer_norm(x, gamma, np.zeros(()))


def beta_only(x: Array, gamma: Array, beta: Array) -> Array:
    return layer_norm(x, np.ones(()), beta)


def root_mean_square(x: Array, gamma: Array, beta: Array, *, shift: float = 1.0) -> Array:
    return gamma * x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) + shift * beta


def stream_itself(stream: Array, norm: Function, x: Array) -> Array:
    return stream


def normed_input(stream: Array, norm: Function, x: Array) -> Array:
    return np.asarray(norm(x))


def part_alone(stream: Array, part: Array, normed: Array, norm: Function, x: Array) -> Array:
    return part


def stream_alone(stream: Array, part: Array, normed: Array, norm: Function, x: Array) -> Array:
    return stream


def to_normed(stream: Array, part: Array, normed: Array, norm: Function, x: Array) -> Array:
    return normed + part


def to_input(stream: Array, part: Array, normed: Array, norm: Function, x: Array) -> Array:
    return x + part


def norm_of_sum(stream: Array, part: Array, normed: Array, norm: Function, x: Array) -> Array:
    return np.asarray(norm(stream + part))


def norm_of_part(stream: Array, part: Array, normed: Array, norm: Function, x: Array) -> Array:
    return stream + np.asarray(norm(part))


def no_bias(hidden: Array, bias: Array) -> Array:
    return hidden


def by_tanh(hidden: Array) -> Array:
    return gelu(hidden, approximate="tanh")


def by_sigmoid(hidden: Array, *, steepness: float) -> Array:
    return hidden / (1 + np.exp(-steepness * hidden))


def relu(hidden: Array) -> Array:
    return np.maximum(hidden, 0)


def straight(hidden: Array) -> Array:
    return hidden


def feed_forward_first(x: Array, p: Parameters, n_heads: int, *, names: tuple[str, str] = ("ln1", "ln2")) -> Array:
    resid_mid = block(x, p, n_heads, second=names[1], leave_1=stream_alone)
    return np.asarray(block(resid_mid, p, n_heads, first=names[0], leave_2=stream_alone))


def in_place(x: Array, p: Parameters, n_heads: int) -> Array:
    x += block(x, p, n_heads) - x
    return x


def steps(**changes: Any) -> partial[Array]:
    return partial(block, **changes)


def each_and_both(name: str, step: Function) -> tuple[Function, ...]:
    """A step of the first half, of the second, of both."""
    one, two = f"{name}_1", f"{name}_2"
    return steps(**{one: step, two: step}), steps(**{one: step}), steps(**{two: step})


def hidden_rows(rule: Function) -> tuple[Function, ...]:
    """What may become of a row with nothing to look at: zeros, NaN, the mean of all values."""
    return tuple(steps(rule=rule, attend=a) for a in (attention, changed(settle=left_nan), changed(hide=huge_negative)))


def inputs(seed: int, n: int, d: int, n_heads: int, d_ff: int, **more: Any) -> dict[str, Any]:
    """x and all parameters, small enough that scores do not decide everything."""
    sizes = {
        "ln1_gamma": (d,), "ln1_beta": (d,), "W_Q": (d, d), "W_K": (d, d), "W_V": (d, d), "W_O": (d, d),
        "ln2_gamma": (d,), "ln2_beta": (d,), "W_1": (d, d_ff), "b_1": (d_ff,), "W_2": (d_ff, d), "b_2": (d,),
    }  # fmt: skip
    p = {name: drawn(seed + k, *size) / 2 for k, (name, size) in enumerate(sizes.items(), 1)}
    return {"x": drawn(seed, n, d), "p": {**p, **more}, "n_heads": n_heads}


def large() -> dict[str, Any]:
    """Scores of more than 1000, the largest of a row at the token itself; a token without ups and downs has scores of 0."""
    given = inputs(51, 4, 4, 1, 3, ln1_gamma=np.full(4, 30.0), ln1_beta=np.zeros(4), W_Q=np.eye(4), W_K=np.eye(4))
    given["x"][0] = 1.0
    return given


SIZES = np.array([[1.0], [0.003], [1.0], [20.0], [1.0]])

TASK = Task(
    name="transformer_block",
    signature="transformer_block(x, p, n_heads)",
    returns=Text("output (n, d)", "output (n, d)"),
    title=Text("A transformer block", "一个 Transformer 块"),
    statement=Text(
        "Pre-norm, causal: x = x + attention(LN1(x)), then x = x + FFN(LN2(x)). x (n, d); p is a dict of arrays.\n"
        "LN: ln1_gamma ln1_beta ln2_gamma ln2_beta (d,), eps = 1e-5. Attention: n_heads heads, W_Q W_K W_V W_O (d, d), applied\n"
        "x @ W, head h in columns h * d_head to (h + 1) * d_head; token i sees the tokens j <= i.\n"
        "FFN: GELU(x W_1 + b_1) W_2 + b_2 with W_1 (d, d_ff), W_2 (d_ff, d), the exact GELU (erf). The inputs stay as they are.",
        "前置归一化、因果：先 x = x + attention(LN1(x))，再 x = x + FFN(LN2(x))。x (n, d)；p 是数组的字典。\n"
        "LN：ln1_gamma ln1_beta ln2_gamma ln2_beta (d,)，eps = 1e-5。注意力：n_heads 个头，W_Q W_K W_V W_O (d, d)，用法为\n"
        "x @ W，第 h 个头取第 h * d_head 到 (h + 1) * d_head 列；词元 i 只能看词元 j <= i。\n"
        "FFN：GELU(x W_1 + b_1) W_2 + b_2，W_1 (d, d_ff)，W_2 (d_ff, d)，GELU 用精确式（erf）。不要改动输入。",
    ),
    reference=reference,
    formula=block,
    probes=(
        Probe("example", inputs(1, 2, 3, 1, 2), Text("two tokens, one head", "两个词元、一个头")),
        Probe("three_heads", {**inputs(21, 5, 12, 3, 7), "x": drawn(21, 5, 12) * SIZES},
              Text("5 tokens of unlike size, width 12, 3 heads", "5 个大小悬殊的词元，宽度 12，3 个头")),
        Probe("large", large(), Text("scores of 1000, and a token whose numbers are all the same", "分数达到 1000，并有一个各数全相同的词元")),
    ),
    mistakes=(
        Mistake("block_no_residual", each_and_both("leave", part_alone), say(
            ("What a part gives replaces the stream instead of being added to it.", "子层的输出替换了残差流，而不是加上去。"),
            ("a block without residual connection", "没有残差连接的块"),
            ("If W_O and W_2 are 0 (and b_2 too), what should come out?", "如果 W_O、W_2 和 b_2 全是 0，应该输出什么？"),
            ("Look at what is done with the result of attention and of the FFN.", "看注意力与 FFN 的结果是怎样用的。"),
            ("x = x + attention(...), and x = x + ffn(...).", "x = x + attention(...)，x = x + ffn(...)。"),
        )),
        Mistake("block_post_norm", (
            steps(enter_1=stream_itself, enter_2=stream_itself, leave_1=norm_of_sum, leave_2=norm_of_sum),
            steps(enter_1=stream_itself, enter_2=stream_itself, leave_1=norm_of_part, leave_2=norm_of_part),
        ), say(
            ("The norms come after the parts, not before them.", "归一化放在了子层之后，而不是之前。"),
            ("a post-norm block", "后置归一化的块"),
            ("What does attention read: x or LN1(x)? Is the stream itself ever normalised?", "注意力读的是 x 还是 LN1(x)？残差流本身被归一化了吗？"),
            ("Look at where the two norms stand.", "看两个归一化各在哪里。"),
            ("x + attention(LN1(x)), not LN1(x + attention(x)).", "x + attention(LN1(x))，而不是 LN1(x + attention(x))。"),
        )),
        Mistake("block_residual_from_norm", each_and_both("leave", to_normed), say(
            ("A part is added to the normalised x, not to x itself.", "子层的输出加到了归一化后的 x 上，而不是 x 本身。"),
            ("a block whose residual starts from LN(x)", "残差从 LN(x) 出发的块"),
            ("Is there a way from the input to the output that passes no norm?", "从输入到输出，有没有一条不经过归一化的路？"),
            ("Look for x = LN(x) before the sum.", "看相加之前有没有 x = LN(x) 这样的赋值。"),
            ("Give the normalised x a name of its own: h = LN1(x); x = x + attention(h).",
             "给归一化的结果另起名字：h = LN1(x)；x = x + attention(h)。"),
        )),
        Mistake("block_residual_from_input", (steps(leave_2=to_input),), say(
            ("The FFN is added to the input of the block, so what attention added is lost.", "FFN 的输出加到了块的输入上，注意力加上的部分丢了。"),
            ("x + FFN(...) in place of the stream after attention + FFN(...)", "用 x + FFN(...) 代替（注意力之后的流）+ FFN(...)"),
            ("What should the FFN be added to: to what came in, or to what attention left?", "FFN 应加到哪里：块的输入，还是注意力之后的结果？"),
            ("Look at the second sum.", "看第二次相加。"),
            ("mid = x + attention(...); return mid + ffn(LN2(mid)).", "mid = x + attention(...)；return mid + ffn(LN2(mid))。"),
        )),
        Mistake("block_parallel", (steps(enter_2=normed_input), steps(enter_2=normed_input, second="ln1")), say(
            ("The FFN reads the input of the block, not what attention has added to it.", "FFN 读的是块的输入，而不是注意力加过之后的结果。"),
            ("a block whose two parts both read x", "两个子层都读 x 的块"),
            ("Does the FFN notice what attention has found?", "注意力得到的信息，FFN 看得到吗？"),
            ("Look at what goes into LN2.", "看传入 LN2 的是什么。"),
            ("LN2 of the sum after attention: mid + ffn(LN2(mid)).", "对注意力之后的和做 LN2：mid + ffn(LN2(mid))。"),
        )),
        Mistake("block_no_norm", each_and_both("enter", stream_itself), say(
            ("A norm is missing: a part reads the stream as it is.", "缺少归一化：子层直接读了残差流。"),
            ("a block without one or both of its norms", "缺少一个或两个归一化的块"),
            ("Does your result change with ln1_gamma and with ln2_gamma?", "ln1_gamma 与 ln2_gamma 变了，你的结果都会变吗？"),
            ("Look at what attention and the FFN get.", "看传给注意力与 FFN 的是什么。"),
            ("attention(LN1(x)) and ffn(LN2(x)).", "attention(LN1(x)) 与 ffn(LN2(x))。"),
        )),
        Mistake("block_norms_mixed_up", (steps(second="ln1"), steps(first="ln2"), steps(first="ln2", second="ln1")), say(
            ("The parameters of the two norms are mixed up.", "两个归一化的参数用混了。"),
            ("a block that uses a norm's parameters in the wrong place", "把归一化参数用错位置的块"),
            ("Which gamma belongs to the norm before the FFN?", "FFN 之前的归一化应该用哪个 gamma？"),
            ("Look at the keys: ln1_..., ln2_....", "看字典的键：ln1_...、ln2_...。"),
            ("ln1 before attention, ln2 before the FFN.", "注意力之前用 ln1，FFN 之前用 ln2。"),
        )),
        Mistake("block_part_missing", (steps(leave_1=stream_alone), steps(leave_2=stream_alone)), say(
            ("One of the two parts is missing.", "两个子层少了一个。"),
            ("a block with attention alone or the FFN alone", "只有注意力或只有 FFN 的块"),
            ("Does your result change with W_V, and with W_2?", "W_V 变了，结果会变吗？W_2 呢？"),
            ("Count the sums: there should be two.", "数一数相加了几次：应该是两次。"),
            ("x = x + attention(LN1(x)), then x = x + ffn(LN2(x)).", "先 x = x + attention(LN1(x))，再 x = x + ffn(LN2(x))。"),
        )),
        Mistake("block_order_swapped", (feed_forward_first, partial(feed_forward_first, names=("ln2", "ln1"))), say(
            ("The FFN comes before attention.", "FFN 放在了注意力之前。"),
            ("a block with the FFN first", "FFN 在前的块"),
            ("Which of the two parts comes first?", "两个子层中，哪个在前？"),
            ("Look at the order of the two sums.", "看两次相加的先后。"),
            ("Attention first, then the FFN.", "先注意力，后 FFN。"),
        )),
        Mistake("no_bias", each_and_both("bias", no_bias), say(
            ("A bias of the FFN is missing.", "FFN 缺少偏置。"),
            ("a block without b_1 or b_2", "没有加 b_1 或 b_2 的块"),
            ("Does your result change with b_1 and with b_2?", "b_1 与 b_2 变了，你的结果都会变吗？"),
            ("Look at the two products of the FFN.", "看 FFN 的两个乘法。"),
            ("gelu(h @ W_1 + b_1) @ W_2 + b_2.", "gelu(h @ W_1 + b_1) @ W_2 + b_2。"),
        )),
        Mistake("no_activation", (steps(bend=straight),), say(
            ("There is no GELU between the two matrices of the FFN.", "FFN 的两个矩阵之间没有 GELU。"),
            ("a block whose FFN has no activation", "FFN 没有激活函数的块"),
            ("What do two matrices make without anything between them?", "两个矩阵之间什么都没有时，合起来等于什么？"),
            ("Look between W_1 and W_2.", "看 W_1 与 W_2 之间。"),
            ("gelu(h @ W_1 + b_1) @ W_2 + b_2.", "gelu(h @ W_1 + b_1) @ W_2 + b_2。"),
        )),
        Mistake("gelu_relu", (steps(bend=relu),), say(
            ("The activation is ReLU, not GELU.", "激活函数用了 ReLU，而不是 GELU。"),
            ("a block with ReLU in place of GELU", "用 ReLU 代替 GELU 的块"),
            ("What does GELU give at -1?", "GELU 在 -1 处是多少？"),
            ("Look between W_1 and W_2.", "看 W_1 与 W_2 之间。"),
            ("x / 2 * (1 + erf(x / √2)), with math.erf for each number.", "x / 2 * (1 + erf(x / √2))，逐个数用 math.erf。"),
        )),
        Mistake("gelu_tanh", (steps(bend=by_tanh),)),
        Mistake("gelu_sigmoid", tuple(steps(bend=partial(by_sigmoid, steepness=s)) for s in (1.702, 1.0))),
        Mistake("norm_unbiased_variance", (steps(norm=unbiased),)),
        Mistake("norm_eps_outside_root", (steps(norm=eps_outside), steps(norm=partial(eps_outside, ddof=1)))),
        Mistake("norm_wrong_eps", tuple(steps(norm=partial(layer_norm, eps=e)) for e in (1e-6, 1e-8, 1e-12, 1e-3, 0.0)), say(
            ("eps is not 1e-5, or is missing.", "eps 不是 1e-5，或者没有加。"),
            ("a block with another eps in its norms", "归一化用了另一个 eps 的块"),
            ("Which eps does the task ask for?", "题目要求的 eps 是多少？"),
            ("Look under the root of the norm.", "看归一化的根号里面。"),
            ("np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5).", "np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)。"),
        )),
        Mistake("norm_no_root", (steps(norm=by_variance),)),
        Mistake("norm_wrong_axis", (steps(norm=down_the_tokens), steps(norm=over_everything))),
        Mistake("norm_no_affine", tuple(steps(norm=n) for n in (plain, gamma_only, beta_only))),
        Mistake("norm_no_mean", (steps(norm=root_mean_square), steps(norm=partial(root_mean_square, shift=0.0))), say(
            ("The mean is not subtracted: that is RMSNorm, not LayerNorm.", "没有减去均值：那是 RMSNorm，不是 LayerNorm。"),
            ("a block with RMSNorm in place of LayerNorm", "用 RMSNorm 代替 LayerNorm 的块"),
            ("If 5 is added to every number of a token, should LN change?", "一个词元的每个数都加 5，LN 的结果应该变吗？"),
            ("Look at what is divided by the root.", "看被根号除的是什么。"),
            ("Subtract first: x - x.mean(axis=-1, keepdims=True).", "先减去均值：x - x.mean(axis=-1, keepdims=True)。"),
        )),
        Mistake("causal_missing", (steps(rule=everything),)),
        Mistake("causal_off_by_one", (*hidden_rows(before_itself), steps(rule=up_to_the_next))),
        Mistake("causal_inverted", (*hidden_rows(behind_itself), steps(rule=from_itself_on))),
        *mistakes(
            "no_scale", "scale_by_d", "scale_after_softmax", "softmax_wrong_axis", "softmax_no_max",
            "mask_after_softmax", "mask_fill_zero", "qk_swapped", "kv_swapped", "returns_values_only",
            inside=(block, "attend"),
        ),
        Mistake("scale_by_d_model", (steps(attend=changed(scale=by_root_of_all_heads)),)),
        Mistake("heads_reshape_only", (steps(split_heads=reshaped), steps(split_heads=reshaped, merge_heads=merged_without_swap))),
        Mistake("heads_merge_no_transpose", (steps(merge_heads=merged_without_swap),)),
        Mistake("heads_not_split", (steps(split_heads=one_head),), say(
            ("There is only one head, whatever n_heads is.", "无论 n_heads 是多少，都只用了一个头。"),
            ("a block with a single head", "只有一个头的块"),
            ("Does your result change with n_heads?", "n_heads 变了，你的结果会变吗？"),
            ("Look for n_heads in your code.", "看代码里哪里用到了 n_heads。"),
            ("Split Q, K and V: reshape(n, n_heads, d_head).swapaxes(0, 1).",
             "把 Q、K、V 分头：reshape(n, n_heads, d_head).swapaxes(0, 1)。"),
        )),
        Mistake("no_output_projection", (steps(join=not_joined),)),
        Mistake("weights_transposed", (steps(project=with_transposed), steps(join=with_transposed),
                                       steps(project=with_transposed, join=with_transposed)), say(
            ("Weights of attention are transposed: x @ W.T.", "注意力的权重矩阵被转置了：x @ W.T。"),
            ("a block with x @ W.T in place of x @ W", "用 x @ W.T 代替 x @ W 的块"),
            ("How does the task say that weights are applied?", "题目说权重怎样使用？"),
            ("Look at the projections of attention.", "看注意力的几个投影。"),
            ("x @ W, without .T.", "x @ W，不要 .T。"),
        )),
        Mistake("mutates_input", (in_place,)),
    ),
    aliases={
        "normed_1": ("ln1",), "attended": ("attn_out", "attn_output"), "resid_mid": ("mid",), "normed_2": ("ln2",),
        "bent": ("act",), "fed": ("ffn_out", "mlp_out"),
    },
    solution=(
        Line("from math import erf\n\n\ndef layer_norm(x, gamma, beta):\n"
             "    x = x - x.mean(axis=-1, keepdims=True)\n"
             "    return gamma * x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) + beta\n\n",
             "Each token to mean 0 and variance 1, then stretched and shifted.", "每个词元变成均值 0、方差 1，再伸缩和平移。"),
        Line("def softmax(x):\n    exp = np.exp(x - x.max(axis=-1, keepdims=True))\n"
             "    return exp / exp.sum(axis=-1, keepdims=True)\n\n",
             "Weights along the last axis.", "沿最后一维的权重。"),
        Line("def gelu(x):\n    return x / 2 * (1 + np.vectorize(erf)(x / np.sqrt(2)))\n\n",
             "x times the chance that a normal variable lies below x.", "x 乘以正态变量小于 x 的概率。"),
        Line("def attention(x, p, n_heads):\n    n, d = x.shape\n"
             "    Q, K, V = ((x @ p[W]).reshape(n, n_heads, -1).swapaxes(0, 1) for W in (\"W_Q\", \"W_K\", \"W_V\"))",
             "Project, and put the heads in front.", "投影，把头移到最前。"),
        Line("    scores = Q @ K.swapaxes(-1, -2) / np.sqrt(d // n_heads)\n"
             "    scores = np.where(np.tril(np.ones((n, n), bool)), scores, -np.inf)",
             "Scores scaled by the width of one head; the future is hidden.", "分数按单个头的宽度缩放；遮住未来。"),
        Line("    return (softmax(scores) @ V).swapaxes(0, 1).reshape(n, d) @ p[\"W_O\"]\n\n",
             "Heads beside each other again, joined by W_O.", "各头重新并排，再乘 W_O。"),
        Line("def transformer_block(x, p, n_heads):\n"
             "    x = x + attention(layer_norm(x, p[\"ln1_gamma\"], p[\"ln1_beta\"]), p, n_heads)",
             "Attention reads the normalised x; what it finds is added to x itself.", "注意力读归一化的 x；它的结果加到 x 本身。"),
        Line("    h = layer_norm(x, p[\"ln2_gamma\"], p[\"ln2_beta\"])\n"
             "    return x + gelu(h @ p[\"W_1\"] + p[\"b_1\"]) @ p[\"W_2\"] + p[\"b_2\"]",
             "The FFN does the same with what is there now.", "FFN 对现在的 x 做同样的事。"),
    ),
    styles={
        "loop_over_heads": '''
import math

import numpy as np


def norm(x, g, b):
    rows = []
    for row in x:
        mu = sum(row) / len(row)
        var = sum((v - mu) ** 2 for v in row) / len(row)
        rows.append([gi * (v - mu) / math.sqrt(var + 1e-5) + bi for v, gi, bi in zip(row, g, b)])
    return np.array(rows)


def gelu(v):
    return 0.5 * v * math.erfc(-v / math.sqrt(2))


def transformer_block(x, p, n_heads):
    n, d = x.shape
    dh = d // n_heads
    h = norm(x, p["ln1_gamma"], p["ln1_beta"])
    heads = []
    for k in range(n_heads):
        c = slice(k * dh, (k + 1) * dh)
        q, key, v = h @ p["W_Q"][:, c], h @ p["W_K"][:, c], h @ p["W_V"][:, c]
        out = np.zeros((n, dh))
        for i in range(n):
            s = key[: i + 1] @ q[i] / math.sqrt(dh)
            e = np.exp(s - s.max())
            out[i] = e / e.sum() @ v[: i + 1]
        heads.append(out)
    x = x + np.concatenate(heads, axis=1) @ p["W_O"]
    u = norm(x, p["ln2_gamma"], p["ln2_beta"]) @ p["W_1"] + p["b_1"]
    u = np.array([[gelu(v) for v in row] for row in u])
    return x + (u @ p["W_2"] + p["b_2"])
''',
        "class": '''
from math import erf

import numpy as np


class LayerNorm:
    def __init__(self, gamma, beta, eps=1e-5):
        self.gamma, self.beta, self.eps = gamma, beta, eps

    def __call__(self, x):
        mean, var = x.mean(axis=-1)[:, None], x.var(axis=-1)[:, None]
        return (x - mean) * (var + self.eps) ** -0.5 * self.gamma + self.beta


class Block:
    def __init__(self, p, n_heads):
        self.p, self.h = p, n_heads
        self.ln1 = LayerNorm(p["ln1_gamma"], p["ln1_beta"])
        self.ln2 = LayerNorm(p["ln2_gamma"], p["ln2_beta"])

    def attn(self, x):
        q, k, v = (np.stack(np.split(x @ self.p[w], self.h, axis=-1)) for w in ("W_Q", "W_K", "W_V"))
        logits = q @ k.transpose(0, 2, 1) * q.shape[-1] ** -0.5
        logits += np.triu(np.full(logits.shape[-2:], -1e9), k=1)
        a = np.exp(logits - logits.max(axis=-1, keepdims=True))
        a /= a.sum(axis=-1, keepdims=True)
        return np.hstack(list(a @ v)) @ self.p["W_O"]

    def mlp(self, x):
        u = x @ self.p["W_1"] + self.p["b_1"]
        phi = np.array([0.5 + 0.5 * erf(v) for v in (u / 2**0.5).ravel()]).reshape(u.shape)
        return (u * phi) @ self.p["W_2"] + self.p["b_2"]

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


def transformer_block(x, p, n_heads):
    return Block(p, n_heads).forward(x)
''',
        "einsum": '''
import math

import numpy as np

ERF = np.frompyfunc(math.erf, 1, 1)


def ln(x, p, k):
    c = x - np.mean(x, -1, keepdims=True)
    return c / np.sqrt(np.einsum("nd,nd->n", c, c)[:, None] / x.shape[-1] + 1e-5) * p[k + "_gamma"] + p[k + "_beta"]


def transformer_block(x, p, n_heads):
    n, d = x.shape
    dh = d // n_heads
    y = ln(x, p, "ln1")
    q, k, v = [np.einsum("nd,dhk->hnk", y, p[w].reshape(d, n_heads, dh)) for w in ("W_Q", "W_K", "W_V")]
    s = np.einsum("hik,hjk->hij", q / dh**0.25, k / dh**0.25)
    s[:, ~np.tri(n, dtype=bool)] = -np.inf
    w = np.exp(s - s.max(-1, keepdims=True))
    w /= w.sum(-1, keepdims=True)
    mid = x + np.einsum("hij,hjk,hkd->id", w, v, p["W_O"].reshape(n_heads, dh, d))
    u = ln(mid, p, "ln2") @ p["W_1"] + p["b_1"]
    return mid + (u * (1 + ERF(u / math.sqrt(2)).astype(float)) / 2) @ p["W_2"] + p["b_2"]
''',
        "chinese_names": '''
from math import erf

import numpy as np


def 归一化(输入, 伸缩, 平移):
    均值 = 输入.mean(axis=1, keepdims=True)
    标准差 = np.sqrt(((输入 - 均值) ** 2).mean(axis=1, keepdims=True) + 1e-5)
    return 伸缩 * (输入 - 均值) / 标准差 + 平移


def 分头(输入, 头数):
    return 输入.reshape(len(输入), 头数, -1).transpose(1, 0, 2)


def transformer_block(输入, 参数, 头数):
    词元数, 宽度 = 输入.shape
    归一 = 归一化(输入, 参数["ln1_gamma"], 参数["ln1_beta"])
    查询, 键, 值 = (分头(归一 @ 参数[名], 头数) for 名 in ("W_Q", "W_K", "W_V"))
    打分 = 查询 @ 键.transpose(0, 2, 1) / np.sqrt(宽度 / 头数)
    指数 = np.exp(打分 - 打分.max(axis=-1, keepdims=True)) * np.tril(np.ones((词元数, 词元数)))
    权重 = 指数 / 指数.sum(axis=-1, keepdims=True)
    残差 = 输入 + (权重 @ 值).transpose(1, 0, 2).reshape(词元数, 宽度) @ 参数["W_O"]
    隐层 = 归一化(残差, 参数["ln2_gamma"], 参数["ln2_beta"]) @ 参数["W_1"] + 参数["b_1"]
    激活 = 隐层 * (1 + np.vectorize(erf)(隐层 / np.sqrt(2))) / 2
    return 残差 + 激活 @ 参数["W_2"] + 参数["b_2"]
''',
    },
)  # fmt: skip
