"""Calls of attention for the tests of the fast path: arrays, and every rule as keyword arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

import qkv
from qkv import biases, masks
from qkv.ops import config

B, H, HKV, N, D_K, D_V = 2, 6, 2, 131, 17, 11
SMALL_TILES = {"query_tile": 37, "key_tile": 29}
RANDOM = np.random.default_rng(7)
DOCUMENTS = np.sort(RANDOM.integers(0, 5, (B, N)), axis=-1)
SPARSE = RANDOM.random((9, 9)) < 0.4

# What may be looked at. With each of them some row sees nothing, or some tile is skipped, or cut.
LOOKS: dict[str, dict[str, Any]] = {
    "everything": {},
    "causal": {"causal": True},
    "causal, early": {"causal": True, "offset": np.array([-40, 3])},
    "window": {"window": 13},
    "window both ways": {"window": (20, 5)},
    "causal window": {"window": (7, 9), "causal": True},
    "padding": {"mask": masks.padding([57, 100])},
    "documents": {"mask": masks.documents(DOCUMENTS) & masks.causal()},
    "blocks": {"mask": masks.block_sparse(SPARSE, 16)},
    "prefix": {"mask": masks.causal() | masks.prefix(30)},
    "the future": {"mask": ~masks.causal()},
    "every third": {"mask": masks.custom(lambda i, j: (i + j) % 3 == 0)},
    "an array": {"mask": RANDOM.random((B, 1, N, N)) < 0.04},
    "an array of keys": {"mask": RANDOM.random(N) < 0.5},
}
# What becomes of the scores.
SCORES: dict[str, dict[str, Any]] = {
    "as they are": {},
    "softcap": {"softcap": 2.0},
    "sinks": {"sinks": np.linspace(-3, 9, H)},
    "negative scale": {"scale": -0.3},
    "scale 0": {"scale": 0.0},
    "alibi": {"bias": biases.alibi(H)},
    "a bias that hides": {"bias": np.where(RANDOM.random((H, N, N)) < 0.3, -np.inf, RANDOM.normal(size=(H, N, N)))},
    "a bias of keys": {"bias": RANDOM.normal(size=(B, 1, 1, N)), "softcap": 3.0},
    "a bias by rule": {"bias": biases.custom(lambda i, j: -0.01 * (i - j) ** 2), "sinks": np.ones(H)},
}


def draw(*shape: int, seed: int = 3, size: float = 1.0, dtype: Any = np.float32) -> np.ndarray:
    return (np.random.default_rng([seed, *shape]).normal(size=shape) * size).astype(dtype)


def arrays(size: float = 1.0, dtype: Any = np.float32) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q with large rows if asked, k, v."""
    q, k, v = draw(B, H, N, D_K, size=size), draw(B, HKV, N, D_K, seed=4), draw(B, HKV, N, D_V, seed=5)
    return q.astype(dtype), k.astype(dtype), v.astype(dtype)


def tiled(q: Any, k: Any, v: Any, *, settings: dict[str, Any] | None = None, **rules: Any) -> Any:
    """out and lse of the fast path."""
    with config(force="tiled", **(settings or {})):
        return qkv.attention(q, k, v, return_lse=True, **rules)


def defined(q: Any, k: Any, v: Any, **rules: Any) -> Any:
    """out and lse of the definition, in float64."""
    with config(force="dense"):
        return qkv.attention(*(x.astype(np.float64) for x in (q, k, v)), return_lse=True, **rules)


def agree(found: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    """The same shape, the same infinities and NaN, and no further apart than `tolerance` of the largest value."""
    assert found.shape == expected.shape
    size = np.abs(expected[np.isfinite(expected)]).max(initial=1)
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=0, atol=tolerance * size)
