"""Merging heads: what the heads hold of a token is put beside each other again."""

from __future__ import annotations

from functools import partial

import numpy as np

from ...layers import merge_heads
from ..mistakes import say
from ..probes import drawn
from ..task import Function, Line, Mistake, Probe, Task, Text, formula
from ..wire import Array


def tokens_first(x: Array) -> Array:
    return x.swapaxes(0, 1)


def side_by_side(by_token: Array) -> Array:
    return by_token.reshape(by_token.shape[0], by_token.shape[1] * by_token.shape[2])


@formula
def merge(x: Array, *, turn: Function = tokens_first, join: Function = side_by_side) -> Array:
    by_token = turn(x)
    merged = join(by_token)
    return merged


def reshaped(x: Array) -> Array:
    return x.reshape(x.shape[1], x.shape[0] * x.shape[2])


def columns_then_heads(x: Array) -> Array:
    return x.transpose(1, 2, 0)


def all_axes_turned(x: Array) -> Array:
    return x.T.reshape(x.shape[1], x.shape[0] * x.shape[2])


def as_it_is(by_token: Array) -> Array:
    return by_token


def below_each_other(x: Array) -> Array:
    return x.reshape(x.shape[0] * x.shape[1], x.shape[2])


def columns_down(by_token: Array) -> Array:
    return side_by_side(by_token).T


def averaged(x: Array) -> Array:
    return x.mean(axis=0)


def summed(x: Array) -> Array:
    return x.sum(axis=0)


def one_of_them(x: Array, *, which: int) -> Array:
    return x[which]


def in_place(x: Array) -> Array:
    merged = x.swapaxes(0, 1).reshape(x.shape[1], x.shape[0] * x.shape[2])
    x.resize(merged.shape, refcheck=False)
    return merged


def inputs(n_heads: int, n: int, d_head: int) -> dict[str, object]:
    """Numbers that say where they stand: head * 100 + token * 10 + column."""
    heads, tokens = np.arange(n_heads)[:, None, None], np.arange(n)[:, None]
    return {"x": heads * 100.0 + tokens * 10.0 + np.arange(d_head)}


def all_of(step: Function) -> Function:
    return partial(merge, turn=step, join=as_it_is)


