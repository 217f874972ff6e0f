"""Splitting heads: each head takes a run of columns of every token."""

from __future__ import annotations

from functools import partial

import numpy as np

from ...layers import split_heads
from ..mistakes import say
from ..task import Function, Line, Mistake, Probe, Task, Text, formula
from ..wire import Array


def runs_of_columns(x: Array, n_heads: int) -> Array:
    return x.reshape(x.shape[0], n_heads, x.shape[1] // n_heads)


def heads_first(cut: Array) -> Array:
    return cut.swapaxes(0, 1)


@formula
def split(x: Array, n_heads: int, *, divide: Function = runs_of_columns, turn: Function = heads_first) -> Array:
    cut = divide(x, n_heads)
    heads = turn(cut)
    return heads


def as_it_is(cut: Array) -> Array:
    return cut


def all_axes_turned(cut: Array) -> Array:
    return cut.T


def columns_before_tokens(cut: Array) -> Array:
    return cut.transpose(1, 2, 0)


def reshaped(x: Array, n_heads: int) -> Array:
    return x.reshape(n_heads, x.shape[0], x.shape[1] // n_heads)


def transposed_and_reshaped(x: Array, n_heads: int) -> Array:
    return x.T.reshape(n_heads, x.shape[0], x.shape[1] // n_heads)


def every_nth_column(x: Array, n_heads: int) -> Array:
    return x.reshape(x.shape[0], x.shape[1] // n_heads, n_heads).transpose(2, 0, 1)


def runs_of_tokens(x: Array, n_heads: int) -> Array:
    return x.reshape(n_heads, x.shape[0] // n_heads, x.shape[1])


def as_wide_as_heads_are_many(x: Array, n_heads: int) -> Array:
    return x.reshape(x.shape[0], x.shape[1] // n_heads, n_heads)


def in_place(x: Array, n_heads: int) -> Array:
    x.resize((x.shape[0], n_heads, x.shape[1] // n_heads), refcheck=False)
    return x.swapaxes(0, 1)


def inputs(n: int, d: int, n_heads: int) -> dict[str, object]:
    """Numbers that say where they stand: token * 100 + column."""
    return {"x": np.arange(n)[:, None] * 100.0 + np.arange(d), "n_heads": n_heads}


TASK = Task(
    name="split_heads",
    signature="split_heads(x, n_heads)",
    returns=Text("heads (n_heads, n, d / n_heads)", "heads (n_heads, n, d / n_heads)"),
    title=Text("Splitting heads", "分头"),
    statement=Text(
        "x (n, d) holds one row per token. Cut every row into n_heads runs of d / n_heads columns and put the heads in front:\n"
        "(n_heads, n, d / n_heads). Head h has columns h * d_head to (h + 1) * d_head of every token.",
        "x (n, d) 每行是一个词元。把每行切成 n_heads 段，每段 d / n_heads 列，再把头移到最前：\n"
        "(n_heads, n, d / n_heads)。第 h 个头取每个词元的第 h * d_head 到 (h + 1) * d_head 列。",
    ),
    reference=split_heads,
    formula=split,
    probes=(
        Probe("example", inputs(2, 4, 2), Text("two tokens, two heads; 103 is token 1, column 3",
                                               "两个词元、两个头；103 表示第 1 个词元的第 3 列")),
        Probe("three_heads", inputs(5, 12, 3), Text("5 tokens, width 12, 3 heads", "5 个词元，宽度 12，3 个头")),
    ),
    mistakes=(
        Mistake("heads_reshape_only", tuple(partial(split, divide=d, turn=as_it_is)
                                            for d in (reshaped, transposed_and_reshaped))),
        Mistake("heads_not_in_front", (partial(split, turn=as_it_is),), say(
            ("The heads are not moved to the front.", "头没有移到最前面。"),
            ("heads left in the middle, (n, n_heads, d_head)", "头留在中间的结果 (n, n_heads, d_head)"),
            ("What does the first axis of your result count: tokens or heads?", "结果的第一维数的是词元，还是头？"),
            ("Look at what follows the reshape.", "看 reshape 之后还做了什么。"),
            ("Add .swapaxes(0, 1).", "再加上 .swapaxes(0, 1)。"),
        )),
        Mistake("heads_axes_turned", tuple(partial(split, turn=t) for t in (all_axes_turned, columns_before_tokens)), say(
            ("Tokens and columns have changed places inside each head.", "每个头里，词元与列的位置对调了。"),
            ("heads of shape (n_heads, d_head, n) or (d_head, n_heads, n)",
             "形状为 (n_heads, d_head, n) 或 (d_head, n_heads, n) 的结果"),
            ("Which two axes must change places, and which one stays last?", "哪两维要交换？哪一维应留在最后？"),
            ("Look at .T and at the order in transpose.", "看 .T，以及 transpose 里的顺序。"),
            ("Swap the first two axes only: .swapaxes(0, 1).", "只交换前两维：.swapaxes(0, 1)。"),
        )),
        Mistake("heads_interleaved", (partial(split, divide=every_nth_column, turn=as_it_is),), say(
            ("Each head takes every n-th column, not a run of neighbours.", "每个头隔几列取一列，而不是取相邻的一段。"),
            ("heads made of every n_heads-th column", "每隔 n_heads 列取一列的头"),
            ("Which columns does head 0 hold in your result?", "你的结果里，第 0 个头拿到哪几列？"),
            ("Look at the order of n_heads and d_head in the reshape.", "看 reshape 里 n_heads 与 d_head 的先后。"),
            ("x.reshape(n, n_heads, d_head).swapaxes(0, 1).", "x.reshape(n, n_heads, d_head).swapaxes(0, 1)。"),
        )),
        Mistake("heads_along_tokens", (partial(split, divide=runs_of_tokens, turn=as_it_is),), say(
            ("The tokens are shared out among the heads, not the columns.", "分给各个头的是词元，而不是列。"),
            ("the tokens cut into n_heads groups", "把词元切成 n_heads 组的结果"),
            ("Does every head see every token?", "每个头都看得到每个词元吗？"),
            ("Look at the axis that is cut.", "看切的是哪一维。"),
            ("Cut the columns: x.reshape(n, n_heads, d_head).", "切的是列：x.reshape(n, n_heads, d_head)。"),
        )),
        Mistake("heads_count_for_width", (partial(split, divide=as_wide_as_heads_are_many),), say(
            ("n_heads is taken for the width of a head.", "把 n_heads 当成了每个头的宽度。"),
            ("heads of width n_heads, d / n_heads of them", "宽度为 n_heads 的 d / n_heads 个头"),
            ("With width 12 and 3 heads: how many heads do you make, and how wide are they?",
             "宽度 12、3 个头时，你分出了几个头？每个多宽？"),
            ("Look at the order of the sizes in the reshape.", "看 reshape 里各个尺寸的顺序。"),
            ("x.reshape(n, n_heads, d // n_heads): first how many, then how wide.",
             "x.reshape(n, n_heads, d // n_heads)：先是个数，再是宽度。"),
        )),
        Mistake("mutates_input", (in_place,)),
    ),
    solution=(
        Line("def split_heads(x, n_heads):\n    n, d = x.shape", "n tokens of width d.", "n 个词元，宽度 d。"),
        Line("    return x.reshape(n, n_heads, d // n_heads).swapaxes(0, 1)",
             "The reshape cuts every row into runs of neighbouring columns; the swap puts the heads in front of the tokens.",
             "reshape 把每行切成相邻的几段；交换维之后，头排在词元前面。"),
    ),
    styles={
        "slices": '''
import numpy as np


def split_heads(x, n_heads):
    d_head = x.shape[1] // n_heads
    return np.array([x[:, h * d_head : (h + 1) * d_head] for h in range(n_heads)])
''',
        "split_and_stack": '''
import numpy as np


def split_heads(x, n_heads):
    return np.stack(np.split(x, n_heads, axis=-1))
''',
        "loops": '''
import numpy as np


def split_heads(x, n_heads):
    n, d = x.shape
    d_head = d // n_heads
    heads = np.zeros((n_heads, n, d_head))
    for token in range(n):
        for column in range(d):
            heads[column // d_head, token, column % d_head] = x[token, column]
    return heads
''',
        "chinese_names_from_columns": '''
import numpy as np


def split_heads(输入, 头数):
    词元数, 宽度 = 输入.shape
    return 输入.T.reshape(头数, 宽度 // 头数, 词元数).transpose(0, 2, 1)
''',
        "einsum": '''
import numpy as np


def split_heads(x, n_heads):
    return np.einsum("nhd->hnd", x.reshape(len(x), n_heads, -1))
''',
    },
)  # fmt: skip
