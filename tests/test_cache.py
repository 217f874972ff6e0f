"""What a layer remembers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qkv.errors import ArgumentError, QkvError, ShapeError
from qkv.layers import KVCache


def rows(start: int, stop: int, d: int = 3) -> np.ndarray:
    """Rows that carry their own number, for two members and one head."""
    return np.broadcast_to(np.arange(start, stop, dtype=float)[:, None], (2, 1, stop - start, d)).copy()


def numbers(x: np.ndarray) -> list[float]:
    assert (x == x[..., :1]).all()
    assert (x == x[:1]).all()
    return x[0, 0, :, 0].tolist()


@pytest.mark.parametrize("window", [None, 1, 2, 5, 7])
@pytest.mark.parametrize("chunks", [[1] * 9, [4, 1, 1, 3], [9], [2, 0, 7], [6, 3]])
def test_what_comes_back(window: int | None, chunks: list[int]) -> None:
    """All keys that the new queries see, the new ones included, and where the first new one stands among them."""
    cache, seen = KVCache(window), 0
    for size in chunks:
        k, v, offset = cache.append(rows(seen, seen + size), -rows(seen, seen + size, 2))
        first = seen - (seen if window is None else min(seen, window - 1))
        assert numbers(k) == list(range(first, seen + size))
        assert numbers(-v) == numbers(k)
        assert k.shape[-1] == 3
        assert v.shape[-1] == 2
        assert offset == seen - first
        seen += size
        assert cache.n_seen == seen
        assert cache.length == (seen if window is None else min(seen, window - 1))


def test_what_was_handed_out_stays_as_it_was() -> None:
    for window in (None, 4):
        cache, held = KVCache(window), []
        for n in range(9):
            k, v, _ = cache.append(rows(n, n + 1), rows(n, n + 1))
            held.append((k, v, k.copy(), v.copy()))
        if window is None:
            cache.truncate(2)
            held.append((*(x := cache.append(rows(50, 53), rows(50, 53))[:2]), x[0].copy(), x[1].copy()))
            cache.truncate(0)
        cache.append(rows(90, 99), rows(90, 99))
        for k, v, k_then, v_then in held:
            np.testing.assert_array_equal(k, k_then)
            np.testing.assert_array_equal(v, v_then)


def test_the_new_rows_are_copied() -> None:
    for window in (None, 2, 9):
        cache, k, v = KVCache(window), rows(0, 3), rows(0, 3)
        cache.append(k, v)
        k[:], v[:] = 99, 99
        again, _, _ = cache.append(rows(3, 4), rows(3, 4))
        assert 99 not in numbers(again)


def test_truncate() -> None:
    cache = KVCache()
    cache.append(rows(0, 7), rows(0, 7))
    cache.truncate(7)
    assert cache.length == 7
    cache.truncate(3)
    assert (cache.length, cache.n_seen) == (3, 3)
    k, _, offset = cache.append(rows(20, 22), rows(20, 22))
    assert (numbers(k), offset, cache.n_seen) == ([0, 1, 2, 20, 21], 3, 5)
    cache.truncate(0)
    assert (cache.length, cache.n_seen, cache.nbytes) == (0, 0, 0)
    KVCache().truncate(0)


@pytest.mark.parametrize(("window", "length"), [(None, 8), (None, -1), (None, 1.5), (4, 1)])
def test_truncate_refuses(window: int | None, length: int) -> None:
    cache = KVCache(window)
    cache.append(rows(0, 7), rows(0, 7))
    before = (cache.length, cache.n_seen)
    with pytest.raises(ArgumentError) as error:
        cache.truncate(length)
    assert str(error.value) == (
        f"length must be from 0 to {cache.length}, in a cache without a window, but it is {length}"
    )
    assert (cache.length, cache.n_seen) == before


def test_nbytes_counts_what_is_remembered() -> None:
    cache = KVCache()
    assert cache.nbytes == 0
    for n in range(1, 6):
        cache.append(rows(n - 1, n).astype(np.float32), rows(n - 1, n, 2).astype(np.float16))
        assert cache.nbytes == 2 * n * (3 * 4 + 2 * 2)
    sliding = KVCache(4)
    sliding.append(rows(0, 99), rows(0, 99))
    assert sliding.nbytes == 2 * 3 * (3 + 3) * 8


def test_the_buffer_does_not_grow_with_each_token() -> None:
    """Doubling: as many buffers as doublings, so that decoding is not quadratic in copies."""
    cache, owners = KVCache(), set()
    for n in range(200):
        k, _, _ = cache.append(rows(n, n + 1), rows(n, n + 1))
        owners.add(k.__array_interface__["data"][0])
    assert len(owners) < 20


def test_dtype_is_kept() -> None:
    for dtype in (np.float16, np.float32, np.float64):
        cache = KVCache(3)
        for n in range(5):
            k, v, _ = cache.append(rows(n, n + 1).astype(dtype), rows(n, n + 1).astype(dtype))
            assert k.dtype == v.dtype == dtype


@pytest.mark.parametrize(
    ("k", "v", "line"),
    [
        ((2, 1, 3, 4), (2, 1, 3, 3), "k must have shape (2, 1, 'T', 3), but its shape is (2, 1, 3, 4)"),
        ((2, 2, 3, 3), (2, 2, 3, 3), "k must have shape (2, 1, 'T', 3), but its shape is (2, 2, 3, 3)"),
        ((2, 1, 3, 3), (1, 1, 3, 3), "v must have shape (2, 1, 'T', 3), but its shape is (1, 1, 3, 3)"),
        ((2, 1, 3, 3), (2, 1, 2, 3), "v has T=2 but k has T=3"),
    ],
)
def test_rows_that_do_not_fit(k: Any, v: Any, line: str) -> None:
    cache = KVCache()
    cache.append(rows(0, 5), rows(0, 5))
    with pytest.raises(ShapeError) as error:
        cache.append(np.ones(k), np.ones(v))
    assert str(error.value) == line
    assert (cache.length, cache.n_seen) == (5, 5)
    again, _, offset = cache.append(rows(5, 6), rows(5, 6))
    assert (numbers(again), offset) == ([0, 1, 2, 3, 4, 5], 5), "a refused call leaves no trace"


def test_keys_and_values_of_different_lengths_are_refused_at_once() -> None:
    with pytest.raises(ShapeError, match=r"^v has T=2 but k has T=3$"):
        KVCache().append(rows(0, 3), rows(0, 2))


def test_a_wider_dtype_widens_what_is_remembered() -> None:
    cache, third = KVCache(), np.full((2, 1, 1, 3), 1 / 3)
    for start, stop in ((0, 2), (2, 3)):  # the second leaves room for a row
        cache.append(rows(start, stop).astype(np.float32), rows(start, stop).astype(np.float32))
    k, v, _ = cache.append(third, third)
    assert k.dtype == v.dtype == np.float64
    assert (k[..., -1, :] == 1 / 3).all()
    assert numbers(k)[:3] == [0, 1, 2]
    k, _, _ = cache.append(third.astype(np.float32), third.astype(np.float32))
    assert k.dtype == np.float64
    assert (k[..., -2, :] == 1 / 3).all()


@pytest.mark.parametrize(
    ("k", "line"),
    [
        (np.ones(3), "k must have at least 2 axes (..., T, d_k), but its shape is (3,)"),
        (None, "k must be float16, bfloat16, float32, float64 or integer, but its dtype is object"),
    ],
)
def test_what_is_no_rows(k: Any, line: str) -> None:
    with pytest.raises(QkvError) as error:
        KVCache().append(k, rows(0, 1))
    assert str(error.value) == line


@pytest.mark.parametrize("window", [1.5, "a", True])
def test_a_window_that_is_no_count(window: Any) -> None:
    with pytest.raises(ArgumentError) as error:
        KVCache(window)
    assert str(error.value) == f"window must be at least 1, or None, but it is {window!r}"


def test_a_window_of_nothing() -> None:
    with pytest.raises(ArgumentError, match=r"^window must be at least 1, or None, but it is 0$"):
        KVCache(0)


# in fewer bits


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, shape).astype(np.float32)


@pytest.mark.parametrize("dtype", ["int8", "float16"])
@pytest.mark.parametrize("window", [None, 4])
def test_rows_in_few_bits_come_back_with_a_small_error(dtype: str, window: int | None) -> None:
    """Each row has a scale of its own: the error is half of 1/127 of its own largest value, not of all."""
    k, v = drawn(2, 3, 17, 5), drawn(2, 3, 17, 7, seed=1) * np.logspace(-6, 3, 17, dtype=np.float32)[:, None]
    cache, parts = KVCache(window, dtype=dtype), []
    for piece in np.split(np.arange(17), [3, 4, 9]):
        found_k, found_v, offset = cache.append(k[..., piece, :], v[..., piece, :])
        assert found_k.dtype == found_v.dtype == np.float32
        parts.append((found_k[..., offset:, :], found_v[..., offset:, :]))
    again = KVCache(dtype=dtype).append(k, v)
    for i, given in enumerate((k, v)):
        found = np.concatenate([part[i] for part in parts], axis=-2)
        largest = np.abs(given).max(axis=-1, keepdims=True)
        step = largest / 127 / 2 * 1.001 if dtype == "int8" else np.maximum(np.abs(given) / 2**11, 2.0**-25)
        assert (np.abs(found - given) <= step).all()
        assert (found != given).any()
        np.testing.assert_array_equal(found, again[i], "in any chunks the same")


def test_what_few_bits_take() -> None:
    for n in (1, 7):
        sizes = {None: 2 * 3 * n * (5 + 7) * 4, "float16": 2 * 3 * n * (5 + 7) * 2, "int8": 2 * 3 * n * (5 + 4 + 7 + 4)}
        for dtype, size in sizes.items():
            cache = KVCache(dtype=dtype)
            cache.append(drawn(2, 3, n, 5), drawn(2, 3, n, 7))
            assert cache.nbytes == size


def test_what_int8_cannot_hold_shows() -> None:
    k = np.array([[[np.nan, 1.0], [np.inf, 1.0], [0.0, 0.0], [127.0, -1.0]]])
    found, _, _ = KVCache(dtype="int8").append(k, k)
    assert found.dtype == np.float64
    assert np.isnan(found[0, :2]).all()
    assert found[0, 2:].tolist() == [[0.0, 0.0], [127.0, -1.0]]
    found, none, _ = KVCache(dtype="int8").append(k, k[..., :0])
    assert none.shape == (1, 4, 0)


def test_select_and_truncate_in_few_bits() -> None:
    for dtype in (None, "float16", "int8"):
        cache, k = KVCache(dtype=dtype), drawn(3, 2, 7, 5)
        whole, _, _ = cache.append(k, k)
        cache.truncate(4)
        cache.select(np.array([2, 0, 2, 2]))
        assert cache.nbytes == {None: 1, "float16": 0.5, "int8": 9 / 20}[dtype] * 2 * 4 * 2 * 4 * 5 * 4
        new = drawn(4, 2, 1, 5)
        found, _, offset = cache.append(new, new)
        assert offset == 4
        np.testing.assert_array_equal(found[..., :4, :], whole[[2, 0, 2, 2], :, :4])
        np.testing.assert_allclose(found[..., 4:, :], new, atol=0.06)


def test_a_packing_that_is_not_there() -> None:
    with pytest.raises(ArgumentError, match=r"^dtype must be one of float16, int8, None, but it is 'int4'$"):
        KVCache(dtype="int4")
