"""RoPE: pairs of dimensions turn by an angle that grows with the position."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ... import ops
from ..mistakes import say
from ..probes import drawn
from ..task import Convention, Function, Line, Mistake, Probe, Task, Text, formula
from ..wire import Array

Pairs = tuple[Array, Array]


def halves(d: int) -> Pairs:
    return np.arange(d // 2), np.arange(d // 2, d)


def neighbours(d: int) -> Pairs:
    return np.arange(0, d, 2), np.arange(1, d, 2)


def as_given(positions: Array) -> Array:
    return positions


def as_asked(base: float) -> float:
    return base


def of_its_pair(d: int) -> Array:
    return 2 * np.arange(d // 2) / d


def turned(first: Array, second: Array, cos: Array, sin: Array) -> Pairs:
    return first * cos - second * sin, second * cos + first * sin


def back_in_place(one: Array, two: Array, pairs: Pairs) -> Array:
    out = np.empty((*one.shape[:-1], 2 * one.shape[-1]))
    out[..., pairs[0]], out[..., pairs[1]] = one, two
    return out


def as_it_is(out: Array, x: Array) -> Array:
    return out


@formula
def rotary(
    x: Array,
    positions: Array,
    base: float = 10000.0,
    *,
    layout: Function = halves,
    place: Function = as_given,
    root: Function = as_asked,
    exponent: Function = of_its_pair,
    turn: Function = turned,
    join: Function = back_in_place,
    finish: Function = as_it_is,
) -> Array:
    frequencies = root(base) ** -exponent(x.shape[-1])
    pair_angles = place(positions)[:, None] * frequencies
    pairs = layout(x.shape[-1])
    turned_pairs = turn(x[..., pairs[0]], x[..., pairs[1]], np.cos(pair_angles), np.sin(pair_angles))
    out = finish(join(*turned_pairs, pairs), x)
    return out


# the steps as they go wrong


def clockwise(first: Array, second: Array, cos: Array, sin: Array) -> Pairs:
    return turned(first, second, cos, -sin)


def two_pluses(first: Array, second: Array, cos: Array, sin: Array) -> Pairs:
    return first * cos + second * sin, second * cos + first * sin


def two_minuses(first: Array, second: Array, cos: Array, sin: Array) -> Pairs:
    return first * cos - second * sin, second * cos - first * sin


def cos_sin_swapped(first: Array, second: Array, cos: Array, sin: Array) -> Pairs:
    return turned(first, second, sin, cos)


def first_overwritten(first: Array, second: Array, cos: Array, sin: Array) -> Pairs:
    one = first * cos - second * sin
    return one, second * cos + one * sin


def second_overwritten(first: Array, second: Array, cos: Array, sin: Array) -> Pairs:
    two = second * cos + first * sin
    return first * cos - two * sin, two


def first_overwritten_in_x(first: Array, second: Array, cos: Array, sin: Array) -> Pairs:
    one = (first * cos - second * sin).astype(first.dtype)
    return one, second * cos + one * sin


def second_overwritten_in_x(first: Array, second: Array, cos: Array, sin: Array) -> Pairs:
    two = (second * cos + first * sin).astype(first.dtype)
    return first * cos - two * sin, two


def no_turn(first: Array, second: Array, cos: Array, sin: Array) -> Pairs:
    return first, second


def from_zero(positions: Array) -> Array:
    return np.arange(len(positions))


def from_the_first(positions: Array) -> Array:
    return positions - positions[0]


def one_further(positions: Array) -> Array:
    return positions + 1


def from_one(positions: Array) -> Array:
    return np.arange(1, len(positions) + 1)


def doubled(positions: Array) -> Array:
    return 2 * positions


def fixed(base: float, *, instead: float) -> float:
    return instead


def pair_over_width(d: int) -> Array:
    return np.arange(d // 2) / d


def two_even_columns_over_width(d: int) -> Array:
    return 4 * np.arange(d // 2) / d


def last_pair_at_one(d: int) -> Array:
    return np.arange(d // 2) / max(d // 2 - 1, 1)


def from_one_on(d: int) -> Array:
    return 2 * np.arange(1, d // 2 + 1) / d


def turned_round(d: int) -> Array:
    return -2 * np.arange(d // 2) / d


def all_alike(d: int) -> Array:
    return np.zeros(d // 2)


def two_halves(one: Array, two: Array, pairs: Pairs) -> Array:
    return np.concatenate([one, two], axis=-1)


def in_turn(one: Array, two: Array, pairs: Pairs) -> Array:
    return np.stack([one, two], axis=-1).reshape(*one.shape[:-1], 2 * one.shape[-1])


def back_swapped(one: Array, two: Array, pairs: Pairs) -> Array:
    return back_in_place(two, one, pairs)


def outside_in(d: int) -> Pairs:
    return np.arange(d // 2), np.arange(d - 1, d // 2 - 1, -1)


def shifted_pair(column: Array, d: int) -> Array:
    return 2 * (column // 2) / d


def tiled_pair(column: Array, d: int) -> Array:
    return 2 * (column % (d // 2)) / d


def column_over_width(column: Array, d: int) -> Array:
    return column / d


def by_columns(x: Array, positions: Array, base: float = 10000.0, *, exponent: Function, layout: Function) -> Array:
    """Each column with an angle of its own, the two of a pair not alike."""
    d = x.shape[-1]
    angles = np.asarray(positions)[:, None] / base ** exponent(np.arange(d), d)
    first, second = layout(d)
    partner = np.empty(x.shape)
    partner[..., first], partner[..., second] = -x[..., second], x[..., first]
    return x * np.cos(angles) + partner * np.sin(angles)


def in_dtype_of_input(out: Array, x: Array) -> Array:
    return out.astype(x.dtype)


def put_into_input(out: Array, x: Array) -> Array:
    floats = np.asarray(x, np.float64)  # the same array when it holds floats already, which is the trap
    floats[...] = out
    return floats


def changed(**steps: Function) -> Function:
    return partial(rotary, **steps)


def fitted_base(probe: Probe, value: Any) -> Function | None:
    """A base that a learner uses whatever is asked for, read off the second pair of the first probe, position 1."""
    x = np.asarray(probe.arguments["x"])  # type: ignore[call-overload]
    if probe.name != "example" or not isinstance(value, np.ndarray) or value.shape != x.shape:
        return None
    for first, second in (halves(x.shape[-1]), neighbours(x.shape[-1])):
        before, after = (a[1, first[1]] + 1j * a[1, second[1]] for a in (x, value))
        angle = float(np.angle(after / before))
        base = angle ** (-x.shape[-1] / 2) if angle > 0 else 1
        if np.isclose(abs(after), abs(before)) and not np.isclose(base, 1):  # 1: no base, all pairs alike
            return changed(root=partial(fixed, instead=base))
    return None


TASK = Task(
    name="rope",
    signature="rope(x, positions, base=10000.0)",
    returns=Text("the shape of x", "形状与 x 相同"),
    title=Text("Rotary positions (RoPE)", "旋转位置编码（RoPE）"),
    statement=Text(
        "x (..., n, d) with d even; positions (n,) says where each row stands. Pair i of dimensions (a, b) turns by\n"
        "angle = position * base^(-2i / d): (a cos - b sin, b cos + a sin), and stays where it was.\n"
        "Either layout is right: pair i is (i, i + d/2), or (2i, 2i + 1).",
        "x (..., n, d)，d 为偶数；positions (n,) 给出每一行的位置。第 i 对维 (a, b) 旋转\n"
        "角度 = 位置 * base^(-2i / d)：变成 (a cos - b sin, b cos + a sin)，仍放回原处。\n"
        "两种排列都算对：第 i 对是 (i, i + d/2)，或者 (2i, 2i + 1)。",
    ),
    reference=ops.rope,
    formula=rotary,
    probes=(
        Probe("example", {"x": np.array([[1.0, 2.0, 3.0, 4.0], [2.0, 1.0, -1.0, 3.0]]), "positions": np.array([0, 1])},
              Text("two rows at positions 0 and 1, width 4", "两行，位置 0 和 1，宽度 4")),
        Probe("far", {"x": drawn(21, 2, 5, 8), "positions": np.arange(7, 12)},
              Text("positions 7 to 11, a batch of width 8", "位置 7 到 11，一批，宽度 8")),
        Probe("base", {"x": drawn(31, 3, 6), "positions": np.arange(3), "base": 500.0},
              Text("base 500", "base 为 500")),
        Probe("integers", {"x": np.array([[1, 2, 3, 1], [0, 4, 1, 2], [5, 1, 0, 2]]), "positions": np.arange(3)},
              Text("integer input", "输入是整数")),
    ),
    mistakes=(
        Mistake("rope_wrong_sign", tuple(changed(turn=t) for t in (clockwise, two_pluses, two_minuses)), say(
            ("A sign of the rotation is wrong.", "旋转公式里有正负号写错了。"),
            ("RoPE with a wrong sign", "正负号有误的 RoPE"),
            ("Where does (1, 0) go when it is turned by 90° counter-clockwise?", "(1, 0) 逆时针转 90° 之后在哪里？"),
            ("Look at the two signs before sin; rotate_half gives (-second, first).",
             "看 sin 前面的两个符号；rotate_half 应给出 (-后, 前)。"),
            ("(a cos - b sin, b cos + a sin): one minus, in the first.", "(a cos - b sin, b cos + a sin)：只有第一个是减号。"),
        )),
        Mistake("rope_sin_cos_swapped", (changed(turn=cos_sin_swapped),), say(
            ("Sine and cosine are swapped.", "正弦与余弦对调了。"),
            ("RoPE with sin and cos swapped", "sin 与 cos 对调的 RoPE"),
            ("At position 0 nothing may change: which of the two is 1 there?", "位置 0 处什么都不应改变：哪个函数在那里等于 1？"),
            ("Look at what a is multiplied by.", "看 a 乘的是哪一个。"),
            ("(a cos - b sin, b cos + a sin).", "(a cos - b sin, b cos + a sin)。"),
        )),
        Mistake("rope_overwrites", (
            *(changed(turn=t) for t in (first_overwritten, second_overwritten)),
            *(changed(turn=t, finish=in_dtype_of_input) for t in (first_overwritten_in_x, second_overwritten_in_x)),
        ), say(
            ("One half is overwritten before the other has been computed from it.", "一半已被改写，另一半才用它来计算。"),
            ("RoPE whose second line reads what the first has already turned", "第二行读到第一行旋转后数值的 RoPE"),
            ("Is x[..., :k] a copy, or a view of the same numbers?", "x[..., :k] 是副本，还是同一批数的视图？"),
            ("Look at the assignment to the first half, and at what the next line reads.", "看给前一半赋值的那行，再看下一行读的是什么。"),
            ("Compute both halves first, then write both into a new array.", "先把两半都算好，再一起写进新数组。"),
        )),
        Mistake("rope_positions_from_zero", tuple(changed(place=p) for p in (from_zero, from_the_first)), say(
            ("The positions given are not used: counting begins at 0.", "没有用给出的位置，而是从 0 数起。"),
            ("RoPE at positions 0, 1, 2, ...", "位置为 0、1、2…… 的 RoPE"),
            ("With a cache, one new row comes at position 7: where do you turn it to?", "有缓存时，新来的一行在位置 7：你按哪个位置旋转？"),
            ("Look for arange(n): is positions used?", "找 arange(n)：positions 用到了吗？"),
            ("angles = positions[:, None] * frequencies.", "angles = positions[:, None] * frequencies。"),
        )),
        Mistake("rope_positions_shifted", tuple(changed(place=p) for p in (one_further, from_one)), say(
            ("Positions are counted one too far.", "位置多数了一个。"),
            ("RoPE at positions one further", "位置多 1 的 RoPE"),
            ("What happens to a row at position 0?", "位置 0 的那一行会怎样？"),
            ("Look for + 1, or a range that begins at 1.", "找 + 1，或从 1 开始的 range。"),
            ("Use positions as they are; position 0 does not turn.", "直接用 positions；位置 0 不旋转。"),
        )),
        Mistake("rope_angle_doubled", (changed(place=doubled),), say(
            ("Everything turns twice as far.", "旋转的角度是应有的两倍。"),
            ("RoPE applied twice", "旋转了两次的 RoPE"),
            ("By how much should pair 0 turn at position 1?", "位置 1 处，第 0 对应转多少？"),
            ("Look for a factor 2, or for rope being applied twice.", "找多出来的因子 2，或者旋转了两次的地方。"),
            ("angle = position * base ** (-2i / d), once.", "angle = position * base ** (-2i / d)，只转一次。"),
        )),
        Mistake("rope_not_applied", (changed(turn=no_turn),), say(
            ("Nothing is turned: the result is x.", "什么都没有旋转：结果就是 x。"),
            ("x itself", "x 本身"),
            ("Does your result depend on positions?", "你的结果与 positions 有关吗？"),
            ("Look at what is returned.", "看返回的是什么。"),
            ("Return the turned pairs, not x.", "返回旋转后的数，而不是 x。"),
        )),
        Mistake("rope_wrong_base", tuple(changed(root=partial(fixed, instead=b)) for b in (10000.0, 1000.0, 500000.0)), say(
            ("The base asked for is not used.", "没有用传入的 base。"),
            ("RoPE with a base of its own", "自带固定 base 的 RoPE"),
            ("Does your result change when another base is passed?", "传入另一个 base，你的结果会变吗？"),
            ("Look for a number such as 10000 in the frequencies.", "在频率里找 10000 这样的数字。"),
            ("base ** (-np.arange(0, d, 2) / d).", "base ** (-np.arange(0, d, 2) / d)。"),
        ), fitted_base),
        Mistake("rope_frequency", (
            *(changed(exponent=e) for e in (
                pair_over_width, two_even_columns_over_width, last_pair_at_one, from_one_on, turned_round, all_alike,
            )),
            *(partial(by_columns, exponent=column_over_width, layout=pairs) for pairs in (halves, neighbours)),
        ), say(
            ("The frequencies are not base^(-2i / d) for pair i.", "第 i 对的频率不是 base^(-2i / d)。"),
            ("RoPE with other frequencies", "频率不对的 RoPE"),
            ("For d = 4, how fast do pair 0 and pair 1 turn?", "d = 4 时，第 0 对与第 1 对各转多快？"),
            ("Look at the exponent: is your i a column, a pair, or already 2i?", "看指数：你的 i 是列号、第几对，还是已经是 2i？"),
            ("base ** (-np.arange(0, d, 2) / d): 1 and 0.01 for d = 4.", "base ** (-np.arange(0, d, 2) / d)：d = 4 时是 1 和 0.01。"),
        )),
        Mistake("rope_rotates_pairs_wrong", (
            changed(layout=neighbours, join=two_halves), changed(layout=halves, join=in_turn), changed(layout=outside_in), changed(join=back_swapped),
            partial(by_columns, exponent=shifted_pair, layout=halves), partial(by_columns, exponent=tiled_pair, layout=neighbours),
        ), say(
            ("Two layouts are mixed: the numbers of a pair, their angles and their places do not belong together.",
             "两种排列混用了：一对里的数、角度和位置对不上。"),
            ("RoPE with its two layouts mixed", "两种排列混用的 RoPE"),
            ("Which two numbers make pair 0, which angle do they get, and where do they go back to?",
             "第 0 对是哪两个数？用哪个角度？放回哪里？"),
            ("Compare how you split x, how you repeat the angles, and how you join the result.",
             "对照三处：怎样拆 x、怎样重复角度、怎样拼回结果。"),
            ("Halves: split at d/2, angles [θ0 θ1 .. θ0 θ1 ..], concatenate. Neighbours: x[..., ::2] and x[..., 1::2], "
             "angles [θ0 θ0 θ1 θ1 ..], put back into ::2 and 1::2.",
             "前后两半：从 d/2 拆开，角度 [θ0 θ1 .. θ0 θ1 ..]，用 concatenate。相邻成对：x[..., ::2] 与 x[..., 1::2]，"
             "角度 [θ0 θ0 θ1 θ1 ..]，放回 ::2 与 1::2。"),
        )),
        Mistake("integer_result", (changed(finish=in_dtype_of_input),)),
        Mistake("mutates_input", (changed(finish=put_into_input),)),
    ),
    conventions=(Convention("rope_interleaved", changed(layout=neighbours)),),
    solution=(
        Line("def rope(x, positions, base=10000.0):\n    d = x.shape[-1]\n    frequencies = base ** (-np.arange(0, d, 2) / d)",
             "Pair 0 turns by 1 radian per position, every later pair more slowly.", "第 0 对每个位置转 1 弧度，越往后转得越慢。"),
        Line("    angles = positions[:, None] * frequencies\n    cos, sin = np.cos(angles), np.sin(angles)",
             "(n, d/2): each row by its own position.", "(n, d/2)：每一行按自己的位置。"),
        Line("    a, b = x[..., : d // 2], x[..., d // 2 :]", "Pair i is (i, i + d/2).", "第 i 对是 (i, i + d/2)。"),
        Line("    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)",
             "Turn each pair, and put both halves back into a new array.", "旋转每一对，把两半放回一个新数组。"),
    ),
    styles={
        "rotate_half": '''
import numpy as np


def rotate_half(x):
    x1, x2 = np.split(x, 2, axis=-1)
    return np.concatenate((-x2, x1), axis=-1)


def rope(x, positions, base=10000.0):
    dim = x.shape[-1]
    inv_freq = 1.0 / (base ** (np.arange(0, dim, 2) / dim))
    freqs = np.outer(positions, inv_freq)
    emb = np.concatenate((freqs, freqs), axis=-1)
    return x * np.cos(emb) + rotate_half(x) * np.sin(emb)
''',
        "interleaved_complex_numbers": '''
import numpy as np


def rope(x, positions, base=10000.0):
    d = x.shape[-1]
    theta = np.power(base, -2.0 * np.arange(d // 2) / d)
    turns = np.exp(1j * np.einsum("n,f->nf", positions, theta))
    pairs = x.reshape(*x.shape[:-1], d // 2, 2)
    turned = (pairs[..., 0] + 1j * pairs[..., 1]) * turns
    return np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape)
''',
        "interleaved_loops": '''
import math

import numpy as np


def rope(x, positions, base=10000.0):
    out = np.zeros(x.shape)
    d = x.shape[-1]
    for lead in np.ndindex(*x.shape[:-2]):
        for row, m in enumerate(positions):
            for i in range(d // 2):
                angle = m * base ** (-2 * i / d)
                a, b = x[lead][row, 2 * i], x[lead][row, 2 * i + 1]
                out[lead][row, 2 * i] = a * math.cos(angle) - b * math.sin(angle)
                out[lead][row, 2 * i + 1] = a * math.sin(angle) + b * math.cos(angle)
    return out
''',
        "class_with_matrices": '''
import numpy as np


class Rotary:
    def __init__(self, 宽度, base):
        self.宽度 = 宽度
        self.频率 = np.exp(-np.log(base) * np.arange(0, 宽度, 2) / 宽度)

    def matrix(self, 位置):
        R = np.eye(self.宽度)
        for i, 角度 in enumerate(位置 * self.频率):
            a, b = i, i + self.宽度 // 2
            R[a, a] = R[b, b] = np.cos(角度)
            R[a, b], R[b, a] = -np.sin(角度), np.sin(角度)
        return R


def rope(x, positions, base=10000.0):
    rotary = Rotary(x.shape[-1], base)
    rotations = np.stack([rotary.matrix(p) for p in positions])
    return np.einsum("nij,...nj->...ni", rotations, x)
''',
    },
)  # fmt: skip
