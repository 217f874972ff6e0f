"""Sinusoidal positions: the table of sines and cosines that is added to the embeddings."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ... import ops
from ..mistakes import say
from ..task import Function, Line, Mistake, Probe, Task, Text, formula
from ..wire import Array

Pair = tuple[Array, Array]


def from_zero(n: int) -> Array:
    return np.arange(n)


def of_its_pair(column: Array, d_model: int) -> Array:
    return 2 * (column // 2) / d_model


def power(exponents: Array, *, base: float = 10000.0) -> Array:
    return base**exponents


def sine_first(sines: Array, cosines: Array) -> Pair:
    return sines, cosines


def alternating(even: Array, odd: Array) -> Array:
    return np.where(np.arange(even.shape[-1]) % 2 == 0, even, odd)


@formula
def table(
    n: int,
    d_model: int,
    *,
    start: Function = from_zero,
    exponent: Function = of_its_pair,
    raised: Function = power,
    order: Function = sine_first,
    arrange: Function = alternating,
) -> Array:
    column_exponents = exponent(np.arange(d_model), d_model)
    column_angles = start(n)[:, None] / raised(column_exponents)
    out = arrange(*order(np.sin(column_angles), np.cos(column_angles)))
    return out


# the steps as they go wrong


def from_one(n: int) -> Array:
    return np.arange(1, n + 1)


def pair_over_width(column: Array, d_model: int) -> Array:
    return (column // 2) / d_model


def column_over_width(column: Array, d_model: int) -> Array:
    return column / d_model


def two_columns_over_width(column: Array, d_model: int) -> Array:
    return 2 * column / d_model


def two_even_columns_over_width(column: Array, d_model: int) -> Array:
    return 4 * (column // 2) / d_model


def odd_columns_one_further(column: Array, d_model: int) -> Array:
    return (2 * (column // 2) + 2 * (column % 2)) / d_model


def last_pair_at_one(column: Array, d_model: int) -> Array:
    return (column // 2) / (d_model // 2 - 1)


def turned_round(column: Array, d_model: int) -> Array:
    return -2 * (column // 2) / d_model


def whole_numbers(column: Array, d_model: int) -> Array:
    return 2 * (column // 2) // d_model


def whole_numbers_by_column(column: Array, d_model: int) -> Array:
    return 2 * column // d_model


def cosine_first(sines: Array, cosines: Array) -> Pair:
    return cosines, sines


def only_sines(sines: Array, cosines: Array) -> Pair:
    return sines, sines


def only_cosines(sines: Array, cosines: Array) -> Pair:
    return cosines, cosines


def side_by_side(even: Array, odd: Array) -> Array:
    return np.concatenate([even[:, ::2], odd[:, 1::2]], axis=1)


def halves_by_column(even: Array, odd: Array) -> Array:
    half = even.shape[-1] // 2
    return np.concatenate([even[:, :half], odd[:, half:]], axis=1)


def by_rows(even: Array, odd: Array) -> Array:
    return np.where(np.arange(len(even))[:, None] % 2 == 0, even, odd)


def transposed(n: int, d_model: int, **steps: Any) -> Array:
    return table(n, d_model, **steps).T


# Bases that come to the same as a wrong exponent.
AS_EXPONENTS = (100.0, 1.0, 1e-4, 1e8)


def fitted_base(probe: Probe, value: Any) -> Function | None:
    """The base that a learner's table was made with, read off its second pair at position 1."""
    if not isinstance(value, np.ndarray) or value.ndim != 2 or min(value.shape[0] - 1, value.shape[1] - 3) < 1:
        return None
    angle = float(np.arctan2(value[1, 2], value[1, 3]))
    if not angle > 0:
        return None
    base = angle ** (-value.shape[1] / 2)
    known = any(np.isclose(base, other, rtol=1e-3) for other in (10000.0, *AS_EXPONENTS))
    return None if known else partial(table, raised=partial(power, base=base))


