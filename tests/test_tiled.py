"""The fast path is the definition: every rule with every other, odd lengths, extreme scores, poison under masks."""

from __future__ import annotations

import importlib
import tracemalloc
from itertools import combinations, product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.onnx_cases import Case, cases
from tests.test_onnx import agree as agree_with_onnx
from tests.test_onnx import called, join_heads
from tests.tiled_cases import LOOKS, SCORES, SMALL_TILES, B, H, N, agree, arrays, defined, draw, tiled

import qkv
from qkv import masks
from qkv.errors import ArgumentError
from qkv.ops import config

# Sums of 131 to 2049 float32 terms; scores up to some 100, whose own rounding the exponential makes relative.
FLOAT32 = 4e-6
TILES = [{}, SMALL_TILES, {"query_tile": 128, "key_tile": 100, "threads": 3}]


@pytest.mark.parametrize(("look", "scores"), list(product(LOOKS, SCORES)))
def test_each_rule_with_each_other(look: str, scores: str) -> None:
    rules = {**LOOKS[look], **SCORES[scores]}
    q, k, v = arrays()
    expected = defined(q, k, v, **rules)
    for settings in TILES[:2]:
        for found, whole in zip(tiled(q, k, v, settings=settings, **rules), expected):
            agree(found, whole, FLOAT32)


@pytest.mark.parametrize(("one", "other"), list(combinations([n for n in LOOKS if "mask" in LOOKS[n]], 2)))
def test_rules_on_positions_combine(one: str, other: str) -> None:
    a, b = LOOKS[one]["mask"], LOOKS[other]["mask"]
    both = {"mask": a & b} if type(a) is type(b) else None
    if both is None:
        rule, array = (a, b) if isinstance(a, masks.Rule) else (b, a)
        both = {"mask": array & rule(np.arange(N), np.arange(N))}
    q, k, v = arrays()
    agree(tiled(q, k, v, settings=SMALL_TILES, **both)[0], defined(q, k, v, **both)[0], FLOAT32)


LENGTHS = [1, 2, 3, 4, 5, 36, 37, 38, 63, 64, 65, 127, 129, 511, 513, 1000, 2049]


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("rules", [{}, {"causal": True}, {"window": 41}], ids=str)
def test_lengths(n: int, rules: dict[str, Any]) -> None:
    q, k, v = draw(3, n, 13), draw(1, n, 13, seed=4), draw(1, n, 7, seed=5)
    expected = defined(q, k, v, **rules)
    for settings in [{}, SMALL_TILES] if n < 200 else [{}]:
        for found, whole in zip(tiled(q, k, v, settings=settings, **rules), expected):
            agree(found, whole, FLOAT32)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64], ids=lambda d: d.__name__)
@pytest.mark.parametrize("look", ["everything", "causal window"])
def test_dtypes(dtype: Any, look: str) -> None:
    q, k, v = arrays(dtype=dtype)
    out, lse = tiled(q, k, v, settings=SMALL_TILES, **LOOKS[look])
    expected = defined(q, k, v, **LOOKS[look])
    assert out.dtype == dtype
    assert lse.dtype == (np.float64 if dtype == np.float64 else np.float32)
    rounding = {2: 1e-3 if dtype == np.float16 else 8e-3, 4: FLOAT32, 8: 1e-14}[out.itemsize]
    agree(out, expected[0], rounding)
    agree(lse, expected[1], 1e-14 if dtype == np.float64 else FLOAT32)


def test_plain_matrices_and_broadcast_batches() -> None:
    q, k, v = draw(5, 1, 4, 71, 9), draw(3, 2, 71, 9), draw(5, 1, 2, 71, 7)
    agree(tiled(q, k, v, settings=SMALL_TILES)[0], defined(q, k, v)[0], FLOAT32)
    assert tiled(q, k, v)[1].shape == defined(q, k, v)[1].shape == (5, 3, 4, 71)
    agree(tiled(q[0, 0, 0], k[0, 0], v[0, 0, 0])[0], defined(q[0, 0, 0], k[0, 0], v[0, 0, 0])[0], FLOAT32)


@pytest.mark.parametrize("shapes", [((2, 5, 3), (2, 0, 3), (2, 0, 7)), ((2, 0, 3), (2, 5, 3), (2, 5, 7)),
                                    ((0, 2, 5, 3), (0, 2, 5, 3), (0, 2, 5, 7))])  # fmt: skip
def test_empty(shapes: Any) -> None:
    out, lse = tiled(*(np.zeros(shape) for shape in shapes))
    assert out.shape == (*shapes[0][:-1], 7)
    np.testing.assert_array_equal(out, 0)
    np.testing.assert_array_equal(lse, -np.inf)


# how large the scores may be


@pytest.mark.parametrize("size", [1, 10, 100, 3000])
@pytest.mark.parametrize("look", ["everything", "causal", "an array", "documents"])
def test_large_scores_find_their_shift(size: float, look: str) -> None:
    q, k, v = arrays(size)
    expected = defined(q, k, v, **LOOKS[look])
    for settings in TILES:
        out, lse = tiled(q, k, v, settings=settings, **LOOKS[look])
        agree(lse, expected[1], FLOAT32)
        agree(out, expected[0], FLOAT32 * size)


