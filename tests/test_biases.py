"""Biases by position, each against a slow loop written from the papers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import qkv
from qkv import biases
from qkv.errors import ArgumentError, DtypeError, ShapeError
from qkv.ops.biases import t5_buckets


@pytest.mark.parametrize(
    ("n_heads", "exponents"),
    [
        (1, [8]), (2, [4, 8]), (4, [2, 4, 6, 8]), (8, [1, 2, 3, 4, 5, 6, 7, 8]),
        (3, [4, 8, 2]), (6, [2, 4, 6, 8, 1, 3]), (12, [1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5]),
    ],
)  # fmt: skip
def test_slopes_of_alibi(n_heads: int, exponents: list[float]) -> None:
    np.testing.assert_allclose(biases.alibi_slopes(n_heads), [2**-e for e in exponents], rtol=1e-15)


@pytest.mark.parametrize("symmetric", [False, True])
def test_alibi_against_a_loop(symmetric: bool) -> None:
    i, j = range(2, 7), range(11)
    found = biases.alibi(6, symmetric=symmetric)(i, j)
    assert found.shape == (6, 5, 11)
    for h, slope in enumerate(biases.alibi_slopes(6)):
        expected = [[-slope * (abs(a - b) if symmetric else max(a - b, 0)) for b in j] for a in i]
        np.testing.assert_array_equal(found[h], expected)


def bucket(distance: int, n: int, longest: int, bidirectional: bool) -> int:
    """One bucket, in the words of the paper's program: half of them exact, the rest by the logarithm."""
    first = 0
    if bidirectional:
        n //= 2
        first = n if distance > 0 else 0
        far = abs(distance)
    else:
        far = max(-distance, 0)
    exact = n // 2
    if far < exact:
        return first + far
    return first + min(exact + int(math.log(far / exact) / math.log(longest / exact) * (n - exact)), n - 1)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("n", "longest"), [(32, 128), (8, 20), (6, 11)])
def test_buckets_against_a_loop(bidirectional: bool, n: int, longest: int) -> None:
    distances = np.arange(-200, 201)
    expected = [bucket(int(d), n, longest, bidirectional) for d in distances]
    np.testing.assert_array_equal(t5_buckets(distances, n, longest, bidirectional), expected)
    assert 0 <= min(expected) <= max(expected) < n


@pytest.mark.parametrize("bidirectional", [True, False])
def test_t5_against_a_loop(bidirectional: bool) -> None:
    table = np.random.default_rng(1).normal(size=(8, 3))
    found = biases.t5_relative(table, bidirectional=bidirectional, max_distance=20)(range(4, 9), range(11))
    for h in range(3):
        expected = [[table[bucket(j - i, 8, 20, bidirectional), h] for j in range(11)] for i in range(4, 9)]
        np.testing.assert_array_equal(found[h], expected)


def some_biases() -> list[Any]:
    table = np.random.default_rng(1).normal(size=(8, 3))
    return [
        biases.alibi(3),
        biases.alibi(3, symmetric=True),
        biases.t5_relative(table, bidirectional=True, max_distance=9),
        biases.custom(lambda i, j: np.cos(i - 2.0 * j)),
        biases.alibi(3) + biases.t5_relative(table, bidirectional=False) + biases.custom(lambda i, j: 0.5 * (i == j)),
    ]


@pytest.mark.parametrize("bias", some_biases(), ids=lambda bias: bias.name)
@pytest.mark.parametrize("offset", [0, 6, [2, 5]], ids=str)
def test_attention_adds_the_bias(bias: Any, offset: Any) -> None:
    rng = np.random.default_rng(2)
    q, k, v = (rng.normal(size=s) for s in ((2, 3, 5, 7), (2, 3, 11, 7), (2, 3, 11, 2)))
    found = qkv.attention(q, k, v, bias=bias, offset=offset, causal=True)
    for b, start in enumerate(np.broadcast_to(offset, 2)):
        added = bias(np.arange(start, start + 5), np.arange(11))
        expected = qkv.attention(q[b], k[b], v[b], bias=added, offset=int(start), causal=True)
        np.testing.assert_allclose(found[b], expected, atol=1e-14)


def test_biases_add_up() -> None:
    one, two = biases.alibi(3), biases.custom(lambda i, j: i + 10.0 * j)
    i, j = range(4), range(5)
    np.testing.assert_array_equal((one + two)(i, j), one(i, j) + two(i, j))
    assert (one + two).name == "(alibi(3) + custom)"


def test_a_rule_in_a_bias_needs_the_offset() -> None:
    with pytest.raises(ArgumentError, match=r"^q has Tq=5 but k has Tk=7, so t5_relative needs offset=: 2 "):
        qkv.attention(
            np.ones((3, 5, 2)), np.ones((3, 7, 2)), np.ones((3, 7, 2)),
            bias=biases.t5_relative(np.zeros((4, 3)), bidirectional=True),
        )  # fmt: skip


@pytest.mark.parametrize(
    ("call", "kind", "line"),
    [
        (lambda: biases.alibi(0), ArgumentError, "n_heads must be an integer of at least 1, but it is 0"),
        (lambda: biases.alibi_slopes(2.5), ArgumentError, "n_heads must be an integer of at least 1, but it is 2.5"),
        (lambda: biases.alibi("a"), ArgumentError, "n_heads must be an integer of at least 1, but it is 'a'"),
        (lambda: biases.alibi(True), ArgumentError, "n_heads must be an integer of at least 1, but it is True"),
        (lambda: biases.alibi(2) + 3, DtypeError, "the right side of + must be a bias, but its dtype is int"),
        (
            lambda: biases.t5_relative(np.zeros(3), bidirectional=True),
            ShapeError,
            "table must have shape (n_buckets, n_heads), but its shape is (3,)",
        ),
        (
            lambda: qkv.attention(*[np.ones((2, 5, 7))] * 3, bias=biases.alibi(3)),
            ShapeError,
            "bias has shape (3, 5, 5), which does not broadcast to the scores (2, 5, 5)",
        ),
        (
            lambda: qkv.attention(*[np.ones((2, 5, 7))] * 3, bias=biases.custom(lambda i, j: i == j)),
            DtypeError,
            "bias must be a number to add to each score, but its dtype is bool; to hide keys use mask=",
        ),
    ],
)
def test_one_line(call: Any, kind: type[Exception], line: str) -> None:
    with pytest.raises(kind) as error:
        call()
    assert str(error.value) == line


def test_a_bias_that_overflows_on_the_way_weighs_nothing() -> None:
    q, k, v = np.ones((1, 2), np.float32), np.ones((2, 2), np.float32), np.array([[3], [5]], np.float32)
    assert qkv.attention(q, k, v, bias=[0.0, -1e300]).item() == 3


def test_a_bias_that_overflows_on_the_way_is_no_mask() -> None:
    """Alone it leaves a row of which nothing is known, not an empty one."""
    q, k, v = np.ones((1, 2), np.float32), np.ones((2, 2), np.float32), np.array([[3], [5]], np.float32)
    assert np.isnan(qkv.attention(q, k, v, bias=[-np.inf, -1e300])).all()
    assert qkv.attention(q, k, v, bias=[-np.inf, -np.inf]).item() == 0