TASK = Task(
    name="sinusoidal_positions",
    signature="sinusoidal_positions(n, d_model)",
    returns=Text("table (n, d_model)", "table (n, d_model)"),
    title=Text("Sinusoidal positions", "正弦位置编码"),
    statement=Text(
        "For positions pos = 0 ... n-1 and an even d_model, the table of the first transformer:\n"
        "column 2i holds sin(pos / 10000^(2i / d_model)), column 2i + 1 the cosine of the same angle.",
        "位置 pos = 0 ... n-1，d_model 为偶数，给出最初的 Transformer 所用的表：\n"
        "第 2i 列是 sin(pos / 10000^(2i / d_model))，第 2i + 1 列是同一角度的余弦。",
    ),
    reference=ops.sinusoidal_positions,
    formula=table,
    probes=(
        Probe("example", {"n": 3, "d_model": 4}, Text("three positions, width 4", "三个位置，宽度 4")),
        Probe("wide", {"n": 5, "d_model": 10}, Text("five positions, width 10", "五个位置，宽度 10")),
    ),
    mistakes=(
        Mistake("positions_exponent", tuple(partial(table, exponent=e) for e in (
            pair_over_width, column_over_width, two_columns_over_width, two_even_columns_over_width,
            odd_columns_one_further, last_pair_at_one, turned_round, whole_numbers,
            whole_numbers_by_column,
        )), say(
            ("The exponent is not 2i / d_model, the same for both columns of pair i.", "指数不是 2i / d_model（第 i 对的两列共用）。"),
            ("a table with another exponent than 2i / d_model", "指数不是 2i / d_model 的表"),
            ("For d_model = 4, which exponents belong to columns 0, 1, 2, 3?", "d_model = 4 时，第 0、1、2、3 列的指数各是多少？"),
            ("Look at the exponent of 10000: is your i a column, a pair, or already 2i?",
             "看 10000 的指数：你的 i 是列号、第几对，还是已经是 2i？"),
            ("np.arange(0, d_model, 2) / d_model, for sine and cosine alike: 0, 0, 0.5, 0.5.",
             "np.arange(0, d_model, 2) / d_model，正弦与余弦共用：0, 0, 0.5, 0.5。"),
        )),
        Mistake("positions_wrong_base", (partial(table, raised=partial(power, base=1000.0)),), say(
            ("The base is not 10000.", "底数不是 10000。"),
            ("a table with another base than 10000", "底数不是 10000 的表"),
            ("How slowly should the last pair turn?", "最后一对应该转得多慢？"),
            ("Count the zeros of the base.", "数一数底数有几个零。"),
            ("10000 ** (2i / d_model): four zeros.", "10000 ** (2i / d_model)：四个零。"),
        ), fitted_base),
        Mistake("positions_from_one", (partial(table, start=from_one),), say(
            ("Positions begin at 1, not at 0.", "位置从 1 开始，而不是从 0 开始。"),
            ("a table that begins at position 1", "从位置 1 开始的表"),
            ("What is the first row of the table? sin(0) and cos(0) are known.", "表的第一行是什么？sin(0)、cos(0) 各是多少？"),
            ("Look at the range of positions.", "看位置的 range。"),
            ("np.arange(n): 0 ... n-1.", "np.arange(n)：0 ... n-1。"),
        )),
        Mistake("positions_sin_cos_swapped", (partial(table, order=cosine_first),), say(
            ("Sine and cosine are swapped.", "正弦与余弦对调了。"),
            ("a table with cosines in the even columns", "偶数列是余弦的表"),
            ("Which of the two is 0 at position 0, and in which columns?", "位置 0 处，哪个函数等于 0？应在哪些列？"),
            ("Look at what goes into 0::2 and 1::2.", "看 0::2 与 1::2 里放了什么。"),
            ("Even columns sine, odd columns cosine.", "偶数列正弦，奇数列余弦。"),
        )),
        Mistake("positions_concatenated", (partial(table, arrange=side_by_side), partial(table, arrange=halves_by_column)), say(
            ("All sines come first, then all cosines; they should alternate.", "正弦全在前、余弦全在后；应当交替排列。"),
            ("a table of sines beside a table of cosines", "正弦与余弦左右拼接的表"),
            ("What should stand in column 1?", "第 1 列应放什么？"),
            ("Look at concatenate, or at the slices you assign to.", "看 concatenate，或赋值用的切片。"),
            ("out[:, 0::2] = np.sin(angles); out[:, 1::2] = np.cos(angles).",
             "out[:, 0::2] = np.sin(angles)；out[:, 1::2] = np.cos(angles)。"),
        )),
        Mistake("positions_one_function", (partial(table, order=only_sines), partial(table, order=only_cosines)), say(
            ("All columns hold the same function.", "所有列用的是同一个函数。"),
            ("a table of one function alone", "只用一个函数的表"),
            ("Which function belongs in the odd columns?", "奇数列应是哪个函数？"),
            ("Look at out[:, 1::2].", "看 out[:, 1::2]。"),
            ("Even columns sine, odd columns cosine.", "偶数列正弦，奇数列余弦。"),
        )),
        Mistake("positions_wrong_axis", (partial(table, arrange=by_rows),), say(
            ("Sine and cosine alternate from position to position, not from column to column.", "正弦与余弦按位置交替，而不是按列交替。"),
            ("a table whose odd rows are cosines", "奇数行是余弦的表"),
            ("Which axis counts the columns?", "哪一维对应列？"),
            ("Look at 0::2 and 1::2: on which axis are they?", "看 0::2 与 1::2：它们用在哪一维？"),
            ("out[:, 0::2] and out[:, 1::2]: the slice comes second.", "out[:, 0::2] 和 out[:, 1::2]：切片放在第二个位置。"),
        )),
        Mistake("wrong_shape", (transposed,)),
    ),
    solution=(
        Line("def sinusoidal_positions(n, d_model):\n    exponents = np.arange(0, d_model, 2) / d_model",
             "2i / d_model, one for each pair of columns.", "2i / d_model，每对列一个。"),
        Line("    angles = np.arange(n)[:, None] / 10000**exponents",
             "(n, d_model / 2): every pair turns more slowly than the one before.", "(n, d_model / 2)：每一对都比前一对转得慢。"),
        Line("    out = np.empty((n, d_model))\n    out[:, 0::2] = np.sin(angles)\n    out[:, 1::2] = np.cos(angles)",
             "Sine and cosine alternate, both of the same angle.", "正弦与余弦交替，角度相同。"),
        Line("    return out", "One row for each position.", "每个位置一行。"),
    ),
    styles={
        "loops": '''
import math

import numpy as np


def sinusoidal_positions(n, d_model):
    pe = np.zeros((n, d_model))
    for pos in range(n):
        for j in range(d_model):
            angle = pos / 10000 ** (2 * (j // 2) / d_model)
            pe[pos, j] = math.cos(angle) if j % 2 else math.sin(angle)
    return pe
''',
        "as_in_pytorch": '''
import math

import numpy as np


class PositionalEncoding:
    def __init__(self, d_model, max_len=100):
        position = np.arange(max_len)[:, None]
        div_term = np.exp(np.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        self.pe = np.zeros((max_len, d_model))
        self.pe[:, 0::2] = np.sin(position * div_term)
        self.pe[:, 1::2] = np.cos(position * div_term)


def sinusoidal_positions(n, d_model):
    return PositionalEncoding(d_model).pe[:n]
''',
        "complex_numbers": '''
import numpy as np


def sinusoidal_positions(n, d_model):
    angles = np.outer(np.arange(n), 1e4 ** (-2.0 * np.arange(d_model // 2) / d_model))
    turned = np.exp(1j * angles)
    return np.stack([turned.imag, turned.real], axis=-1).reshape(n, d_model)
''',
        "chinese_names_phase": '''
import numpy as np


def sinusoidal_positions(n, d_model):
    列 = np.arange(d_model)
    角度 = np.einsum("i,j->ij", np.arange(n), 1 / np.power(10000, (列 - 列 % 2) / d_model))
    return np.sin(角度 + 列 % 2 * np.pi / 2)
''',
    },
)  # fmt: skip
