"""The rectangles of scores of a call, one at a time: what goes into one, and its logits."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arguments import Call
from .precision import Array
from .threads import scratch
from .tiles import FEW_ROWS, Piece, Sizes, of_head, visible


def _exponential() -> tuple[Any, float]:
    """The faster of exp and exp2 here, and what logits are multiplied with for it.

    NumPy has a vectorised exp2 where it was built with Intel's short vector library: on Linux with AVX-512.
    """
    simd: Any = np.show_config(mode="dicts")
    fast = {"AVX512_SKX", "X86_V4"} & set(simd["SIMD Extensions"].get("found", []))
    return (np.exp2, float(np.log2(np.e))) if fast and sys.platform == "linux" else (np.exp, 1.0)


POWER, UNIT = _exponential()


class Operands:
    """q, k and v with the axes of the whole batch, none of them copied."""

    def __init__(self, call: Call) -> None:
        self.lead = call.scores[:-3]
        arrays = [x if x.ndim > 2 else x[None] for x in call.given]
        self.q, self.k, self.v = (np.broadcast_to(x, (*self.lead, *x.shape[-3:])) for x in arrays)
        self.n_heads = self.q.shape[-3]
        self.group = self.n_heads // max(1, self.k.shape[-3])


@dataclass(frozen=True)
class Task:
    """One tile of queries of one batch member, for one head or for heads that share their keys."""

    at: tuple[int, ...]
    heads: slice
    kv_head: int
    rows: slice
    keys: slice
    pieces: list[Piece]
    part: int = 0

    @property
    def n_heads(self) -> int:
        return self.heads.stop - self.heads.start

    def rows_of(self, piece: Piece) -> slice:
        """Where the rows of a piece stand among those of the task. Only the tile of a single head is ever cut."""
        if self.n_heads > 1:
            return slice(None)
        return slice(piece.rows.start - self.rows.start, piece.rows.stop - self.rows.start)


@dataclass(frozen=True)
class Block:
    """What a rectangle of scores is made of: q (heads * queries, d_k), k and v, what is added and what is seen."""

    n_heads: int
    q: Array
    k: Array
    v: Array
    added: Array | None
    seen: Array | None

    def by_head(self, scores: Array) -> Array:
        """(heads * queries, keys) as (heads, queries, keys)."""
        return scores.reshape(self.n_heads, -1, scores.shape[-1])

    def hide(self, scores: Array, value: float) -> None:
        """Put `value` wherever a key may not be looked at."""
        if self.seen is not None:
            np.copyto(self.by_head(scores), scores.dtype.type(value), where=~self.seen)


class Blocks:
    """What one thread needs to compute logits: the call, and an array for them."""

    def __init__(self, call: Call, operands: Operands, sizes: Sizes) -> None:
        self.call, self.operands, self.dtype = call, operands, call.working
        self.scores = self.scratch("scores", sizes.rows * sizes.stacked * sizes.keys)

    def scratch(self, name: str, size: int) -> Array:
        return scratch(name, size, self.dtype)

    def queries(self, task: Task) -> Array:
        """(heads * queries, d_k), scaled so that `POWER` of a product is exp of a score."""
        call = self.call
        factor = call.scale * UNIT if call.softcap is None else call.scale / call.softcap
        q = self.operands.q[task.at][task.heads, task.rows]
        return np.multiply(q, self.dtype.type(factor), dtype=self.dtype).reshape(-1, q.shape[-1])

    def rows_of(self, x: Array, task: Task, keys: slice) -> Array:
        """Rows of k or v, in the working dtype."""
        return x[task.at][task.kv_head, keys].astype(self.dtype, copy=False)

    def block(self, task: Task, piece: Piece, q: Array, finite: bool = False) -> Block:
        """What a piece is made of for the heads of a task; with `finite`, infinities and NaN in v count as 0."""
        k, v = (self.rows_of(x, task, piece.keys) for x in (self.operands.k, self.operands.v))
        if finite:
            v = np.where(np.isfinite(v), v, self.dtype.type(0))
        added = None if piece.added is None else of_head(piece.added(), task.at, task.heads)
        return Block(task.n_heads, q, k, v, added, visible(piece, added, task.at, task.heads))

    def logits(self, block: Block, slope: Array | None = None) -> Array:
        """(rows, keys), in units of `POWER`; into `slope`, how they change with the scores under a soft cap.

        For few queries the transposed product is faster.
        """
        n, m = len(block.q), len(block.k)
        flat = self.scores[: n * m]
        if n <= FEW_ROWS:
            logits = flat.reshape(m, n).T
            np.matmul(block.k, np.ascontiguousarray(block.q.T), out=logits.T)
        else:
            logits = flat.reshape(n, m)
            np.matmul(block.q, block.k.T, out=logits)
        if self.call.softcap is not None:
            np.tanh(logits, out=logits)
            if slope is not None:
                np.subtract(1, np.square(logits, out=slope), out=slope)
            logits *= self.dtype.type(self.call.softcap * UNIT)
        if block.added is not None:
            by_head = block.by_head(logits)
            by_head += np.multiply(block.added, self.dtype.type(UNIT), dtype=self.dtype, casting="unsafe")
        return logits