@pytest.mark.parametrize("score", [-1e4, -300, -89, -60, -30, 30, 60, 89, 300, 1e4])
@pytest.mark.parametrize("n", [40, 58, 130])
def test_all_scores_far_from_zero_in_half_filled_tiles(score: float, n: int) -> None:
    """exp(-89) is 0 in float32 and exp(89) infinite: neither loses a row. 58 is two tiles of 29, 40 one and a bit."""
    q, k, v = np.full((n, 2), score / 2, np.float32), np.ones((n, 2), np.float32), draw(n, 5)
    for rules in ({"scale": 1.0}, {"scale": 1.0, "causal": True}):
        out, lse = tiled(q, k, v, settings=SMALL_TILES, **rules)
        expected = defined(q, k, v, **rules)
        agree(out, expected[0], FLOAT32)
        agree(lse, expected[1], FLOAT32)


@pytest.mark.parametrize("rising", [1, -1])
def test_a_row_that_grows_from_tile_to_tile(rising: int) -> None:
    """Each tile is larger than the one before by more than float32 can hold, in either direction."""
    n = 203
    k = np.repeat(np.arange(n // 29 + 1, dtype=np.float32), 29)[:n, None] * 200 * rising
    q, v = np.ones((41, 1), np.float32), draw(n, 5)
    for settings in TILES:
        out, lse = tiled(q, k, v, settings=settings)
        expected = defined(q, k, v)
        agree(out, expected[0], FLOAT32)
        agree(lse, expected[1], FLOAT32)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("size", [1, 300])
def test_a_tile_in_which_a_row_sees_nothing_before_or_after_one_in_which_it_does(first: bool, size: float) -> None:
    q, k, v = arrays(size)
    mask = np.ones((N, N), bool)
    mask[::3, : N // 2] = first
    mask[::3, N // 2 :] = not first
    mask[5] = False
    out, lse = tiled(q, k, v, settings=SMALL_TILES, mask=mask)
    expected = defined(q, k, v, mask=mask)
    agree(out, expected[0], FLOAT32 * size)
    agree(lse, expected[1], FLOAT32)
    np.testing.assert_array_equal(out[:, :, 5], 0)


# what may and may not show


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("settings", TILES[:2], ids=str)
@pytest.mark.parametrize("look", sorted(LOOKS.keys() - {"everything"}))
def test_a_hidden_key_changes_no_bit(look: str, settings: dict[str, Any], bad: float) -> None:
    rules = {**LOOKS[look], "softcap": 3.0} if settings else LOOKS[look]
    q, k, v = arrays()
    with config(force="dense"):
        weights = qkv.attention(q, k, v, return_weights=True, **rules)[1]
    poison = [np.array(x) for x in (k, v)]
    for x in poison:
        x[:, :, 70] = bad
    unseen = weights[..., 70] == 0
    clean, dirty = tiled(q, k, v, settings=settings, **rules), tiled(q, *poison, settings=settings, **rules)
    for a, b in zip(clean, dirty):
        assert a[unseen].tobytes() == b[unseen].tobytes()
    if bad != 3e38:
        assert np.isnan(dirty[0][~unseen]).all() or not np.isnan(bad)
        agree(dirty[0], defined(q, *poison, **rules)[0], FLOAT32)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_infinite_value_shows_as_the_definition_says(bad: float) -> None:
    q, k, v = arrays()
    v[:, :, 70, 3] = bad
    out, _ = tiled(q, k, v, settings=SMALL_TILES, causal=True)
    agree(out, defined(q, k, v, causal=True)[0], FLOAT32)
    assert np.isfinite(out[:, :, :70]).all()
    assert not np.isfinite(out[:, :, 70:, 3]).any()


@pytest.mark.parametrize("sign", [1, -1])
def test_visible_scores_that_overflow_are_nan(sign: int) -> None:
    q, k, v = np.full((71, 3), 1e30, np.float32), np.full((71, 3), sign * 1e30, np.float32), draw(71, 5)
    q[10:] = 1e-30
    out, lse = tiled(q, k, v, settings=SMALL_TILES)
    assert np.isnan(out[:10]).all()
    assert np.isnan(lse[:10]).all()
    assert np.isfinite(out[10:]).all()


# what must not matter


@pytest.mark.parametrize("look", ["everything", "causal", "blocks"])
def test_tiles_and_threads_change_nothing_beyond_rounding(look: str) -> None:
    q, k, v = arrays(3, np.float64)
    whole = tiled(q, k, v, **LOOKS[look])
    for settings in (
        {"query_tile": a, "key_tile": b, "threads": t} for a, b, t in product((1, 8, 200), (5, 200), (1, 4))
    ):
        for found, expected in zip(tiled(q, k, v, settings=settings, **LOOKS[look]), whole):
            agree(found, expected, 3e-15)


@pytest.mark.parametrize("Tq", [1, 2, 4, 16])
@pytest.mark.parametrize("rules", [{}, {"window": 300}, {"sinks": np.linspace(-1, 5, 8)}], ids=str)
def test_decoding_splits_the_keys(Tq: int, rules: dict[str, Any]) -> None:
    """Few queries, many keys: heads that share keys are stacked, keys are split over the threads and merged."""
    q, k, v = draw(1, 8, Tq, 32), draw(1, 2, 1009, 32, seed=4), draw(1, 2, 1009, 32, seed=5)
    rules = {**rules, "causal": True, "offset": 1009 - Tq}
    expected = defined(q, k, v, **rules)
    for settings in ({"threads": 1}, {"threads": 5}, {"threads": 5, "key_tile": 64}):
        for found, whole in zip(tiled(q, k, v, settings=settings, **rules), expected):
            agree(found, whole, FLOAT32)


def test_arguments_are_not_changed() -> None:
    given = arrays()
    copies = [x.copy() for x in given]
    tiled(*given, settings=SMALL_TILES, **LOOKS["causal"], **SCORES["a bias of keys"])
    for x, copy in zip(given, copies):
        assert x.tobytes() == copy.tobytes()


def test_memory_does_not_grow_with_the_scores() -> None:
    """2048 x 2048 booleans alone would be 4.2 MB for each head; eight heads of float32 scores 134 MB."""
    q, k, v = (draw(1, 8, 2048, 16, seed=seed) for seed in (1, 2, 3))
    rules = {"causal": True, "window": 500, "bias": qkv.biases.alibi(8)}
    tiled(q, k, v, **rules)
    tracemalloc.start()
    tiled(q, k, v, **rules)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - q.nbytes < 4e6


def test_a_rule_that_ignores_the_positions_it_is_asked_for_is_taken_as_a_table() -> None:
    q, k, v = arrays()
    table = np.random.default_rng(1).random((N, N)) < 0.5
    found = tiled(q, k, v, settings=SMALL_TILES, mask=masks.custom(lambda i, j: table))
    agree(found[0], defined(q, k, v, mask=table)[0], FLOAT32)


def test_a_rule_that_does_not_know_a_position_says_so_before_anything_is_computed() -> None:
    q, k, v = arrays()
    with pytest.raises(ArgumentError, match="ids reaches position 130, but 50 positions are known"):
        tiled(q, k, v, mask=masks.documents(np.zeros(50, int), np.zeros(N, int)))


# which path is taken


def test_who_watches_gets_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    module = importlib.import_module("qkv.ops.attention")  # the name in the package is the function
    monkeypatch.setattr(module, "tiled", lambda call: taken.append(call) or ("out", "lse"))
    q, k, v = (draw(1, 8, 200, 16, seed=seed) for seed in (1, 2, 3))
    assert qkv.attention(q, k, v) == "out"
    assert qkv.attention(q, k, v, return_lse=True) == ("out", "lse")
    assert len(taken) == 2
    qkv.attention(q, k, v, return_weights=True)
    with qkv.record():
        qkv.attention(q, k, v)
    with config(force="dense"):
        qkv.attention(q, k, v)
    qkv.attention(q[..., :9, :], k[..., :9, :], v[..., :9, :])
    assert len(taken) == 2
    with config(force="tiled"):
        qkv.attention(q[..., :9, :], k[..., :9, :], v[..., :9, :])
    assert len(taken) == 3


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"tiles": 3}, "config must be one of force, key_tile, query_tile, threads, but it is 'tiles'"),
        ({"force": "fast"}, "force must be one of None, 'dense', 'tiled', but it is 'fast'"),
        ({"threads": 0}, "threads must be a count of at least 1, or None, but it is 0"),
    ],
)
def test_a_wrong_setting_is_one_line(wrong: dict[str, Any], line: str) -> None:
    with pytest.raises(ArgumentError) as error, config(**wrong):
        pass
    assert str(error.value) == line


