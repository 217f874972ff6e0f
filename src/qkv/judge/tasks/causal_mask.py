"""The causal mask: each token may look at itself and at what came before."""

from __future__ import annotations

from functools import partial

import numpy as np

from ... import ops
from ..task import Function, Line, Mistake, Probe, Task, Text, formula
from ..wire import Array


def up_to_itself(i: Array, j: Array) -> Array:
    return j <= i


def truth(allowed: Array) -> Array:
    return allowed


@formula
def mask(n: int, *, rule: Function = up_to_itself, finish: Function = truth) -> Array:
    i = np.arange(n)[:, None]
    j = np.arange(n)[None, :]
    allowed = rule(i, j)
    out = finish(allowed)
    return out


def before_itself(i: Array, j: Array) -> Array:
    return j < i


def up_to_the_next(i: Array, j: Array) -> Array:
    return j <= i + 1


def from_itself_on(i: Array, j: Array) -> Array:
    return j >= i


def behind_itself(i: Array, j: Array) -> Array:
    return j > i


def everything(i: Array, j: Array) -> Array:
    return (i + j) >= 0


def as_floats(allowed: Array) -> Array:
    return allowed.astype(np.float64)


def as_integers(allowed: Array) -> Array:
    return allowed.astype(np.int64)


def as_bias(allowed: Array) -> Array:
    return np.where(allowed, 0.0, -np.inf)


def reference(n: int) -> Array:
    return ops.masks.causal()(np.arange(n), np.arange(n))


TASK = Task(
    name="causal_mask",
    signature="causal_mask(n)",
    returns=Text("bool (n, n)", "布尔数组 (n, n)"),
    title=Text("The causal mask", "因果掩码"),
    statement=Text(
        "For n tokens, a boolean array (n, n): True where query i (row) may look at key j (column).\n"
        "A token looks at itself and at what came before it.",
        "对 n 个词元，给出布尔数组 (n, n)：查询 i（行）可以看键 j（列）处为 True。\n词元看得到自己和它之前的词元。",
    ),
    reference=reference,
    formula=mask,
    probes=(Probe("example", {"n": 3}, Text("three tokens", "三个词元")),),
    mistakes=(
        Mistake("causal_off_by_one", (partial(mask, rule=before_itself), partial(mask, rule=up_to_the_next))),
        Mistake("causal_inverted", (partial(mask, rule=from_itself_on), partial(mask, rule=behind_itself))),
        Mistake("causal_missing", (partial(mask, rule=everything),)),
        Mistake("wrong_dtype", tuple(partial(mask, finish=f) for f in (as_floats, as_integers, as_bias))),
    ),
    solution=(
        Line("def causal_mask(n):", "Row i is the query, column j the key.", "第 i 行是查询，第 j 列是键。"),
        Line("    return np.tril(np.ones((n, n), dtype=bool))",
             "The lower triangle with its diagonal: j <= i.", "下三角，含对角线：j <= i。"),
    ),
    styles={
        "comparison": '''
import numpy as np


def causal_mask(n):
    return np.arange(n)[:, None] >= np.arange(n)
''',
        "loops": '''
import numpy as np


def causal_mask(n):
    mask = np.zeros((n, n), dtype=bool)
    for i in range(n):
        for j in range(i + 1):
            mask[i, j] = True
    return mask
''',
        "not_above": '''
import numpy as np


def causal_mask(n):
    return ~np.triu(np.ones((n, n), bool), k=1)
''',
    },
)  # fmt: skip
