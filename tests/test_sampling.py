"""From logits to a token: each rule against numbers worked out by hand, and what is drawn against its probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.models.generation import sampling
from qkv.models.generation.asked import Asked, pick

HALVES = np.log(np.array([0.125, 0.5, 0.25, 0.0625, 0.0625]))

ALL = [0, 1, 2, 3, 4]


def kept(logits: np.ndarray) -> list[int]:
    return np.flatnonzero(~np.isneginf(logits)).tolist()


def test_temperature() -> None:
    assert sampling.temperature(np.array([3.0, -1.0]), 2.0).tolist() == [1.5, -0.5]


@pytest.mark.parametrize(("k", "left"), [(1, [1]), (2, [1, 2]), (3, [0, 1, 2]), (4, ALL), (9, ALL)])
def test_top_k(k: int, left: list[int]) -> None:
    found = sampling.top_k(HALVES, k)
    assert kept(found) == left  # the two smallest are equal: they stay or go together
    assert found[left].tolist() == HALVES[left].tolist()


@pytest.mark.parametrize(
    ("p", "left"),
    [(0.0, [1]), (0.4, [1]), (0.51, [1, 2]), (0.74, [1, 2]), (0.76, [0, 1, 2]), (0.93, [0, 1, 2, 3]), (1.0, ALL)],
)  # fmt: skip
def test_top_p(p: float, left: list[int]) -> None:
    assert kept(sampling.top_p(HALVES, p)) == left


@pytest.mark.parametrize(("p", "left"), [(0.0, ALL), (0.2, [0, 1, 2]), (0.3, [1, 2]), (0.6, [1]), (1.0, [1])])
def test_min_p(p: float, left: list[int]) -> None:
    assert kept(sampling.min_p(HALVES, p)) == left


def test_repetition_penalty() -> None:
    logits = np.array([4.0, -2.0, 1.0, 0.0])
    assert sampling.repetition_penalty(logits, {0, 1, 3}, 2.0).tolist() == [2.0, -4.0, 1.0, 0.0]
    assert sampling.repetition_penalty(logits, set(), 2.0).tolist() == logits.tolist()
    assert logits.tolist() == [4.0, -2.0, 1.0, 0.0]


def test_drawn_as_often_as_its_probability_says() -> None:
    rng = np.random.default_rng(7)
    counts = np.bincount([sampling.drawn(HALVES, rng) for _ in range(20_000)], minlength=5) / 20_000
    np.testing.assert_allclose(counts, np.exp(HALVES), atol=0.012)


@given(st.lists(st.floats(-50, 50), min_size=2, max_size=13), st.integers(0, 2**31))
def test_what_was_taken_out_is_never_drawn(values: list[float], seed: int) -> None:
    logits = sampling.top_k(np.array(values), 1)
    assert not np.isneginf(logits[sampling.drawn(logits, np.random.default_rng(seed))])


def test_the_order_of_the_rules() -> None:
    """The penalty first, then the temperature, top_k, top_p, min_p: each sees what those before have left."""
    logits = np.log(np.array([0.4, 0.3, 0.2, 0.1]))

    def possible(**how: object) -> set[int]:
        asked = Asked(**{"temperature": 1.0, **how})  # type: ignore[arg-type]
        return {pick(logits, [0], asked, np.random.default_rng(seed)) for seed in range(200)}

    assert possible(top_k=3) == {0, 1, 2}
    assert possible(top_k=2, top_p=0.5) == {0}  # 0.4 of the 0.7 that are left is more than half
    assert possible(top_p=0.5) == {0, 1}
    assert possible(temperature=0.25, top_p=0.5) == {0}  # cooled first, token 0 alone is likelier than 0.5
    assert possible(repetition_penalty=1.5, top_k=1) == {1}  # log 0.4 times 1.5 lies below log 0.3
    assert possible(min_p=0.6) == {0, 1}
    assert possible(temperature=0.0) == {0}


@pytest.mark.parametrize("temperature", [1e-9, 1e-300, 5e-324])
def test_next_to_nothing_is_as_good_as_the_likeliest(temperature: float) -> None:
    logits = np.array([1000.0, 1001.0, -3e4], np.float32)
    found = {pick(logits, [], Asked(temperature=temperature), np.random.default_rng(seed)) for seed in range(9)}
    assert found == {1}


def test_the_likeliest_is_not_drawn() -> None:
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    assert pick(HALVES, [], Asked(), rng) == 1
    assert rng.bit_generator.state == before
