"""RoPE stretched to longer texts: frequencies and magnitudes as transformers has them, stored.

`scripts/make_rope_goldens.py` says how they were made.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qkv.ops import rope_frequencies, scaling

DATA = Path(__file__).parent / "data" / "rope_goldens.npz"
# transformers computes frequencies in float32 in about four steps: a few units of 2^-24 = 6e-8 each. The base's power
# multiplies the error of its exponent with log(base), at most 14 here.
FLOAT32 = 1.5e-6


@functools.cache
def stored() -> tuple[dict[str, dict[str, Any]], dict[str, np.ndarray]]:
    with np.load(DATA) as file:
        arrays = {name: file[name] for name in file.files}
    return json.loads(str(arrays.pop("cases"))), arrays


@pytest.mark.parametrize("name", stored()[0])
def test_frequencies_and_magnitude(name: str) -> None:
    case = stored()[0][name]
    stretched = getattr(scaling, case["scaling"])(**case["settings"])
    frequencies, magnitude = rope_frequencies(
        case["rotary_dim"], case["base"], scaling=stretched, length=case["length"]
    )
    assert frequencies.dtype == np.float64
    np.testing.assert_allclose(frequencies, stored()[1][name], rtol=FLOAT32, atol=0)
    assert magnitude == pytest.approx(case["attention_factor"], rel=1e-15)


def test_every_kind_is_there_and_each_one_changes_something() -> None:
    """A scaling that were ignored would still pass where the golden happens to be the plain frequencies."""
    changed = set()
    for name, case in stored()[0].items():
        plain, _ = rope_frequencies(case["rotary_dim"], case["base"])
        if not np.allclose(stored()[1][name], plain, rtol=1e-3, atol=0):
            changed.add(case["scaling"])
    assert len(stored()[0]) == 16
    assert changed == {"Linear", "DynamicNTK", "Yarn", "LongRoPE", "Llama3"}
