"""How much longer the steps of a tokenizer may make a text: forty that double it would fill any memory."""

from __future__ import annotations

import json
import math
from typing import Any

MOST = 4096
# Steps that write one character as several, at most as so many.
GROWING = {"ByteLevel": 4, "Precompiled": 32}


def grows_too_much(tokenizer: Any) -> bool:
    """Whether a tokenizer of the `tokenizers` library may make a text more than `MOST` times as long."""
    parts = (tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.decoder)
    return any(part is not None and growth(json.loads(part.__getstate__())) > MOST for part in parts)


def growth(step: Any) -> float:
    """How many times as long a text may become.

    Examples
    --------
    >>> twice = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    >>> growth({"type": "Sequence", "normalizers": [twice, {"type": "NFC"}, twice]})
    4.0
    """
    if isinstance(step, list):
        return math.prod(map(growth, step))
    if not isinstance(step, dict):
        return 1.0
    if step.get("type") == "Replace":
        replaced = step["pattern"].get("String")  # a `Regex` may be as short as nothing
        return max(1.0, len(step["content"]) / len(replaced) if replaced else len(step["content"]) + 1.0)
    return GROWING.get(str(step.get("type")), 1) * math.prod(map(growth, step.values()))
