"""What a model's heads do, as text and as JSON."""

from __future__ import annotations

import json
from typing import Any

from ..walkthrough import Heads
from ..walkthrough.head_scores import Scores
from .screen import Screen
from .walk_json import numbers
from .walk_text import part_text


def heads_text(heads: Heads, screen: Screen | None = None) -> str:
    """How the heads were looked at, how they get their names, and a row for each."""
    screen = screen or Screen()
    return "\n\n".join(part_text(part, screen, heads.lang) for part in heads.parts)


def heads_json(heads: Heads) -> str:
    """The sequences, and all scores as [layer][head], with and without the tokens around a text."""
    found: dict[str, Any] = {
        "ids": [numbers(ids) for ids in heads.ids], "tokens": heads.tokens, "probe": heads.probe,
        "around": heads.around, "scores": scores_object(heads.scores), "own": scores_object(heads.own),
    }  # fmt: skip
    return json.dumps(found, ensure_ascii=False)


def scores_object(scores: Scores) -> dict[str, Any]:
    """Names and numbers; "NaN" where a score does not apply."""
    n_layers, n_heads = scores.entropy.shape
    return {
        "names": [[scores.name(layer, head) for head in range(n_heads)] for layer in range(n_layers)],
        "nats": numbers(scores.nats),
        "entropy": numbers(scores.entropy),
        **{
            kind: {name: numbers(of) for name, of in getattr(scores, kind).items()}
            for kind in ("patterns", "by_value", "chance")
        },
    }
