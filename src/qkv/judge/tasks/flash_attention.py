"""Flash attention: the same attention, block by block, without ever holding all scores."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ... import ops
from ..formulas import by_d, by_root, by_root_of_length, by_root_of_value_width, products, times_root, unscaled
from ..mistakes import say
from ..probes import drawn, integers, qkv
from ..properties import depends_on_block_size
from ..task import Function, Line, Mistake, Probe, Task, Text, formula
from ..wire import Array

Blocks = list[tuple[int, Array, Array]]


# the steps as they are right


def every_block(K: Array, V: Array, block_size: int) -> Blocks:
    return [
        (j, K[..., j : j + block_size, :], V[..., j : j + block_size, :]) for j in range(0, K.shape[-2], block_size)
    ]


def up_to_itself(i: Array, j: Array, block_size: int) -> Array:
    return j <= i


def minus_infinity(scores: Array, seen: Array) -> Array:
    return np.where(seen, scores, -np.inf)


def larger(top: Array, masked: Array) -> Array:
    return np.maximum(top, masked.max(axis=-1, keepdims=True))


def measured_again(kept: Array, top: Array, new_top: Array) -> Array:
    return kept * np.exp(top - new_top)


def from_new_top(masked: Array, top: Array, new_top: Array) -> Array:
    return np.exp(masked - new_top)


def the_new_one(new_top: Array, masked: Array) -> Array:
    return new_top


def not_yet(out: Array, total: Array) -> Array:
    return out


def by_total(out: Array, total: Array) -> Array:
    return out / total


def as_it_is(output: Array, Q: Array, V: Array, block_size: int) -> Array:
    return output


@formula
def flash(
    Q: Array,
    K: Array,
    V: Array,
    block_size: int,
    causal: bool = False,
    *,
    start: float = -np.inf,
    cut: Function = every_block,
    product: Function = products,
    scale: Function = by_root,
    look: Function = up_to_itself,
    hide: Function = minus_infinity,
    grow: Function = larger,
    weigh: Function = from_new_top,
    rescale_sum: Function = measured_again,
    rescale_output: Function = measured_again,
    remember: Function = the_new_one,
    each: Function = not_yet,
    divide: Function = by_total,
    finish: Function = as_it_is,
) -> Array:
    with np.errstate(all="ignore"):
        before, running_sum, running_output = start, 0.0, 0.0
        for first, k, v in cut(K, V, block_size):
            scores = scale(product(Q, k), Q, K, V)
            i, j = np.arange(Q.shape[-2])[:, None], np.arange(first, first + k.shape[-2])
            masked = hide(scores, look(i, j, block_size)) if causal else scores
            running_max = grow(before, masked)
            weights = weigh(masked, before, running_max)
            total = weights.sum(axis=-1, keepdims=True)
            running_sum = rescale_sum(running_sum, before, running_max) + total
            running_output = each(rescale_output(running_output, before, running_max) + weights @ v, running_sum)
            before = remember(running_max, masked)
        output = finish(divide(running_output, running_sum), Q, V, block_size)
    return output


def reference(Q: Array, K: Array, V: Array, block_size: int, causal: bool = False) -> Any:
    return ops.attention(Q, K, V, causal=causal)


# the steps as they go wrong


def full_blocks_only(K: Array, V: Array, block_size: int) -> Blocks:
    return every_block(K, V, block_size)[: K.shape[-2] // block_size]


def one_block_less(K: Array, V: Array, block_size: int) -> Blocks:
    return [block for block in every_block(K, V, block_size) if block[0] < K.shape[-2] - block_size]


def zeros_to_fill(K: Array, V: Array, block_size: int) -> Blocks:
    missing = -K.shape[-2] % block_size
    padding = ((0, 0),) * (K.ndim - 2) + ((0, missing), (0, 0))
    return every_block(np.pad(K, padding), np.pad(V, padding), block_size)


def must_divide(K: Array, V: Array, block_size: int) -> Blocks:
    if K.shape[-2] % block_size:
        raise ValueError("array split does not result in an equal division")
    return every_block(K, V, block_size)


def by_root_of_block(scores: Array, Q: Array, K: Array, V: Array) -> Array:
    return scores / np.sqrt(scores.shape[-1])


def everything(i: Array, j: Array, block_size: int) -> Array:
    return i + j >= 0


def before_itself(i: Array, j: Array, block_size: int) -> Array:
    return j < i


def up_to_the_next(i: Array, j: Array, block_size: int) -> Array:
    return j <= i + 1


def from_itself_on(i: Array, j: Array, block_size: int) -> Array:
    return j >= i


def behind_itself(i: Array, j: Array, block_size: int) -> Array:
    return j > i


def keys_counted_in_block(i: Array, j: Array, block_size: int) -> Array:
    return j - j[0] <= i


def both_counted_in_block(i: Array, j: Array, block_size: int) -> Array:
    return j % block_size <= i % block_size


def queries_counted_in_block(i: Array, j: Array, block_size: int) -> Array:
    return j <= i % block_size


def whole_blocks(i: Array, j: Array, block_size: int) -> Array:
    return j // block_size <= i // block_size


def blocks_before(i: Array, j: Array, block_size: int) -> Array:
    return j // block_size < i // block_size


def times_mask(scores: Array, seen: Array) -> Array:
    return np.where(seen, scores, 0)


def huge_negative(scores: Array, seen: Array) -> Array:
    return np.where(seen, scores, -1e30)


def of_this_block(top: Array, masked: Array) -> Array:
    return masked.max(axis=-1, keepdims=True)


def of_first_block(top: Array, masked: Array) -> Array:
    return np.where(np.isneginf(top), masked.max(axis=-1, keepdims=True), top)


def of_all_rows(top: Array, masked: Array) -> Array:
    return np.maximum(top, masked.max())


def top_of_this_block(new_top: Array, masked: Array) -> Array:
    return masked.max(axis=-1, keepdims=True)


def nothing_subtracted(top: Array, masked: Array) -> Array:
    return np.zeros(())


def and_rescaled(masked: Array, top: Array, new_top: Array) -> Array:
    return np.exp(masked - new_top) * np.exp(top - new_top)


def with_empty_rows(masked: Array, top: Array, new_top: Array) -> Array:
    return np.exp(masked - np.where(np.isneginf(new_top), 0, new_top))


def with_empty_rows_kept(kept: Array, top: Array, new_top: Array) -> Array:
    return kept * np.exp(np.where(np.isneginf(top), -np.inf, top - new_top))


def as_it_was(kept: Array, top: Array, new_top: Array) -> Array:
    return kept


def turned_over(kept: Array, top: Array, new_top: Array) -> Array:
    return kept * np.where(np.isneginf(top), 1, np.exp(new_top - top))


def forgotten(kept: Array, top: Array, new_top: Array) -> Array:
    return kept * 0


def by_total_or_zero(out: Array, total: Array) -> Array:
    return np.where(total == 0, 0, out / total)


def by_root_too(output: Array, Q: Array, V: Array, block_size: int) -> Array:
    return output / np.sqrt(Q.shape[-1])


def in_dtype_of_queries(output: Array, Q: Array, V: Array, block_size: int) -> Array:
    return output.astype(Q.dtype)


def in_dtype_of_values(output: Array, Q: Array, V: Array, block_size: int) -> Array:
    return output.astype(V.dtype)


def as_wide_as_queries(output: Array, Q: Array, V: Array, block_size: int) -> Array:
    return output + np.zeros(Q.shape) if Q.shape[-1] == V.shape[-1] else np.zeros(Q.shape[-1]) + np.zeros(V.shape[-1])


def put_into_queries_like(output: Array, Q: Array, V: Array, block_size: int) -> Array:
    return as_wide_as_queries(output, Q, V, block_size).astype(Q.dtype)


def full_blocks_of_queries(output: Array, Q: Array, V: Array, block_size: int) -> Array:
    kept = np.arange(Q.shape[-2]) < Q.shape[-2] // block_size * block_size
    return np.where(kept[:, None], output, 0)


def matrices_only(output: Array, Q: Array, V: Array, block_size: int) -> Array:
    if Q.ndim != 2:
        raise ValueError("too many values to unpack (expected 2)")
    return output


def nan_as_zero(output: Array) -> Array:
    return np.nan_to_num(output)


def with_nan(output: Array) -> Array:
    return output


def block_by_block(
    Q: Array, K: Array, V: Array, block_size: int, causal: bool = False,
    *, mean: bool = False, hide: Function = minus_infinity, settle: Function = nan_as_zero,
) -> Array:  # fmt: skip
    """Each block's own softmax."""
    blocks = [
        settle(flash(Q, K, V, block_size, causal, hide=hide, cut=lambda *given, n=n: every_block(*given)[n : n + 1]))
        for n in range(-(-K.shape[-2] // block_size))
    ]
    return sum(blocks) / (len(blocks) if mean else 1)


def swapped_values(Q: Array, K: Array, V: Array, block_size: int, causal: bool = False, **steps: Any) -> Array:
    return flash(Q, V, K, block_size, causal, **steps)


def scaled_in_place(Q: Array, K: Array, V: Array, block_size: int, causal: bool = False) -> Array:
    Q /= np.sqrt(Q.shape[-1])
    return flash(Q, K, V, block_size, causal, scale=unscaled)


def with_steps(**steps: Any) -> partial[Array]:
    return partial(flash, **steps)


def rescaled_by(step: Function, **more: Any) -> partial[Array]:
    return partial(flash, rescale_sum=step, rescale_output=step, **more)


def hidden_rows(**steps: Any) -> tuple[Function, ...]:
    """What may become of rows with nothing to look at: NaN, zeros, the mean of all values."""
    safe = {
        "weigh": with_empty_rows,
        "divide": by_total_or_zero,
        **dict.fromkeys(("rescale_sum", "rescale_output"), with_empty_rows_kept),
    }
    return partial(flash, **steps), partial(flash, **steps, **safe), partial(flash, **steps, hide=huge_negative)


def huge_scores() -> dict[str, Any]:
    """Rows of scores that rise from -1000 to 1000, that fall, that stay below -1000, and two of usual size."""
    Q = np.array([
        [2000.0, 0.0, 0.0, 0.0], [0.0, 2000.0, 0.0, 0.0], [-2000.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 2000.0],
        [1.0, 0.5, 0.0, 1.0], [0.0, 1.0, -1.0, 0.5],
    ])  # fmt: skip
    K = np.array([[1.0, -1.0, 0.5, -1.25], [0.5, -0.5, 1.0, -1.0], [-1.0, 1.0, 0.0, -1.5], [-0.5, 0.5, 0.25, -1.0]])
    return {"Q": Q, "K": K, "V": drawn(71, 4, 4)}


SMALL = {
    "Q": np.array([[1.0, 2.0], [-1.0, 1.0], [0.5, 0.0]]),
    "K": np.array([[0.0, 0.5], [1.0, 0.0], [2.0, 1.0], [-1.0, 1.0], [0.0, 2.0]]),
    "V": np.array([[1.0, 2.0], [3.0, 5.0], [-2.0, 4.0], [0.0, 1.0], [4.0, -3.0]]),
}

TASK = Task(
    name="flash_attention",
    signature="flash_attention(Q, K, V, block_size, causal=False)",
    returns=Text("output (..., Tq, d_v)", "output (..., Tq, d_v)"),
    title=Text("Flash attention", "Flash attention"),
    statement=Text(
        "softmax(Q Kᵀ / √d_k) V, exact, with the keys taken block_size at a time: Q (..., Tq, d_k), K (..., Tk, d_k),\n"
        "V (..., Tk, d_v). For every query keep the running maximum, the running sum and the running output,\n"
        "and rescale both when the maximum grows. The last block may be shorter; the block size never changes the result.\n"
        "causal=True (then Tq = Tk): query i may look at key j only if j <= i. Scores may be large.",
        "softmax(Q Kᵀ / √d_k) V，结果精确，键每次取 block_size 个：Q (..., Tq, d_k)，K (..., Tk, d_k)，V (..., Tk, d_v)。\n"
        "为每个查询保留至今的最大值、和与输出，最大值变大时重新缩放后两者。最后一块可能较短；块的大小不影响结果。\n"
        "causal=True 时（此时 Tq = Tk）：只有 j <= i，查询 i 才能看键 j。分数可能很大。",
    ),
    reference=reference,
    formula=flash,
    probes=(
        Probe("example", {**SMALL, "block_size": 1}, Text("three queries, five keys, one key at a time", "三个查询、五个键，每块一个键")),
        Probe("ragged", {**SMALL, "block_size": 2}, Text("the same in blocks of 2: the last one is shorter", "同样的输入，每块两个键：最后一块较短")),
        Probe("causal", {**qkv(11, 6, 6, 4, 5), "block_size": 2, "causal": True}, Text("causal, 6 tokens in blocks of 2", "因果，6 个词元，每块 2 个")),
        Probe("batch", {**qkv(31, 4, 6, 3, 5, (2, 3)), "block_size": 2}, Text("axes in front, every size different", "前面还有批量的维，每个尺寸都不同")),
        Probe("huge_scores", {**huge_scores(), "block_size": 2}, Text("scores of 1000 and of -1000", "分数达到 1000 与 -1000")),
        Probe("integers", {**integers(), "block_size": 1}, Text("integer inputs", "输入是整数")),
    ),
    mistakes=(
        Mistake("flash_no_rescale", (
            rescaled_by(as_it_was), with_steps(rescale_output=as_it_was), with_steps(rescale_sum=as_it_was),
            rescaled_by(as_it_was, grow=of_this_block),
        ), say(
            ("What was summed before is not rescaled when the maximum grows.", "最大值变大时，没有重新缩放之前累加的结果。"),
            ("blocks added up though they are measured from different maxima", "各块以不同的最大值为基准就直接相加的结果"),
            ("From which maximum was the old sum measured, and from which is the new block?", "旧的和以哪个最大值为基准？新的一块呢？"),
            ("Look at both the sum and the output, before the new block is added.", "加上新的一块之前，看和与输出各做了什么。"),
            ("Multiply both by np.exp(old_max - new_max) first.", "先把两者都乘 np.exp(old_max - new_max)。"),
        )),
        Mistake("flash_rescale_inverted", (rescaled_by(turned_over),), say(
            ("What was summed before is rescaled by exp(new - old).", "之前累加的结果乘的是 exp(新 - 旧)。"),
            ("blocks rescaled by exp(new - old)", "按 exp(新 - 旧) 缩放的结果"),
            ("When the maximum grows, should the old sum become larger or smaller?", "最大值变大时，旧的和应变大还是变小？"),
            ("Look at the order of the two maxima inside exp.", "看 exp 里两个最大值的先后。"),
            ("np.exp(old_max - new_max), which is at most 1.", "np.exp(old_max - new_max)，它不超过 1。"),
        )),
        Mistake("flash_rescales_new", (with_steps(weigh=and_rescaled),), say(
            ("The new block is rescaled as well; it is already measured from the new maximum.", "新的一块也被缩放了，而它本来就以新的最大值为基准。"),
            ("blocks that were rescaled together with the old sum", "新的一块与旧的和一起缩放的结果"),
            ("Which part still has to be rescaled, and which is already right?", "哪部分需要重新缩放？哪部分本来就对？"),
            ("Look at the brackets around the sum.", "看加法外面的括号。"),
            ("old * np.exp(old_max - new_max) + new: only the old part gets the factor.",
             "old * np.exp(old_max - new_max) + new：只有旧的部分要乘系数。"),
        )),
        Mistake("flash_no_running_max", (
            with_steps(grow=of_this_block), with_steps(grow=of_first_block), with_steps(remember=top_of_this_block),
        ), say(
            ("The maximum is that of one block, not of all so far.", "最大值只取自某一块，而不是至今所有的块。"),
            ("blocks measured from the maximum of a single block", "以某一块的最大值为基准的结果"),
            ("When a block is much lower than the one before, which maximum counts?", "某一块比前一块低很多时，应以哪个最大值为准？"),
            ("Look at how the maximum is updated.", "看最大值是怎样更新的。"),
            ("new_max = np.maximum(old_max, scores.max(axis=-1, keepdims=True)).",
             "new_max = np.maximum(old_max, scores.max(axis=-1, keepdims=True))。"),
        )),
        Mistake("running_max_from_zero", (with_steps(start=0.0), with_steps(start=0.0, divide=by_total_or_zero)), say(
            ("The maximum starts at 0: a row of very negative scores leaves nothing to divide by.", "最大值从 0 开始：整行分数都很小时，除数会变成 0。"),
            ("attention whose maximum is never below 0", "最大值不低于 0 的注意力"),
            ("What is exp(-1000 - 0)?", "exp(-1000 - 0) 是多少？"),
            ("Look at the line before the loop.", "看循环之前的那一行。"),
            ("Start from -np.inf.", "从 -np.inf 开始。"),
        )),
        Mistake("flash_overwrites", (rescaled_by(forgotten), rescaled_by(forgotten, grow=of_this_block), with_steps(rescale_output=forgotten)), say(
            ("Only the last block is left: the ones before are overwritten.", "只剩最后一块：之前的都被覆盖了。"),
            ("the last block alone", "只有最后一块的结果"),
            ("What is left of the first block at the end?", "到最后，第一块还剩下什么？"),
            ("Look for = where the output should grow, and whether the new maximum is remembered.", "看本该累加的地方是否写成了赋值，以及新的最大值有没有记住。"),
            ("Add to what was there: out = out * np.exp(old_max - new_max) + weights @ v.",
             "在已有的上面累加：out = out * np.exp(old_max - new_max) + weights @ v。"),
        )),
        Mistake("flash_softmax_per_block", tuple(
            partial(block_by_block, mean=m, **h) for m in (False, True) for h in ({}, {"settle": with_nan}, {"hide": huge_negative})
        ), say(
            ("Each block has a softmax of its own; the weights of a row should sum to 1 over all blocks.", "每一块各做一次 softmax；而一行的权重应在所有块上合计为 1。"),
            ("the blocks' own attentions, added up or averaged", "各块各自的注意力之和或平均"),
            ("What do the weights of one query sum to, over all blocks?", "一个查询的权重，在所有块上加起来是多少？"),
            ("Look at where you divide by the sum.", "看在哪里除以和。"),
            ("Add exp(scores - max) of all blocks, and divide once, at the end.", "累加所有块的 exp(分数 - 最大值)，最后只除一次。"),
        )),
        Mistake("flash_divides_too_early", (with_steps(each=by_total, divide=not_yet), with_steps(each=by_total)), say(
            ("The output is divided by the sum in every block, not once at the end.", "每一块都除了一次和，而不是最后只除一次。"),
            ("an output that is divided by the sum in every block", "每一块都除以和的结果"),
            ("How often is the first block divided?", "第一块一共被除了几次？"),
            ("Look at whether the division stands inside the loop.", "看除法是不是写在循环里。"),
            ("Divide after the loop: out / total.", "循环结束后再除：out / total。"),
        )),
        Mistake("flash_no_division", (with_steps(divide=not_yet),), say(
            ("The output is never divided by the sum.", "输出没有除以和。"),
            ("the output before it is divided by the sum", "还没除以和的输出"),
            ("What is the sum for, in the end?", "最后，和用来做什么？"),
            ("Look after the loop.", "看循环之后。"),
            ("return out / total.", "return out / total。"),
        )),
        Mistake("flash_last_block", (
            with_steps(cut=full_blocks_only), with_steps(finish=full_blocks_of_queries),
            with_steps(cut=full_blocks_only, finish=full_blocks_of_queries), with_steps(cut=one_block_less),
            with_steps(cut=zeros_to_fill), with_steps(cut=must_divide),
        ), say(
            ("The last block is lost, or mishandled when it is shorter than the others.", "最后一块丢了，或者在它较短时处理错了。"),
            ("attention that leaves out, fills up or refuses the last block", "丢掉、补零或拒绝最后一块的注意力"),
            ("Into which blocks do 5 keys fall when block_size is 2?", "block_size 为 2 时，5 个键分成哪几块？"),
            ("Look at the range of the loop, and at padding.", "看循环的 range，以及补零的地方。"),
            ("for j in range(0, Tk, block_size): a slice K[..., j:j + block_size, :] ends by itself.",
             "for j in range(0, Tk, block_size)：切片 K[..., j:j + block_size, :] 会自己到头为止。"),
        )),
        Mistake("flash_causal_in_block",
                (*(with_steps(look=r) for r in (keys_counted_in_block, both_counted_in_block, queries_counted_in_block, whole_blocks)),
                 *hidden_rows(look=blocks_before)), say(
            ("The causal mask goes by the place in the block, or by whole blocks, not by the place in the sequence.",
             "因果掩码按块内的位置、或按整块来判断，而不是按序列中的位置。"),
            ("a causal mask that counts within blocks or in whole blocks", "按块内位置或按整块判断的因果掩码"),
            ("At which position in the sequence does key 0 of the second block stand?", "第二块的第 0 个键，在序列中排第几？"),
            ("Look at the indices the mask is made from.", "看构造掩码用的下标。"),
            ("Compare places in the sequence: start of the block + place in it, for keys and queries.",
             "比较序列中的位置：块的起点 + 块内位置，键与查询都要这样算。"),
        )),
        Mistake("causal_missing", (with_steps(look=everything),)),
        Mistake("causal_off_by_one", (*hidden_rows(look=before_itself), with_steps(look=up_to_the_next))),
        Mistake("causal_inverted", (*hidden_rows(look=behind_itself), with_steps(look=from_itself_on),
                                    with_steps(look=from_itself_on, hide=huge_negative))),
        Mistake("mask_fill_zero", (with_steps(hide=times_mask),)),
        Mistake("no_scale", (with_steps(scale=unscaled),)),
        Mistake("scale_by_d", (with_steps(scale=by_d),)),
        Mistake("scale_multiplied", (with_steps(scale=times_root),)),
        Mistake("scale_wrong_size", tuple(
            with_steps(scale=s) for s in (by_root_of_length, by_root_of_block, by_root_of_value_width)
        )),
        Mistake("scale_after_softmax", (with_steps(scale=unscaled, finish=by_root_too), with_steps(finish=by_root_too))),
        Mistake("softmax_no_max", (with_steps(grow=nothing_subtracted, start=0.0),)),
        Mistake("softmax_global_max", (with_steps(grow=of_all_rows),)),
        Mistake("kv_swapped", (swapped_values,)),
        Mistake("integer_result", (with_steps(finish=in_dtype_of_queries), with_steps(finish=in_dtype_of_values))),
        Mistake("output_like_queries", (with_steps(finish=as_wide_as_queries), with_steps(finish=put_into_queries_like)), say(
            ("The output is given the width of Q, but it is as wide as V.", "输出用了 Q 的宽度，而它应与 V 一样宽。"),
            ("an output made by zeros_like(Q)", "用 zeros_like(Q) 创建的输出"),
            ("How wide is the output: as Q or as V?", "输出有多宽：与 Q 相同，还是与 V 相同？"),
            ("Look at where the output array is made.", "看创建输出数组的地方。"),
            ("np.zeros((*Q.shape[:-1], V.shape[-1])).", "np.zeros((*Q.shape[:-1], V.shape[-1]))。"),
        )),
        Mistake("matrices_only", (with_steps(finish=matrices_only),), say(
            ("The code takes plain matrices only; with axes in front it fails.", "代码只接受矩阵；前面有批量的维时会出错。"),
            ("attention for matrices, without axes in front", "只适用于矩阵、不支持批量维的注意力"),
            ("What is Q.shape when there are a batch and heads in front?", "前面有批量与头时，Q.shape 是什么？"),
            ("Look at how you read shapes, cut blocks and transpose.", "看读取形状、切块与转置的地方。"),
            ("Count axes from the end: Q.shape[-2], K[..., j:j + block_size, :], k.swapaxes(-1, -2).",
             "从末尾数维：Q.shape[-2]，K[..., j:j + block_size, :]，k.swapaxes(-1, -2)。"),
        )),
        Mistake("mutates_input", (scaled_in_place,)),
    ),
    properties=(depends_on_block_size("example", "ragged"),),
    aliases={"scores": ("S_ij", "sij"), "weights": ("P_ij", "e", "exp")},
    solution=(
        Line("def flash_attention(Q, K, V, block_size, causal=False):\n    top = np.full((*Q.shape[:-1], 1), -np.inf)\n"
             "    total, out = 0.0, 0.0",
             "Of every query: the maximum so far, the sum so far, the output so far.", "每个查询至今的最大值、和与输出。"),
        Line("    for j in range(0, K.shape[-2], block_size):\n"
             "        k, v = K[..., j : j + block_size, :], V[..., j : j + block_size, :]",
             "One block of keys and values at a time.", "每次取一块键和值。"),
        Line("        scores = Q @ k.swapaxes(-1, -2) / np.sqrt(Q.shape[-1])", "The scores of this block alone.", "只算这一块的分数。"),
        Line("        if causal:\n            later = np.arange(j, j + k.shape[-2]) > np.arange(Q.shape[-2])[:, None]\n"
             "            scores = np.where(later, -np.inf, scores)",
             "Keys that come later in the sequence are hidden; key 0 of the block stands at position j.",
             "遮住序列中靠后的键；块里的第 0 个键位于序列的第 j 位。"),
        Line("        new_top = np.maximum(top, scores.max(axis=-1, keepdims=True))\n        weights = np.exp(scores - new_top)",
             "The maximum of all blocks so far, and weights measured from it.", "至今所有块的最大值，以及以它为基准的权重。"),
        Line("        again = np.exp(top - new_top)\n"
             "        total = total * again + weights.sum(axis=-1, keepdims=True)\n        out = out * again + weights @ v",
             "exp(old - new) turns what was measured from the old maximum into what it is from the new one.",
             "乘 exp(旧 - 新)，把以旧的最大值为基准的结果换成以新的为基准。"),
        Line("        top = new_top\n    return out / total", "Divide once, at the end.", "最后只除一次。"),
    ),
    styles={
        "two_loops": '''
import numpy as np


def flash_attention(Q, K, V, block_size, causal=False):
    *lead, n, d = Q.shape
    m_keys = K.shape[-2]
    O = np.zeros((*lead, n, V.shape[-1]))
    for i0 in range(0, n, block_size):
        q = Q[..., i0 : i0 + block_size, :] * d**-0.5
        rows = q.shape[-2]
        acc = np.zeros((*lead, rows, V.shape[-1]))
        m = np.full((*lead, rows), -np.inf)
        l = np.zeros((*lead, rows))
        for j0 in range(0, m_keys, block_size):
            if causal and j0 > i0 + rows - 1:
                break
            j1 = min(j0 + block_size, m_keys)
            S = np.einsum("...id,...jd->...ij", q, K[..., j0:j1, :])
            if causal:
                S = S + np.where(np.arange(i0, i0 + rows)[:, None] >= np.arange(j0, j1)[None, :], 0.0, -1e30)
            m_new = np.maximum(m, S.max(-1))
            P = np.exp(S - m_new[..., None])
            alpha = np.exp(m - m_new)
            l = alpha * l + P.sum(-1)
            acc = alpha[..., None] * acc + np.einsum("...ij,...jv->...iv", P, V[..., j0:j1, :])
            m = m_new
        O[..., i0 : i0 + rows, :] = acc / l[..., None]
    return O
''',
        "normalised_at_each_step": '''
import numpy as np


def flash_attention(Q, K, V, block_size, causal=False):
    n, m = Q.shape[-2], K.shape[-2]
    out = np.zeros(Q.shape[:-1] + V.shape[-1:])
    lse = np.full(Q.shape[:-1], -np.inf)
    for start in range(0, m, block_size):
        cols = np.arange(start, min(start + block_size, m))
        s = Q @ np.swapaxes(K[..., cols, :], -1, -2) / np.sqrt(K.shape[-1])
        if causal:
            s[..., cols[None, :] > np.arange(n)[:, None]] = -np.inf
        top = s.max(-1)
        safe = np.where(np.isinf(top), 0, top)
        p = np.exp(s - safe[..., None])
        total = p.sum(-1)
        here = np.where(total > 0, safe + np.log(np.where(total > 0, total, 1)), -np.inf)
        both = np.logaddexp(lse, here)
        mean = p @ V[..., cols, :] / np.where(total > 0, total, 1)[..., None]
        out = out * np.exp(lse - both)[..., None] + mean * np.exp(here - both)[..., None]
        lse = both
    return out
''',
        "row_by_row": '''
import math

import numpy as np


def one_query(q, K, V, block_size, last):
    m, l, acc = -math.inf, 0.0, np.zeros(V.shape[1])
    for start in range(0, last, block_size):
        block = range(start, min(start + block_size, last))
        s = [float(q @ K[j]) / math.sqrt(len(q)) for j in block]
        new = max(m, *s)
        correction = math.exp(m - new)
        l, acc = l * correction, acc * correction
        for j, score in zip(block, s):
            l += math.exp(score - new)
            acc = acc + math.exp(score - new) * V[j]
        m = new
    return acc / l


def flash_attention(Q, K, V, block_size, causal=False):
    if Q.ndim > 2:
        return np.array([flash_attention(q, k, v, block_size, causal) for q, k, v in zip(Q, K, V)])
    return np.array([one_query(q, K, V, block_size, i + 1 if causal else len(K)) for i, q in enumerate(Q)])
''',
        "no_blocks_at_all": '''
import numpy as np


def flash_attention(Q, K, V, block_size, causal=False):
    S = Q @ K.mT / np.sqrt(Q.shape[-1])
    if causal:
        S = np.where(np.tri(S.shape[-2], S.shape[-1], dtype=bool), S, -np.inf)
    P = np.exp(S - S.max(-1, keepdims=True))
    return P @ V / P.sum(-1, keepdims=True)
''',
        "chinese_names_padded": '''
import numpy as np


def flash_attention(查询, 键, 值, 块长, causal=False):
    查询数, 键数 = 查询.shape[-2], 键.shape[-2]
    补 = [(0, 0)] * (键.ndim - 2) + [(0, -键数 % 块长), (0, 0)]
    键, 值 = np.pad(键, 补), np.pad(值, 补)
    最大, 总和, 输出 = -np.inf, 0, 0
    for 起点 in range(0, 键.shape[-2], 块长):
        位置 = np.arange(起点, 起点 + 块长)
        可见 = np.broadcast_to(位置 < 键数, (查询数, 块长))
        if causal:
            可见 = 可见 & (位置 <= np.arange(查询数)[:, None])
        分数 = 查询 @ 键[..., 位置, :].swapaxes(-1, -2) / 查询.shape[-1] ** 0.5
        分数 = np.where(可见, 分数, -np.inf)
        新最大 = np.maximum(最大, 分数.max(axis=-1, keepdims=True))
        权重, 系数 = np.exp(分数 - 新最大), np.exp(最大 - 新最大)
        总和 = 总和 * 系数 + 权重.sum(axis=-1, keepdims=True)
        输出 = 输出 * 系数 + 权重 @ 值[..., 位置, :]
        最大 = 新最大
    return 输出 / 总和
''',
    },
)  # fmt: skip
