"""Attention tile by tile: the function of `dense`, in memory that does not grow with Tq * Tk, on several threads.

A tile of queries meets runs of keys one after the other and keeps, for each row, the sum of exp(score - shift) and of
exp(score - shift) v. Dao et al., arXiv 2205.14135 and 2307.08691; Milakov and Gimelshein, arXiv 1805.02867.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from .arguments import Call
from .blocks import Operands, Task
from .merge import merge
from .online import Online
from .precision import Array
from .threads import run, thread_count
from .tiles import Sizes, parts, pieces, tile_rows

SMALL_WORK = 1 << 24  # multiply-adds that are done before another thread has woken up


def tiled(call: Call) -> tuple[Array, Array]:
    """Attention and its log-sum-exp, as `dense` defines them.

    Returns
    -------
    out : (..., H, Tq, d_v) ndarray
    lse : (..., H, Tq) ndarray
    """
    operands = Operands(call)
    n_heads, (Tq, Tk) = operands.n_heads, call.scores[-2:]
    d_v = call.given[2].shape[-1]
    n_members = math.prod(operands.lead)
    n_threads = thread_count(small=call.work < SMALL_WORK)
    sizes = Sizes.of(call, operands.group, n_members * n_heads, n_threads)
    n_tasks = n_members * n_heads // sizes.stacked * -(-Tq // sizes.rows)
    n_parts = parts(n_tasks, n_threads, Tk, sizes.keys)
    out = np.empty((n_parts, *operands.lead, n_heads, Tq, d_v), call.dtype if n_parts == 1 else call.working)
    lse = np.empty((n_parts, *operands.lead, n_heads, Tq), call.working)
    with np.errstate(all="ignore"):
        run(
            _tasks(call, operands, sizes, n_parts),
            lambda: Online(call, operands, sizes, out, lse),
            min(n_threads, n_tasks * n_parts),
        )
        for part in range(1, n_parts):
            out[0], lse[0] = merge(out[0], lse[0], out[part], lse[part])
    whole = call.scores[:-1]
    return out[0].reshape(*whole, d_v).astype(call.dtype, copy=False), lse[0].reshape(whole)


def _tasks(call: Call, operands: Operands, sizes: Sizes, n_parts: int) -> Iterator[Task]:
    """All heads of a tile of queries one after the other: they share what the rules say of it."""
    Tk = call.scores[-1]
    for rows, part in itertools.product(tile_rows(call, sizes.rows), range(n_parts)):
        keys = slice(Tk * part // n_parts, Tk * (part + 1) // n_parts)
        cut = pieces(call, rows, keys, sizes.keys)
        for at in np.ndindex(operands.lead):
            for head in range(0, operands.n_heads, sizes.stacked):
                heads = slice(head, head + sizes.stacked)
                yield Task(at, heads, head // operands.group, rows, keys, cut, part)
