"""Attention to parts of the keys, merged, is attention to all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.tiled_cases import LOOKS, H, N, agree, arrays, draw

import qkv
from qkv import biases, masks
from qkv.errors import ArgumentError, DtypeError
from qkv.ops import attention_chunks, merge

FLOAT64 = 1e-14


def parts(cut: int, **rules: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    q, k, v = draw(5, 7, dtype=np.float64), draw(13, 7, seed=4, dtype=np.float64), draw(13, 3, seed=5, dtype=np.float64)
    return [qkv.attention(q, k[s], v[s], return_lse=True, **rules) for s in (slice(cut), slice(cut, None), slice(None))]


@pytest.mark.parametrize("cut", [0, 1, 6, 13])
@pytest.mark.parametrize("scale", [0.3, 400.0])
def test_two_parts_in_either_order(cut: int, scale: float) -> None:
    a, b, whole = parts(cut, scale=scale)
    for found in (merge(*a, *b), merge(*b, *a)):
        agree(found[0], whole[0], FLOAT64 * max(1, 10 * scale))  # a log-sum-exp of 1000s has an error of its own size
        agree(found[1], whole[1], FLOAT64)


def test_parts_of_parts_in_any_grouping() -> None:
    q, k, v = (x.astype(np.float64) for x in arrays())
    pieces = [qkv.attention(q, k[..., s, :], v[..., s, :], return_lse=True) for s in
              (slice(0, 7), slice(7, 8), slice(8, 90), slice(90, None))]  # fmt: skip
    left = merge(*merge(*merge(*pieces[0], *pieces[1]), *pieces[2]), *pieces[3])
    right = merge(*pieces[0], *merge(*pieces[1], *merge(*pieces[2], *pieces[3])))
    whole = qkv.attention(q, k, v, return_lse=True)
    for found in (left, right):
        agree(found[0], whole[0], FLOAT64)
        agree(found[1], whole[1], FLOAT64)


def test_a_part_that_saw_nothing_leaves_no_trace() -> None:
    a = np.array([[3.0]]), np.array([2.0])
    out, lse = merge(*a, np.array([[np.nan]]), np.array([-np.inf]))
    assert (out.item(), lse.item()) == (3.0, 2.0)
    out, lse = merge([[0.0]], [-np.inf], [[0.0]], [-np.inf])
    assert (out.item(), lse.item()) == (0.0, -np.inf)


def test_a_nan_that_was_seen_shows_however_little_it_weighs() -> None:
    out, _ = merge([[3.0]], [0.0], [[np.nan]], [-1e6])
    assert np.isnan(out).all()


def test_dtypes() -> None:
    out, lse = merge(np.ones((2, 3), np.float16), np.zeros(2, np.float32), np.ones((2, 3), np.float16), np.zeros(2))
    assert out.dtype == np.float16
    np.testing.assert_array_equal(out, 1)
    np.testing.assert_allclose(lse, np.log(2))


CHUNKED: dict[str, dict[str, Any]] = {
    "everything": {},
    "causal": {"causal": True, "offset": N - 5},
    "per member": {"causal": True, "offset": np.array([3, N])},
    "window": {"window": (9, 4), "offset": 50},
    "padding": {"mask": masks.padding([5, 100])},
    "documents": {**LOOKS["documents"], "offset": 60},
    "alibi": {"bias": biases.alibi(H), "offset": N - 5, "causal": True},
    "sinks": {"sinks": np.linspace(-2, 5, H), "causal": True, "offset": -2},
    "custom": {"mask": masks.custom(lambda i, j: (i + 2 * j) % 3 == 0), "offset": 7, "softcap": 3.0},
}


@pytest.mark.parametrize("size", [1, 50, N, 500])
@pytest.mark.parametrize("rules", CHUNKED)
def test_chunks(rules: str, size: int) -> None:
    q, k, v = (x.astype(np.float64) for x in arrays())
    q = q[..., :5, :]
    whole = qkv.attention(q, k, v, return_lse=True, **CHUNKED[rules])
    chunks = ((k[..., s : s + size, :], v[..., s : s + size, :]) for s in range(0, N, size))
    found = attention_chunks(q, chunks, return_lse=True, **CHUNKED[rules])
    agree(found[0], whole[0], FLOAT64)
    agree(found[1], whole[1], FLOAT64)


def test_chunks_are_rounded_once() -> None:
    """Rounded after every chunk of one key, 131 roundings of float16 would add up."""
    q, k, v = arrays(dtype=np.float16)
    exact = qkv.attention(*(x.astype(np.float64) for x in (q, k, v)))
    out = attention_chunks(q, ((k[..., [j], :], v[..., [j], :]) for j in range(N)))
    assert out.dtype == np.float16
    assert np.abs(out - exact).max() <= 1.001 * np.abs(exact.astype(np.float16) - exact).max()


def test_one_chunk_at_a_time_is_drawn() -> None:
    drawn: list[int] = []

    def chunks() -> Any:
        for number in range(3):
            drawn.append(number)
            yield np.ones((4, 2)), np.full((4, 2), number)

    np.testing.assert_allclose(attention_chunks(np.ones((1, 2)), chunks()), 1)
    assert drawn == [0, 1, 2]


@pytest.mark.parametrize(
    ("rules", "kind", "line"),
    [
        ({"causal": True}, ArgumentError, "offset must be given: the position of the first query among all keys, but"),
        ({"mask": masks.causal()}, ArgumentError, "offset must be given"),
        ({"mask": np.ones((1, 4), bool)}, DtypeError, "mask must be a rule on positions, but its dtype is ndarray"),
        ({}, ArgumentError, r"chunks must be at least one pair \(k, v\)"),
    ],
)
def test_wrong_calls_of_chunks(rules: dict[str, Any], kind: type[Exception], line: str) -> None:
    with pytest.raises(kind, match=line):
        attention_chunks(np.ones((1, 2)), [], **rules)
