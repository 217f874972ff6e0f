"""A single query has a way of its own: what comes is what the definition gives, bit by bit as far as it can be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import qkv
from qkv.errors import QkvError
from qkv.ops import config
from qkv.ops.one_query import one_query

TINY = 1 << 22
CLOSE = {np.float64: {"rtol": 1e-12, "atol": 1e-13}, np.float32: {"rtol": 1e-5, "atol": 1e-6}}


def drawn(seed: int, dtype: Any, batch: tuple[int, ...], H: int, Hkv: int, Tk: int, d: int, d_v: int) -> list[Any]:
    random = np.random.default_rng(seed)
    shapes = [(*batch, H, 1, d), (*batch, Hkv, Tk, d), (*batch, Hkv, Tk, d_v)]
    return [random.normal(size=shape).astype(dtype) for shape in shapes]


def defined(*arrays: Any, **how: Any) -> Any:
    with config(force="dense"):
        return qkv.attention(*arrays, **how)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 99), st.sampled_from([np.float32, np.float64]), st.sampled_from([(), (2,), (2, 3)]),
    st.sampled_from([(1, 1), (6, 6), (6, 2), (7, 1)]), st.integers(1, 41), st.integers(1, 13), st.integers(1, 11),
    st.sampled_from([None, 0.7, 0.0, -1.3]),
)  # fmt: skip
def test_it_is_the_definition(
    seed: int,
    dtype: Any,
    batch: tuple[int, ...],
    heads: tuple[int, int],
    Tk: int,
    d: int,
    d_v: int,
    scale: float | None,
) -> None:
    arrays = drawn(seed, dtype, batch, *heads, Tk, d, d_v)
    assert one_query(*arrays, scale, TINY) is not None
    np.testing.assert_allclose(qkv.attention(*arrays, scale=scale), defined(*arrays, scale=scale), **CLOSE[dtype])


@pytest.mark.parametrize("place", ["q", "k", "v"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_what_is_no_number_shows_as_it_does_there(place: str, value: float) -> None:
    for seed in range(23):
        q, k, v = drawn(seed, np.float32, (2,), 6, 2, 7, 5, 3)
        chosen = {"q": q, "k": k, "v": v}[place]
        chosen[1, 1, seed % chosen.shape[-2]] = value
        np.testing.assert_allclose(qkv.attention(q, k, v), defined(q, k, v), rtol=1e-5)


@pytest.mark.parametrize("signs", [[1, 1, 1, 1, 1], [-1, 1, 1, 1, 1], [-1, -1, -1, -1, -1]])
def test_scores_beyond_all_numbers(signs: list[int]) -> None:
    v = drawn(0, np.float32, (), 1, 1, 5, 3, 2)[2]
    q, k = np.full((1, 1, 3), 1e30, np.float32), np.full((1, 5, 3), 1e30, np.float32)
    k *= np.array(signs, np.float32)[:, None]
    np.testing.assert_array_equal(qkv.attention(q, k, v), defined(q, k, v))


OTHERS = {
    "d_k": lambda q, k, v: (q[..., :2], k, v),
    "Tk": lambda q, k, v: (q, k, v[..., :3, :]),
    "groups": lambda q, k, v: (q[:, :5], k, v),
    "no key head": lambda q, k, v: (q, k[:, :0], v[:, :0]),
    "no key": lambda q, k, v: (q, k[..., :0, :], v[..., :0, :]),
    "a batch that broadcasts": lambda q, k, v: (q, k[1:], v[1:]),
    "complex": lambda q, k, v: (q.astype(complex), k, v),
    "half": lambda q, k, v: (q.astype(np.float16), k, v),
    "two dtypes": lambda q, k, v: (q, k.astype(np.float64), v),
    "a list": lambda q, k, v: (q.tolist(), k, v),
    "masked": lambda q, k, v: (np.ma.masked_array(q), k, v),
    "two queries": lambda q, k, v: (np.repeat(q, 2, axis=-2), k, v),
    "matrices": lambda q, k, v: (q[0, 0], k[0, 0], v[0, 0]),
}


def outcome(*arrays: Any, **how: Any) -> Any:
    try:
        return qkv.attention(*arrays, **how)
    except QkvError as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("name", OTHERS)
def test_any_other_call_is_read_as_before(name: str) -> None:
    arrays = OTHERS[name](*drawn(0, np.float32, (2,), 6, 2, 7, 5, 3))
    assert one_query(*arrays, None, TINY) is None
    found = outcome(*arrays)
    with config(force="dense"):
        np.testing.assert_array_equal(found, outcome(*arrays))


@pytest.mark.parametrize("how", [
    {"scale": "1"}, {"scale": np.nan}, {"scale": 10**400}, {"causal": None}, {"causal": 0}, {"offset": 1.5},
    {"offset": True}, {"return_lse": 1, "softcap": -1.0}, {"window": 0}, {"mask": 1}, {"sinks": [1.0]},
])  # fmt: skip
def test_a_wrong_call_is_told_as_before(how: dict[str, Any]) -> None:
    arrays = drawn(0, np.float32, (2,), 6, 2, 7, 5, 3)
    found = outcome(*arrays, **how)
    assert isinstance(found, str)
    with config(force="dense"):
        assert found == outcome(*arrays, **how)


def test_who_watches_sees_every_score() -> None:
    q, k, v = drawn(0, np.float32, (), 6, 2, 7, 5, 3)
    with qkv.record() as trace:
        qkv.attention(q, k, v)
    assert trace["attention.weights"].shape == (6, 1, 7)