TASK = Task(
    name="merge_heads",
    signature="merge_heads(x)",
    returns=Text("merged (n, n_heads * d_head)", "merged (n, n_heads * d_head)"),
    title=Text("Merging heads", "合并头"),
    statement=Text(
        "x (n_heads, n, d_head) holds what each head has made of each token. Put the heads of a token beside each other:\n"
        "(n, n_heads * d_head), head 0 in the first d_head columns, then head 1, and so on. The way back from split_heads.",
        "x (n_heads, n, d_head) 是每个头对每个词元的结果。把同一词元的各头并排放好：\n"
        "(n, n_heads * d_head)，前 d_head 列是第 0 个头，接着是第 1 个头，依此类推。它是 split_heads 的逆操作。",
    ),
    reference=merge_heads,
    formula=merge,
    probes=(
        Probe("example", inputs(2, 2, 2), Text("two heads, two tokens; 110 is head 1, token 1, column 0",
                                               "两个头、两个词元；110 表示第 1 个头、第 1 个词元、第 0 列")),
        Probe("three_heads", {"x": drawn(7, 3, 5, 4)}, Text("3 heads, 5 tokens, 4 columns", "3 个头，5 个词元，4 列")),
    ),
    mistakes=(
        Mistake("heads_merge_no_transpose", (all_of(reshaped),)),
        Mistake("heads_averaged", (all_of(averaged), all_of(summed)), say(
            ("The heads are averaged or added up, not put beside each other.", "各个头被平均或相加了，而不是并排拼接。"),
            ("the heads averaged or added up", "各个头的平均或和"),
            ("How wide are all heads beside each other?", "所有头并排起来有多宽？"),
            ("Look at how the heads become one.", "看各个头怎样合成一个。"),
            ("Keep all columns: x.swapaxes(0, 1).reshape(n, n_heads * d_head).",
             "保留所有的列：x.swapaxes(0, 1).reshape(n, n_heads * d_head)。"),
        )),
        Mistake("heads_interleaved", (partial(merge, turn=columns_then_heads),), say(
            ("The columns of the heads are shuffled into each other.", "各个头的列被交错地排在一起。"),
            ("heads merged column by column: column 0 of all heads, then column 1",
             "按列交错合并的结果：先是所有头的第 0 列，再是第 1 列"),
            ("Which head do the first d_head columns of your result come from?", "结果的前 d_head 列来自哪个头？"),
            ("Look at the order in transpose, or at the axis in stack.", "看 transpose 里的顺序，或 stack 的 axis。"),
            ("Token, head, column: x.transpose(1, 0, 2).", "按词元、头、列的顺序：x.transpose(1, 0, 2)。"),
        )),
        Mistake("heads_axes_turned", (all_of(all_axes_turned), partial(merge, join=columns_down)), say(
            ("More axes are turned around than the first two.", "不只交换了前两维，别的维也被倒了过来。"),
            ("heads merged by .T, which turns all axes around", "用 .T 合并的结果，它把所有维都倒了过来"),
            ("Which two axes must change places?", "应该交换哪两维？"),
            ("Look at .T.", "看 .T。"),
            ("Swap the first two axes only: x.swapaxes(0, 1).", "只交换前两维：x.swapaxes(0, 1)。"),
        )),
        Mistake("heads_not_joined", (partial(merge, join=as_it_is),), say(
            ("The heads are brought to their token, but not joined into one row.", "头已经按词元排好，但没有拼成一行。"),
            ("the heads by token, (n, n_heads, d_head)", "按词元排列、还未拼接的头 (n, n_heads, d_head)"),
            ("How many axes should the result have?", "结果应该有几维？"),
            ("Look at what follows the swap of the axes.", "看交换维之后还做了什么。"),
            ("Add .reshape(n, n_heads * d_head).", "再加上 .reshape(n, n_heads * d_head)。"),
        )),
        Mistake("heads_along_tokens", (all_of(below_each_other),), say(
            ("The heads are put below each other: there are more rows than tokens.", "各个头上下叠放，行数比词元数还多。"),
            ("the heads below each other, (n_heads * n, d_head)", "上下叠放的头 (n_heads * n, d_head)"),
            ("How many rows should the result have?", "结果应该有几行？"),
            ("Look at the axis in concatenate, or at the sizes in reshape.", "看 concatenate 的 axis，或 reshape 的尺寸。"),
            ("Beside each other: np.concatenate(list(x), axis=-1).", "要并排：np.concatenate(list(x), axis=-1)。"),
        )),
        Mistake("heads_one_kept", tuple(all_of(partial(one_of_them, which=w)) for w in (-1, 0)), say(
            ("Only one of the heads is kept.", "只保留了一个头。"),
            ("a single head", "单独一个头"),
            ("What has become of the other heads?", "其他的头到哪里去了？"),
            ("Look for an assignment in a loop that overwrites what was there.", "看循环里是否有赋值覆盖了之前的结果。"),
            ("Collect all heads, then np.concatenate(heads, axis=-1).", "先收集所有的头，再 np.concatenate(heads, axis=-1)。"),
        )),
        Mistake("mutates_input", (in_place,)),
    ),
    solution=(
        Line("def merge_heads(x):\n    n_heads, n, d_head = x.shape", "Heads, tokens, columns.", "头、词元、列。"),
        Line("    return x.swapaxes(0, 1).reshape(n, n_heads * d_head)",
             "Tokens to the front first: then the heads of a token are neighbours, and the reshape joins them.",
             "先把词元移到最前，同一词元的各头才相邻，reshape 才会把它们拼在一起。"),
    ),
    styles={
        "concatenate": '''
import numpy as np


def merge_heads(x):
    return np.concatenate([head for head in x], axis=1)
''',
        "loops": '''
import numpy as np


def merge_heads(x):
    h, n, d = x.shape
    out = np.empty((n, h * d))
    for i in range(h):
        out[:, i * d : (i + 1) * d] = x[i]
    return out
''',
        "einsum": '''
import numpy as np


def merge_heads(x):
    by_token = np.einsum("hnd->nhd", x)
    return by_token.reshape(by_token.shape[0], -1)
''',
        "chinese_names_from_columns": '''
import numpy as np


def merge_heads(各头):
    头数, 词元数, 头宽 = 各头.shape
    return 各头.transpose(0, 2, 1).reshape(头数 * 头宽, 词元数).T
''',
        "lists": '''
import numpy as np


def merge_heads(x):
    return np.array([[value for head in x for value in head[i]] for i in range(x.shape[1])])
''',
    },
)  # fmt: skip
