"""The gradients of one head of keys, block by block. The formulas stand in `backward`."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass

import numpy as np

from .arguments import Call
from .blocks import POWER, UNIT, Block, Blocks, Operands, Task
from .precision import Array
from .tiles import Piece, Sizes, block, of_head, pieces, tile_rows, whole_piece

NEAR_ONE = 40.0  # weights of rows whose log-sum-exp is within +-40 are computed as exp(score) exp(-lse)


def summed_to(gradient: Array, shape: tuple[int, ...]) -> Array:
    """Summed over the axes along which an array of that shape was broadcast."""
    extra = gradient.ndim - len(shape)
    summed = gradient.sum(axis=tuple(range(extra)))
    axes = tuple(axis for axis, size in enumerate(shape) if size == 1 != summed.shape[axis])
    return summed.sum(axis=axes, keepdims=True)


class Results:
    """Where the gradients are added up. Parts of the keys that run at the same time have a `d_q` each."""

    def __init__(self, call: Call, operands: Operands, n_parts: int) -> None:
        self.d_q = np.zeros((n_parts, *operands.q.shape), call.working)
        self.d_k, self.d_v = (np.zeros(x.shape, call.working) for x in (operands.k, operands.v))
        self.d_bias = np.zeros(call.added.shape, call.working) if isinstance(call.added, np.ndarray) else None
        self.d_sinks = None if call.sinks is None else np.zeros(operands.q.shape[:-2], call.working)
        self.lock = threading.Lock()

    def add_bias(self, task: Task, piece: Piece, d_biased: Array) -> None:
        """Add a block to `d_bias`, summed over the axes along which the bias was broadcast."""
        assert self.d_bias is not None
        head = of_head(block(self.d_bias, piece.rows, piece.keys), task.at, task.heads)
        place = head[0] if head.ndim > 2 else head
        with self.lock:  # other heads may have the same place
            place += summed_to(d_biased, place.shape)

    def of_operands(self) -> tuple[Array, Array, Array]:
        return self.d_q[0] if len(self.d_q) == 1 else self.d_q.sum(axis=0), self.d_k, self.d_v


@dataclass(frozen=True)
class Upstream:
    """What comes from above: the output, its gradient (both with the axes of q), and the log-sum-exp."""

    d_out: Array
    out: Array
    lse: Array


@dataclass(frozen=True)
class Share:
    """The keys whose gradients one task computes: a head of k and v of one batch member, or a part of its keys."""

    at: tuple[int, ...]
    kv_head: int
    keys: slice
    part: int


@dataclass(frozen=True)
class Rows:
    """What queries bring to each of their blocks. Weights are exp(score - shift) exp(shift - lse); the second factor
    is already in `d_out` and `delta`, so that most blocks need no pass for it.
    """

    q: Array
    shift: Array | None
    d_out: Array
    delta: Array

    def of(self, part: slice) -> Rows:
        return Rows(self.q[part], None if self.shift is None else self.shift[part], self.d_out[part], self.delta[part])


class Gradients(Blocks):
    """What one thread needs to do shares: scratch arrays, and where the results go.

    With `odd` there is an infinity or NaN among the operands: slower, but the same arithmetic for what does not see it.
    """

    def __init__(
        self, call: Call, operands: Operands, sizes: Sizes, upstream: Upstream, odd: bool, results: Results
    ) -> None:
        super().__init__(call, operands, sizes)
        self.sizes, self.upstream, self.odd, self.results = sizes, upstream, odd, results
        self.d_scores = self.scratch("d_scores", self.scores.size)
        self.slope = self.scratch("slope", self.scores.size if call.softcap is not None else 0)
        width = max(operands.k.shape[-1], operands.v.shape[-1])
        self.product = self.scratch("product", max(sizes.rows, sizes.keys) * width)

    def __call__(self, share: Share) -> None:
        group = self.operands.group
        for rows in tile_rows(self.call, self.sizes.rows):
            cut = pieces(self.call, rows, share.keys, self.sizes.keys)
            for head in range(share.kv_head * group, (share.kv_head + 1) * group):
                self.tile(Task(share.at, slice(head, head + 1), share.kv_head, rows, share.keys, cut, share.part))
        d_k = self.results.d_k[share.at][share.kv_head, share.keys]
        d_k *= self.dtype.type(1 / UNIT if self.call.softcap is None else self.call.softcap)  # q came scaled

    def tile(self, task: Task) -> None:
        """Everything that the queries of a tile add to the gradients."""
        rows = self.rows(task)
        d_q = self.results.d_q[task.part][task.at][task.heads.start, task.rows]
        for piece in task.pieces:
            part = task.rows_of(piece)
            block = self.block(task, piece, rows.q[part])
            if block.seen is None or block.seen.any():
                self.add(task, piece, block, rows.of(part), d_q[part])
        d_q *= self.dtype.type(self.call.scale)

    def rows(self, task: Task) -> Rows:
        head = task.heads.start
        d_out, out, lse = (
            x[task.at][head, task.rows].astype(self.dtype, copy=False)
            for x in (self.upstream.d_out, self.upstream.out, self.upstream.lse)
        )
        delta = np.einsum("rc,rc->r", d_out, out)
        if self.results.d_sinks is not None and task.part == 0:
            assert self.call.sinks is not None
            share = np.exp(self.call.sinks.reshape(-1)[head] - lse)
            self.results.d_sinks[task.at][head] -= (share * self.of_seeing(task, delta)).sum()
        far = np.abs(lse) > NEAR_ONE  # also an empty row, whose weights are all hidden
        shift = np.where(far & (lse > -np.inf), lse * self.dtype.type(UNIT), self.dtype.type(0))
        near = np.where(far, self.dtype.type(1), np.exp(-lse))
        return Rows(self.queries(task), shift if far.any() else None, d_out * near[:, None], delta * near)

    def of_seeing(self, task: Task, delta: Array) -> Array:
        """delta, and 0 for a row that sees no key, also if its gradient from above is not finite."""
        if not self.odd:
            return delta
        piece = whole_piece(self.call, task.rows, slice(0, self.call.scores[-1]))
        seen = self.block(task, piece, delta[:, None]).seen
        return delta if seen is None else np.where(seen.any(axis=-1).reshape(-1), delta, self.dtype.type(0))

    def add(self, task: Task, piece: Piece, block: Block, rows: Rows, d_q: Array) -> None:
        """One block: five products."""
        at, keys, shape = task.at, piece.keys, (len(block.q), len(block.k))
        seen = None if block.seen is None else block.seen.reshape(block.seen.shape[-2:])
        seen_by_key = None if seen is None else seen.T
        slope = self.slope[: math.prod(shape)].reshape(shape) if self.slope.size else None
        logits = self.logits(block, slope)
        if rows.shift is not None:
            logits -= rows.shift[:, None]
        weights = POWER(logits, out=logits)
        block.hide(weights, 0)
        self.add_product(self.results.d_v[at][task.kv_head, keys], weights.T, rows.d_out, seen_by_key)

        d_scores = np.matmul(rows.d_out, block.v.T, out=self.d_scores[: math.prod(shape)].reshape(shape))
        d_scores -= rows.delta[:, None]
        d_scores *= weights
        block.hide(d_scores, 0)
        if self.results.d_bias is not None:
            self.results.add_bias(task, piece, d_scores)
        if slope is not None:
            block.hide(slope, 0)
            d_scores *= slope
        self.add_product(d_q, d_scores, block.k, seen)
        self.add_product(self.results.d_k[at][task.kv_head, keys], d_scores.T, block.q, seen_by_key)

    def add_product(self, gradient: Array, left: Array, right: Array, seen: Array | None) -> None:
        """Add left @ right. An infinity or NaN in `right` makes NaN of what sees it, and of nothing else."""
        product = self.product[: gradient.size].reshape(gradient.shape)
        if not self.odd:
            gradient += np.matmul(left, right, out=product)
            return
        finite = np.isfinite(right)
        gradient += np.matmul(left, np.where(finite, right, self.dtype.type(0)), out=product)
        sees = np.broadcast_to(True if seen is None else seen, left.shape)
        gradient[sees.astype(self.dtype) @ ~finite > 0] = np.nan
