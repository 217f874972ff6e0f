"""The measurements of time: attention, backward, cached, trace. Each is a list of rows, one per case and contender."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import qkv
import qkv.contract

from . import machine, peers
from .measure import Time, interleaved

Row = dict[str, Any]
SIZES = tuple(itertools.product((512, 2048, 4096), (64, 128)))
HEADS = 8


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    random = np.random.default_rng(0)
    return [random.standard_normal(shape, dtype=np.float32) for shape in shapes]


def rows(case: str, times: dict[str, Time], flops: float | None, sgemm: float | None, **facts: Any) -> Iterator[Row]:
    """One row for each contender, each beside qkv's time."""
    for name, time in times.items():
        row = {"case": case, **facts, "contender": name, "ms": time.median * 1e3, "spread": time.spread}
        if flops is not None:
            row["GFLOP/s"] = flops / time.median / 1e9
        if flops is not None and sgemm is not None:
            row["of sgemm"] = flops / time.median / 1e9 / sgemm
        row["time / qkv's"] = time.median / times["qkv"].median if "qkv" in times else math.nan
        yield row


def attention(n_threads: int, quick: bool = False) -> list[Row]:
    """Full and causal attention of 8 heads; a sliding window over a long sequence."""
    table: list[Row] = []
    for (n, d), causal in itertools.product(SIZES[:2] if quick else SIZES, (False, True)):
        q, k, v = arrays(*[(1, HEADS, n, d)] * 3)
        yardstick = machine.sgemm(n_threads)
        times = interleaved(peers.forward(q, k, v, n_threads, causal=causal))
        flops = 4 * HEADS * n * n * d / (2 if causal else 1)
        table += rows("causal" if causal else "full", times, flops, yardstick, n=n, d=d)
    return table if quick else table + window(n_threads)


def window(n_threads: int, n: int = 16384, d: int = 64, size: int = 256) -> list[Row]:
    """A window beside the whole past. torch is given the window as a boolean mask, which is its only way."""
    q, k, v = arrays(*[(1, HEADS, n, d)] * 3)
    runs = {
        **peers.forward(q, k, v, n_threads, causal=True, window=size),
        "qkv, all of the past": peers.forward(q, k, v, n_threads, causal=True)["qkv"],
    }
    return list(rows(f"window {size}", interleaved(runs, 5), 4 * HEADS * n * size * d, None, n=n, d=d))


def backward(n_threads: int, quick: bool = False) -> list[Row]:
    """Forward and backward pass together: seven products of the size of the scores."""
    table: list[Row] = []
    for (n, d), causal in itertools.product([(512, 64)] if quick else SIZES, (False, True)):
        q, k, v, d_out = arrays(*[(1, HEADS, n, d)] * 4)
        yardstick = machine.sgemm(n_threads)
        times = interleaved(peers.backward(q, k, v, d_out, causal))
        flops = 14 * HEADS * n * n * d / (2 if causal else 1)
        table += rows("causal" if causal else "full", times, flops, yardstick, n=n, d=d)
    return table


def cached(n_threads: int, quick: bool = False) -> list[Row]:
    """The next token of a long text: few queries, 32 heads that share 8 heads of keys."""
    table: list[Row] = []
    for Tq, Tk in [(1, 8192)] if quick else [(1, 1024), (1, 8192), (1, 32768), (4, 8192), (16, 8192)]:
        q, k, v = arrays((1, 32, Tq, 128), *[(1, 8, Tk, 128)] * 2)
        times = interleaved(peers.forward(q, k, v, n_threads, limit_naive=8192))
        table += [
            {**row, "GB/s of keys and values": (k.nbytes + v.nbytes) / row["ms"] / 1e6}
            for row in rows("cached", times, None, None, n=Tk, d=128, Tq=Tq)
        ]
    return table


def trace(n_threads: int, quick: bool = False) -> list[Row]:
    """What it costs that a function can be watched: with nobody there, and under a recorder."""
    x = np.zeros(3)

    def bare(x: Any) -> Any:
        y = x
        return y

    watched: Callable[[Any], Any] = qkv.contract.op(name="benchmark", x="n", y="n")(bare)
    qkv.contract.OPS.pop("benchmark")
    q, k, v = arrays(*[(1, 4, 16, 32)] * 3)

    def recorded() -> None:
        with qkv.record():
            qkv.attention(q, k, v)

    runs = {
        "a function": lambda: bare(x), "the same under @op": lambda: watched(x),
        "attention of 4 heads, 16 tokens": lambda: qkv.attention(q, k, v), "the same, recorded": recorded,
    }  # fmt: skip
    return [{"case": name, "µs": time.median * 1e6, "spread": time.spread} for name, time in interleaved(runs).items()]
