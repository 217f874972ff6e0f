"""A walk, or a comparison, as JSON: every digit of every number."""

from __future__ import annotations

import json
import math
from typing import Any

from ..ops.precision import Array
from ..walkthrough import Comparison, Walkthrough


def numbers(value: Array) -> Any:
    """An array as nested lists; what JSON has no number for as "NaN", "Infinity", "-Infinity".

    Examples
    --------
    >>> import numpy as np
    >>> numbers(np.array([[0.5, -np.inf]]))
    [[0.5, '-Infinity']]
    """

    def plain(x: Any) -> Any:
        if isinstance(x, list):
            return [plain(item) for item in x]
        if isinstance(x, float) and not math.isfinite(x):
            return "NaN" if math.isnan(x) else "Infinity" if x > 0 else "-Infinity"
        return x

    return plain(value.tolist())


def walk_object(walk: Walkthrough) -> dict[str, Any]:
    """The object that `walk_json` writes."""
    output = walk.multi_head_output
    return {
        "tokens": walk.tokens,
        "values": {name: numbers(value) for name, value in walk.values.items()},
        "heads": [numbers(weights) for weights in walk.heads],
        "multi_head_output": None if output is None else numbers(output),
        "shapes": {name: list(shape) for name, shape in walk.shapes.items()},
        "setup": vars(walk.setup),
    }


def walk_json(walk: Walkthrough) -> str:
    """tokens, values, heads, multi_head_output, shapes and the set-up."""
    return json.dumps(walk_object(walk), ensure_ascii=False)


def comparison_json(comparison: Comparison) -> str:
    """Both walks, the difference of the first head's weights, and the distance of each head."""
    both = {"a": walk_object(comparison.a), "b": walk_object(comparison.b)}
    rest = {"difference": numbers(comparison.difference), "distances": comparison.distances}
    return json.dumps({**both, **rest}, ensure_ascii=False)
