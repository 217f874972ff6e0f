"""One tile of queries meets its keys: the online softmax.

For each row two sums are kept, of exp(logit - shift) and of exp(logit - shift) v (Milakov and Gimelshein, arXiv
1805.02867). The shift need not be the row's maximum: any number will do that keeps the first sum between `LOW` and
`HIGH`, so 0 is taken until the sum of a row, and only the sum, says otherwise. Most rows never need their maximum.
What becomes of a row depends on what that row may look at and on nothing else: no hidden value can change a bit of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .arguments import Call
from .blocks import POWER, UNIT, Block, Blocks, Operands, Task
from .dense import dense, row_logsumexp
from .precision import Array
from .tiles import Sizes, of_head, visible, whole_piece

ODD_ROWS = 16  # rows with an infinity or NaN are computed by the definition, so many at a time


class Sums:
    """What is known so far of the rows of a task, a row being a query of a head."""

    def __init__(self, n: int, d_v: int, dtype: np.dtype[Any]) -> None:
        self.out = np.zeros((n, d_v), dtype)
        self.total = np.zeros(n, dtype)
        self.shift = np.zeros(n, dtype)
        self.shifted = False


class Online(Blocks):
    """What one thread needs to do tasks: scratch arrays, and where the results go."""

    def __init__(self, call: Call, operands: Operands, sizes: Sizes, out: Array, lse: Array) -> None:
        super().__init__(call, operands, sizes)
        self.result, self.lse = out, lse
        n_rows, d_v = sizes.rows * sizes.stacked, call.given[2].shape[-1]
        self.product = self.scratch("product", n_rows * d_v)
        self.ones = np.ones(sizes.keys, self.dtype)
        exponent = np.finfo(self.dtype).maxexp * 5 // 16
        self.low, self.high = self.dtype.type(2.0**-exponent), self.dtype.type(2.0**exponent)

    def __call__(self, task: Task) -> None:
        sums = self.attend(task)
        self.write(task, *self.results(task, sums))

    # --- sums over the keys -----------------------------------------------------------------------------------------

    def attend(self, task: Task, finite_v: bool = False) -> Sums:
        """The sums over all pieces; with `finite_v` infinities and NaN in v count as 0."""
        q = self.queries(task)
        sums = Sums(len(q), self.operands.v.shape[-1], self.dtype)
        for piece in task.pieces:
            rows = task.rows_of(piece)
            block = self.block(task, piece, q[rows], finite_v)
            if block.seen is None or block.seen.any():
                self.add(sums, rows, block)
        return sums

    def add(self, sums: Sums, rows: slice, block: Block) -> None:
        """One block more."""
        weights, total = self.weigh(sums, rows, block)
        if not self.in_range(sums.total[rows] + total):
            weights, total = self.weigh(sums, rows, block, select=True)
            so_far = sums.total[rows] + total
            if not self.in_range(so_far):
                self.shift(sums, rows, so_far, block)
                weights, total = self.weigh(sums, rows, block, select=True)
        sums.total[rows] += total
        product = self.product[: sums.out[rows].size].reshape(len(weights), -1)
        sums.out[rows] += np.matmul(weights, block.v, out=product)

    def weigh(self, sums: Sums, rows: slice, block: Block, select: bool = False) -> tuple[Array, Array]:
        """exp(logit - shift), 0 where a key may not be looked at, and the sum of each row.

        Hidden weights are multiplied by 0, which is fast. Where one of them was infinite or NaN that shows in the sum,
        and they must be selected instead.
        """
        logits = self.logits(block)
        if sums.shifted:
            logits -= sums.shift[rows, None]
        weights = POWER(logits, out=logits)
        if select:
            block.hide(weights, 0)
        elif block.seen is not None:
            by_head = block.by_head(weights)
            by_head *= block.seen
        return weights, weights @ self.ones[: len(block.k)]

    def in_range(self, total: Array) -> bool:
        return bool(total.max() <= self.high and total.min() >= self.low)

    def shift(self, sums: Sums, rows: slice, so_far: Array, block: Block) -> None:
        """Rows whose sum left the range are shifted by their largest logit here."""
        logits = self.logits(block)
        block.hide(logits, -np.inf)
        top, old, total = logits.max(axis=1), sums.shift[rows], sums.total[rows]
        failed = ((so_far > self.high) | (so_far < self.low)) & (top > -np.inf)
        shift = np.where(failed, top, old)
        kept = np.where(failed & (total > 0), POWER(old - shift), self.dtype.type(1))
        sums.out[rows] *= kept[:, None]
        sums.total[rows] *= kept
        sums.shift[rows] = shift
        sums.shifted = True

    # --- results ----------------------------------------------------------------------------------------------------

    def results(self, task: Task, sums: Sums) -> tuple[Array, Array]:
        """Output rows and their log-sum-exp."""
        out, lse = self.divided(task, sums)
        if not (sums.total.min(initial=np.inf) > 0 and np.isfinite(out).all()):
            self.mend(task, sums, out, lse)
        return out, lse

    def divided(self, task: Task, sums: Sums) -> tuple[Array, Array]:
        """The sums as an average and a logarithm. A sink is one more logit; of several parts, the first counts it."""
        total, lse = sums.total, sums.shift / self.dtype.type(UNIT) + np.log(sums.total)
        if self.call.sinks is not None and task.part == 0:
            sinks = np.repeat(self.call.sinks.reshape(-1)[task.heads], len(total) // task.n_heads)
            total = total + POWER(sinks * self.dtype.type(UNIT) - sums.shift)
            lse = np.logaddexp(lse, sinks)
        return sums.out / total[:, None] + 0, lse  # + 0: no minus zero that tells of a hidden key

    def write(self, task: Task, out: Array, lse: Array) -> None:
        shape = (task.n_heads, task.rows.stop - task.rows.start)
        self.result[task.part][task.at][task.heads, task.rows] = out.reshape(*shape, -1)
        self.lse[task.part][task.at][task.heads, task.rows] = lse.reshape(shape)

    # --- rows that are not numbers ----------------------------------------------------------------------------------

    def mend(self, task: Task, sums: Sums, out: Array, lse: Array) -> None:
        """Empty rows become 0. Rows that see an infinity or NaN are left to the definition."""
        wrong = ~np.isfinite(out).all(axis=1) | (sums.total == 0)
        sees_key, sees_odd_value = self.survey(task)
        if not np.isfinite(self.rows_of(self.operands.v, task, task.keys)).all():
            out[wrong] = self.divided(task, self.attend(task, finite_v=True))[0][wrong]
            wrong = ~np.isfinite(out).all(axis=1) | (sums.total == 0) | sees_odd_value
        out[~sees_key] = 0
        wrong &= sees_key
        n = task.rows.stop - task.rows.start
        for head in range(task.n_heads):
            for start in range(0, n, ODD_ROWS):
                rows = slice(head * n + start, head * n + min(start + ODD_ROWS, n))
                if (odd := wrong[rows]).any():
                    defined = self.defined(
                        task, head, slice(task.rows.start + start, task.rows.start + start + len(odd))
                    )
                    out[rows][odd], lse[rows][odd] = (x[odd] for x in defined)

    def survey(self, task: Task) -> tuple[Array, Array]:
        """Which rows may look at a key, and which at one whose value is an infinity or NaN."""
        finite = np.asarray(np.isfinite(self.rows_of(self.operands.v, task, slice(None))).all(axis=1))
        sees_key, sees_odd = (np.zeros((task.n_heads, task.rows.stop - task.rows.start), bool) for _ in range(2))
        for piece in task.pieces:
            added = None if piece.added is None else of_head(piece.added(), task.at, task.heads)
            seen = visible(piece, added, task.at, task.heads)
            rows = slice(piece.rows.start - task.rows.start, piece.rows.stop - task.rows.start)
            seen = np.ones((1, 1), bool) if seen is None else seen
            sees_key[:, rows] |= seen.any(axis=-1)
            sees_odd[:, rows] |= (seen & ~finite[piece.keys]).any(axis=-1)
        return sees_key.reshape(-1), sees_odd.reshape(-1)

    def defined(self, task: Task, head: int, rows: slice) -> tuple[Array, Array]:
        """Some rows of one head by the definition."""
        call, at = self.call, task.at
        one = slice(task.heads.start + head, task.heads.start + head + 1)
        piece = whole_piece(call, rows, task.keys)
        added = None if piece.added is None else of_head(piece.added(), at, one)
        seen = visible(piece, added, at, one)
        bias = None if added is None else added.astype(self.dtype)
        sinks = None if call.sinks is None or task.part else call.sinks.reshape(-1, 1)[one]
        q = self.operands.q[at][one, rows].astype(self.dtype)
        k, v = (self.rows_of(x, task, task.keys)[None] for x in (self.operands.k, self.operands.v))
        out, masked, _ = dense(q, k, v, seen, bias, call.scale, call.softcap, sinks, self.dtype)
        return out[0], row_logsumexp(masked, sinks)[0]