@pytest.mark.parametrize("case", cases("Attention"), ids=repr)
def test_onnx_again(case: Case) -> None:
    (q, k, v), asked = called(case)
    with config(force="tiled", query_tile=3, key_tile=5):
        out = qkv.attention(q, k, v, **asked)
    others = case.outputs.keys() - {"Y"}
    agree_with_onnx(case, others, Y=join_heads(out) if case.inputs["Q"].ndim == 3 else out)


def test_the_sizes_that_the_cases_are_made_for() -> None:
    assert (B, H, N) == (2, 6, 131)
    assert all(N % size for size in SMALL_TILES.values())


@pytest.mark.parametrize("n_queries", [1, 2, 3, 6, 7])
def test_a_few_queries_for_a_long_cache(n_queries: int) -> None:
    """The definition multiplies a few queries one by one, more of them at once: both are the formula."""
    rng = np.random.default_rng(n_queries)
    q, k, v = (rng.normal(size=(2, n, T, 64)) for n, T in ((3 * n_queries, 1), (3, 521), (3, 521)))
    repeated = [np.repeat(x, n_queries, axis=1) for x in (k, v)]
    scores = q @ repeated[0].mT / 8
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    expected = weights / weights.sum(axis=-1, keepdims=True) @ repeated[1]
    np.testing.assert_allclose(qkv.attention(q, k, v), expected, rtol=1e-11, atol=1e-13)
