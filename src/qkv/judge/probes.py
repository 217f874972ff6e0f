"""Inputs that tell mistakes apart: few, small, the same in every run. Numbers are round enough to be read aloud.

`attention_probes` are those of the attention family. Every task puts an example of two or three tokens first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .task import Probe, Text
from .wire import Array

SQUARE = Text(
    "as many queries as keys and columns: nothing breaks, only values differ",
    "查询数、键数、宽度都相同：不会报错，只有数值不同",
)
RECTANGULAR = Text("every size different", "每个尺寸都不同")


def drawn(seed: int, *shape: int) -> Array:
    """Normal numbers, rounded to two decimals."""
    return np.random.Generator(np.random.PCG64(seed)).normal(size=shape).round(2) + 0.0


def qkv(seed: int, Tq: int, Tk: int, d_k: int, d_v: int, lead: tuple[int, ...] = ()) -> dict[str, Any]:
    """Queries, keys and values."""
    return {
        "Q": drawn(seed, *lead, Tq, d_k), "K": drawn(seed + 1, *lead, Tk, d_k), "V": drawn(seed + 2, *lead, Tk, d_v),
    }  # fmt: skip


def booleans(*rows: str) -> Array:
    """A mask drawn with signs: `x` may look, anything else may not."""
    return np.array([[sign == "x" for sign in row] for row in rows])


def attention_probes(make: Callable[..., dict[str, Any]] = qkv) -> tuple[Probe, ...]:
    """The ten probes of attention with a mask, and an example in front.

    Parameters
    ----------
    make : callable
        From (seed, Tq, Tk, d_k, d_v, lead) to Q, K and V.
    """
    return (example(), *unmasked_probes(make), *masked_probes(make))


def example() -> Probe:
    """Two queries, three keys, numbers of one digit."""
    return Probe(
        "example",
        {
            "Q": np.array([[1.0, 2.0], [-1.0, 1.0]]), "K": np.array([[1.0, 0.0], [0.0, 1.0], [2.0, -1.0]]),
            "V": np.array([[1.0, 2.0], [3.0, 5.0], [-2.0, 4.0]]), "mask": booleans("xx.", "x.x"),
        },
        Text("two queries, three keys: small enough to work out by hand", "两个查询、三个键：小到可以手算"),
    )  # fmt: skip


def unmasked_probes(make: Callable[..., dict[str, Any]] = qkv) -> tuple[Probe, ...]:
    """Square, rectangular, in a batch, with large scores, with integers."""
    batch = make(31, 4, 4, 8, 8, (2, 3))
    return (
        Probe("square", make(11, 8, 8, 8, 8), SQUARE),
        Probe("rectangular", make(21, 3, 5, 4, 6), RECTANGULAR),
        Probe("batch", batch, Text("axes in front", "前面还有批量的维")),
        Probe("huge_scores", huge_scores(), Text("scores of 1000: exp overflows", "分数达到 1000：exp 会溢出")),
        Probe("uneven_rows", uneven_rows(), Text("one row of scores far below another", "有一行分数远低于另一行")),
        Probe("integers", integers(), Text("integer inputs", "输入是整数"), numpy_only=True),
    )  # fmt: skip


def masked_probes(make: Callable[..., dict[str, Any]] = qkv) -> tuple[Probe, ...]:
    """A mask that is not square, one that is, an empty row, scores below any small fill."""
    wide = booleans("x.xx.", ".xx.x", "xx.xx")
    square = booleans("x.x.", "xx..", ".xxx", "x..x")
    empty = booleans("x.xx", "....", "x..x", "x.x.")  # symmetric: it is not there to tell rows from columns
    return (
        Probe("mask_3x5", {**make(41, 3, 5, 4, 6), "mask": wide}, Text("a mask of 3 rows and 5 columns", "3 行 5 列的掩码")),
        Probe("mask_4x4", {**make(51, 4, 4, 3, 5), "mask": square},
              Text("a square mask that is not symmetric", "不对称的方形掩码")),
        Probe("empty_row", {**make(61, 4, 4, 3, 5), "mask": empty},
              Text("a query that may look at nothing", "有一个查询什么都不能看")),
        Probe("low_scores", low_scores(), Text("every allowed score lies below -10000", "所有允许看的分数都低于 -10000")),
    )  # fmt: skip


def huge_scores() -> dict[str, Any]:
    """Every row of scores reaches about 1000 after scaling."""
    Q = np.array([[2000.0, 0.0, 0.0, 0.0], [0.0, 2000.0, 0.0, 0.0], [-2000.0, 0.0, 0.0, 0.0]])
    K = np.array([[1.0, 1.0, 0.5, 0.0], [-1.0, 1.0, 0.0, 0.5], [0.5, -1.0, 1.0, 0.0]])
    return {"Q": Q, "K": K, "V": drawn(71, 3, 4)}


def uneven_rows() -> dict[str, Any]:
    """Scores of about 600 in one row and of -600 in another: exp can hold both, but not one measured by the other."""
    Q = np.array([[1.0, 0.0, 600.0, 600.0], [0.0, 1.0, 0.0, 0.5], [0.5, 0.25, -600.0, -600.0]])
    K = drawn(82, 3, 4)
    K[:, 2:] = 1.0
    return {"Q": Q, "K": K, "V": drawn(83, 3, 4)}


def integers() -> dict[str, Any]:
    """Small whole numbers, so that weights are well between 0 and 1."""
    Q = np.array([[1, 0, 2, 1], [0, 1, 1, 0], [2, 1, 0, 1]])
    K = np.array([[1, 1, 0, 0], [0, 1, 1, 2], [1, 0, 1, 1]])
    return {"Q": Q, "K": K, "V": np.array([[1, 2, 7, 4], [3, 5, 4, 1], [9, 2, 5, 6]])}


def low_scores() -> dict[str, Any]:
    """Allowed scores from about -40000 to -20000 next to forbidden ones of up to 20000."""
    Q = np.array([[200.0, 0.0, 0.0, 0.0], [0.0, 200.0, 0.0, 0.0], [0.0, 0.0, 200.0, 0.0]])
    K = np.array([[-400.0, -300.0, 200.0, 0.0], [-300.0, 200.0, -400.0, 0.0], [200.0, -400.0, -300.0, 0.0]])
    K[:, :3] += np.array([[0.001, 0.002, 0.003], [0.0, 0.004, 0.001], [0.002, 0.0, 0.005]])
    return {"Q": Q, "K": K, "V": drawn(93, 3, 4), "mask": booleans("xx.", "x.x", ".xx")}
