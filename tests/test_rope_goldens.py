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

from qkv.ops import rope, rope_frequencies, scaling

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


@pytest.mark.parametrize("name", stored()[0])
def test_rope_turns_by_them(name: str) -> None:
    """The longest position decides the length: 0 to 4095 are a text of 4096, for LongRoPE still a short one."""
    case = stored()[0][name]
    stretched = getattr(scaling, case["scaling"])(**case["settings"])
    length, half = case["length"] or 101, case["rotary_dim"] // 2
    positions = np.array([0, 1, 17, length - 1])
    x = np.random.default_rng(2).standard_normal((3, 4, case["rotary_dim"]))
    frequencies, magnitude = rope_frequencies(
        case["rotary_dim"], case["base"], scaling=stretched, length=case["length"]
    )
    turned = (x[..., :half] + 1j * x[..., half:]) * magnitude * np.exp(1j * positions[:, None] * frequencies)
    expected = np.concatenate([turned.real, turned.imag], axis=-1)
    # Both sides turn by the same float64 angles: a few units of 2^-53 remain.
    np.testing.assert_allclose(rope(x, positions, case["base"], scaling=stretched), expected, rtol=0, atol=1e-14)


def test_every_kind_is_there_and_each_one_changes_something() -> None:
    """A scaling that were ignored would still pass where the golden happens to be the plain frequencies."""
    changed = set()
    for name, case in stored()[0].items():
        plain, _ = rope_frequencies(case["rotary_dim"], case["base"])
        if not np.allclose(stored()[1][name], plain, rtol=1e-3, atol=0):
            changed.add(case["scaling"])
    assert len(stored()[0]) == 16
    assert changed == {"Linear", "DynamicNTK", "Yarn", "LongRoPE", "Llama3"}
