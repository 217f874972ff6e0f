"""The patterns of every head of a model, on one sequence or as a mean of several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ops.precision import Array
from ..trace import record
from .one_head import seen_in
from .patterns import PATTERNS, Look, chance, contributions, entropy, pattern_score

CLEAR = 0.4  # from here on a pattern is a head's name ...
ABOVE_CHANCE = 2  # ... if it is so many times what a head would score that looks at all keys alike


@dataclass(frozen=True, eq=False)
class Scores:
    """Numbers for each head; NaN where they do not apply.

    Attributes
    ----------
    nats, entropy : (n_layers, H) ndarray
        Entropy, and as a part of the most that is possible.
    patterns, by_value : dict of str to (n_layers, H) ndarray
        Each of `PATTERNS`, by weight, and by what the keys really add (`contributions`).
    chance : dict of str to (n_layers,) ndarray
        What a head scores that looks at all visible keys alike.
    """

    nats: Array
    entropy: Array
    patterns: dict[str, Array]
    by_value: dict[str, Array]
    chance: dict[str, Array]

    def name(self, layer: int, head: int) -> str | None:
        """The pattern with the largest score, if it is clear: at least 0.4, and twice what an even head scores."""
        found = {name: float(of[layer, head]) for name, of in self.patterns.items()}
        known = {name: score for name, score in found.items() if not np.isnan(score)}
        best = max(known, key=lambda name: known[name], default=None)
        if best is None or known[best] < max(CLEAR, ABOVE_CHANCE * self.chance[best][layer]):
            return None
        return best


def scores_on(model: Any, ids: Array, own: slice) -> tuple[Scores, Scores]:
    """The scores of one sequence, with and without the tokens around it."""
    with record(*(f"layers.*.attention.{name}" for name in ("weights", "masked", "v"))) as trace:
        model.forward(ids)
    layers = []
    for i, layer in enumerate(model.layers):
        where = f"layers.{i}.attention"
        weights, v = trace[f"{where}.weights"], trace[f"{where}.v"]
        visible = True if (seen := seen_in(trace, where)) is None else seen[0]
        layers.append((weights, np.broadcast_to(visible, weights.shape[1:]), v, np.asarray(layer.attention.W_O)))
    return _scores(ids, layers, slice(None)), _scores(ids, layers, own)


def _scores(ids: Array, layers: list[tuple[Array, Array, Array, Array]], own: slice) -> Scores:
    rows: list[dict[str, Any]] = []
    for weights, visible, v, W_O in layers:
        look = Look.at(ids.tolist(), visible, own)
        added = contributions(weights, v, W_O)
        nats, ratio = entropy(weights, look.visible)
        row = {"nats": nats, "entropy": ratio}
        for name, targets in look.targets.items():
            row |= {name: pattern_score(weights, targets), f"by_value.{name}": pattern_score(added, targets)}
            row[f"chance.{name}"] = np.asarray(chance(look, name))
        rows.append(row)
    table = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    by_value, even = ({name: table[f"{kind}.{name}"] for name in PATTERNS} for kind in ("by_value", "chance"))
    return Scores(table["nats"], table["entropy"], {name: table[name] for name in PATTERNS}, by_value, even)


def mean_scores(of: list[Scores]) -> Scores:
    """The mean over sequences, of each number over those to which it applies."""

    def mean(arrays: list[Array]) -> Array:
        known = ~np.isnan(arrays)
        n = known.sum(axis=0)
        return np.where(n > 0, np.where(known, arrays, 0).sum(axis=0) / np.maximum(n, 1), np.nan)

    tables = {
        kind: {name: mean([getattr(scores, kind)[name] for scores in of]) for name in PATTERNS}
        for kind in ("patterns", "by_value", "chance")
    }
    return Scores(mean([s.nats for s in of]), mean([s.entropy for s in of]), **tables)
