"""One head of a model's attention, taken out of a trace as the steps of a walk want it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..errors import ArgumentError
from ..ops.precision import Array
from ..trace import Trace
from .run import Run
from .setup import Setup

# The scores from their first form to what the softmax gets, as far as an attention has them.
STAGES = ("scores", "capped", "biased", "masked")


class Model(Protocol):
    """What is asked of a model that is looked into."""

    tokenizer: Any
    settings: Any
    directory: Path | None

    def __call__(self, given: Any) -> Any: ...


def run_of(
    model: Model, trace: Trace, where: str, head: int, tokens: list[str], row: int, keys: list[str] | None = None
) -> Run:
    """One head of one layer as the steps of a walk want it; a key head may serve several query heads."""
    q, k, v, weights, out = (trace[f"{where}.{name}"] for name in ("q", "k", "v", "weights", "out"))
    q, k = trace.get(f"{where}.q_rot", q), trace.get(f"{where}.k_rot", k)
    group = head // (len(q) // len(k))
    Q, K, V = q[head], k[group], v[group]
    kept = [(name, trace[path][head]) for name in STAGES if (path := f"{where}.{name}") in trace]
    values = {
        "Q": Q, "K": K, "V": V, "scores": Q @ K.T, "scaled": kept[-1][1], "weights": weights[head],
        "output": out[head],
    }  # fmt: skip
    setup = Setup("", d_model=model.settings.d_model, d_k=Q.shape[-1], d_v=V.shape[-1])
    visible = seen_in(trace, where)
    stages = [("scores", values["scores"]), ("scaled", kept[0][1]), *kept[1:]]
    stages = [(name, array) for name, array in stages if name != "masked"]
    usual = len(stages) == 2 and np.allclose(values["scores"] / np.sqrt(setup.d_k), kept[0][1], atol=1e-5)
    return Run(
        setup, tuple(tokens), values, [weights[head]], None, None, row,
        None if visible is None else visible[head], () if usual else tuple(stages), tuple(keys or ()),
    )  # fmt: skip


def seen_in(trace: Trace, where: str) -> Array | None:
    """(H, n, n), which keys each query of each head may look at; None: all of them."""
    masked = trace.get(f"{where}.masked")
    return None if masked is None else ~np.isneginf(masked)


def within(name: str, number: int, size: int) -> int:
    """A number from 0 to size - 1."""
    if not 0 <= number < size:
        raise ArgumentError("number", name=name, expected=f"from 0 to {size - 1}", value=number)
    return number
