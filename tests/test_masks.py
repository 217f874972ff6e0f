"""Rules on positions, each against a slow loop; and that no key range is ever too narrow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import qkv
from qkv import masks
from qkv.errors import ArgumentError, DtypeError, ShapeError
from qkv.ops.masks import Rule

IDS = np.array([3, 3, 5, 3, 9, 9, 5, 1, 1, 1, 3])
BLOCKS = np.array([[1, 0, 1], [0, 1, 0], [0, 0, 0], [1, 1, 1]], bool)
Seen = Callable[[int, int], bool]

# (rule, the same in words of two numbers). The last key that a table knows is 10, the last query 10 or 15.
CASES: dict[str, tuple[Rule, Seen]] = {
    "causal": (masks.causal(), lambda i, j: j <= i),
    "window(3)": (masks.window(3), lambda i, j: 0 <= i - j <= 3),
    "window(2, 1)": (masks.window(2, 1), lambda i, j: -1 <= i - j <= 2),
    "window(0, 4)": (masks.window(0, 4), lambda i, j: -4 <= i - j <= 0),
    "window(None, 2)": (masks.window(None, 2), lambda i, j: j - i <= 2),
    "window(2, None)": (masks.window(2, None), lambda i, j: i - j <= 2),
    "window(None, None)": (masks.window(None, None), lambda i, j: True),
    "padding": (masks.padding(7), lambda i, j: j < 7),
    "padding 0": (masks.padding(0), lambda i, j: False),
    "prefix": (masks.prefix(4), lambda i, j: j < 4),
    "prefix LM": (masks.causal() | masks.prefix(3), lambda i, j: j <= i or j < 3),
    "documents": (masks.documents(IDS), lambda i, j: bool(IDS[i] == IDS[j])),
    "documents of two": (masks.documents(IDS, IDS[::-1]), lambda i, j: bool(IDS[10 - i] == IDS[j])),
    "blocks": (masks.block_sparse(BLOCKS, 4), lambda i, j: bool(BLOCKS[i // 4, j // 4])),
    "custom": (masks.custom(lambda i, j: (i + j) % 3 == 0), lambda i, j: (i + j) % 3 == 0),
    "causal documents": (
        masks.causal() & masks.documents(IDS), lambda i, j: j <= i and bool(IDS[i] == IDS[j]),
    ),
    "not causal": (~masks.causal(), lambda i, j: j > i),
    "not a window": (~masks.window(2, 1), lambda i, j: not -1 <= i - j <= 2),
    "twice not": (~~masks.window(2, 1), lambda i, j: -1 <= i - j <= 2),
    "both of three": (
        (masks.window(5) | masks.prefix(2)) & ~masks.documents(IDS),
        lambda i, j: (0 <= i - j <= 5 or j < 2) and bool(IDS[i] != IDS[j]),
    ),
}  # fmt: skip
each_case = pytest.mark.parametrize("name", CASES)


@each_case
@pytest.mark.parametrize("offset", [0, 4])
def test_a_rule_against_a_loop(name: str, offset: int) -> None:
    rule, seen = CASES[name]
    i, j = np.arange(offset, offset + 7), np.arange(11)
    found = rule(i, j)
    expected = np.array([[seen(a, b) for b in range(11)] for a in range(offset, offset + 7)])
    assert found.dtype == bool
    np.testing.assert_array_equal(np.broadcast_to(found, (7, 11)), expected)


@each_case
@pytest.mark.parametrize("offset", [0, 4])
def test_attention_follows_the_rule(name: str, offset: int) -> None:
    rule, seen = CASES[name]
    rng = np.random.default_rng(1)
    q, k, v = rng.normal(size=(2, 7, 3)), rng.normal(size=(2, 11, 3)), rng.normal(size=(2, 11, 5))
    mask = np.array([[seen(i, j) for j in range(11)] for i in range(offset, offset + 7)])
    expected = qkv.attention(q, k, v, mask=mask)
    np.testing.assert_array_equal(qkv.attention(q, k, v, mask=rule, offset=offset), expected)


def test_queries_before_the_first_key() -> None:
    """Rules that read no table know every position, also negative ones."""
    i = np.arange(-3, 4)
    for name in ("causal", "window(3)", "window(2, 1)", "window(None, 2)", "prefix", "padding", "prefix LM"):
        rule, seen = CASES[name]
        expected = [[seen(a, b) for b in range(5)] for a in i]
        np.testing.assert_array_equal(np.broadcast_to(rule(i, np.arange(5)), (7, 5)), expected)


# key ranges

ROWS = [
    masks.causal(), masks.padding(5), masks.padding(0), masks.padding([3, 7]), masks.prefix(4), masks.prefix(0),
    masks.documents(IDS), masks.documents(IDS, IDS[::-1]), masks.documents(np.stack([IDS, IDS[::-1]])),
    masks.block_sparse(BLOCKS, 4), masks.custom(lambda i, j: (i * j) % 5 == 1),
    masks.custom(lambda i, j: j == i // 2, range=lambda first, last, n: (first // 2, last // 2 + 1)),
]  # fmt: skip
sides = st.none() | st.integers(0, 12)
rules = st.recursive(
    st.sampled_from(ROWS) | st.builds(masks.window, sides, sides) | st.builds(masks.prefix, st.integers(0, 14)),
    lambda inner: (
        st.builds(lambda a, b: a & b, inner, inner)
        | st.builds(lambda a, b: a | b, inner, inner)
        | st.builds(lambda a: ~a, inner)
    ),
    max_leaves=5,
)


def seen_keys(rule: Rule, first: int, last: int, n_keys: int) -> np.ndarray:
    visible = rule(np.arange(first, last + 1), np.arange(n_keys))
    visible = np.broadcast_to(visible, np.broadcast_shapes(visible.shape, (last + 1 - first, n_keys)))
    return np.flatnonzero(visible.any(axis=tuple(range(visible.ndim - 1))))


@settings(max_examples=300, derandomize=True, deadline=None)
@given(rules, st.integers(0, 10), st.integers(1, 11), st.integers(0, 11))
def test_a_key_range_is_never_too_narrow(rule: Rule, first: int, size: int, n_keys: int) -> None:
    last = min(first + size - 1, 10)
    start, stop = rule.key_range(first, last, n_keys)
    assert 0 <= start <= stop <= n_keys
    seen = seen_keys(rule, first, last, n_keys)
    assert set(seen) <= set(range(start, stop)), rule.name


@settings(max_examples=100, derandomize=True, deadline=None)
@given(sides, sides, st.integers(-9, 9), st.integers(1, 7), st.integers(0, 11))
def test_nor_for_queries_before_the_first_key(left: Any, right: Any, first: int, size: int, n_keys: int) -> None:
    for rule in (
        masks.window(left, right),
        masks.causal() & masks.window(left, right),
        masks.causal() | ~masks.causal(),
    ):
        start, stop = rule.key_range(first, first + size - 1, n_keys)
        assert set(seen_keys(rule, first, first + size - 1, n_keys)) <= set(range(start, stop)), rule.name


@pytest.mark.parametrize(
    ("rule", "run", "expected"),
    [
        (masks.causal(), (3, 5, 11), (0, 6)),
        (masks.causal(), (-5, -2, 11), (0, 0)),
        (masks.window(2), (3, 5, 11), (1, 6)),
        (masks.window(2, 1), (9, 10, 11), (7, 11)),
        (masks.padding(7), (3, 5, 11), (0, 7)),
        (masks.prefix(3), (3, 5, 11), (0, 3)),
        (masks.documents([0, 0, 1, 1, 2]), (2, 3, 5), (2, 4)),
        (masks.block_sparse(BLOCKS, 4), (4, 7, 11), (4, 8)),
        (masks.block_sparse(BLOCKS, 4), (8, 11, 11), (0, 0)),
        (masks.causal() & masks.window(2, 5), (3, 5, 11), (1, 6)),
        (masks.window(1) | masks.prefix(2), (6, 7, 11), (0, 8)),
        (masks.padding(0) | masks.window(1), (6, 7, 11), (5, 8)),
        (~masks.causal(), (3, 5, 11), (0, 11)),
    ],
    ids=lambda x: x.name if isinstance(x, Rule) else str(x),
)
def test_a_key_range_is_narrow_enough_to_be_of_use(rule: Rule, run: Any, expected: tuple[int, int]) -> None:
    assert rule.key_range(*run) == expected


# per member of the batch


@pytest.mark.parametrize("lead", [(2,), (2, 3)], ids=str)
def test_padding_per_member(lead: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    q, k, v = (rng.normal(size=(*lead, *s)) for s in ((3, 5, 7), (3, 11, 7), (3, 11, 2)))
    lengths = rng.integers(0, 12, lead)
    found = qkv.attention(q, k, v, mask=masks.padding(lengths))
    for b in np.ndindex(lead):
        np.testing.assert_allclose(
            found[b], qkv.attention(q[b], k[b], v[b], mask=np.arange(11) < lengths[b]), atol=1e-14
        )


@pytest.mark.parametrize("lead", [(2,), (2, 3)], ids=str)
@pytest.mark.parametrize("offset", ["one", "per member", "per last axis", "size 1"])
def test_documents_per_member(lead: tuple[int, ...], offset: str) -> None:
    rng = np.random.default_rng(3)
    q, k, v = (rng.normal(size=(*lead, *s)) for s in ((3, 5, 7), (3, 11, 7), (3, 11, 2)))
    ids = rng.integers(0, 3, (*lead, 11))
    starts: Any = {
        "one": 4, "per member": rng.integers(0, 6, lead), "per last axis": rng.integers(0, 6, lead[-1:]),
        "size 1": np.full((1,) * len(lead), 2),
    }[offset]  # fmt: skip
    found = qkv.attention(q, k, v, mask=masks.documents(ids), offset=starts, causal=True)
    each = np.broadcast_to(starts, lead)
    for b in np.ndindex(lead):
        i, j = np.arange(5)[:, None] + each[b], np.arange(11)
        mask = (ids[b][i] == ids[b][j]) & (j <= i)
        np.testing.assert_allclose(found[b], qkv.attention(q[b], k[b], v[b], mask=mask), atol=1e-14)


def test_one_table_of_documents_for_members_at_different_offsets() -> None:
    rng = np.random.default_rng(4)
    q, k, v = (rng.normal(size=(2, 3, n, 7)) for n in (5, 11, 11))
    found = qkv.attention(q, k, v, mask=masks.documents(IDS), offset=[1, 6])
    for b, start in enumerate((1, 6)):
        mask = IDS[start : start + 5, None] == IDS
        np.testing.assert_allclose(found[b], qkv.attention(q[b], k[b], v[b], mask=mask), atol=1e-14)


def test_a_rule_per_member_joined_with_one_for_all() -> None:
    lengths, i, j = np.array([2, 5, 0]), np.arange(4), np.arange(5)
    for rule, expected in (
        (masks.causal() & masks.padding(lengths), lambda i, j, n: j <= i and j < n),
        (masks.padding(lengths) | masks.window(0), lambda i, j, n: j < n or i == j),
        (~masks.padding(lengths), lambda i, j, n: j >= n),
    ):
        found = np.broadcast_to(rule(i, j), (3, 1, 4, 5))
        for b, n in enumerate(lengths):
            np.testing.assert_array_equal(found[b, 0], [[expected(x, y, n) for y in j] for x in i])
        assert rule.n_batch_axes == 1


def test_names_say_how_a_rule_was_made() -> None:
    assert ((masks.causal() & ~masks.padding(3)) | masks.window(2, None)).name == (
        "((causal & ~padding) | window(2, None))"
    )


# wrong calls


@pytest.mark.parametrize(
    ("call", "kind", "line"),
    [
        (lambda: masks.window(-1), ArgumentError, "left must be an integer of at least 0, or None, but it is -1"),
        (lambda: masks.window(1, 2.0), ArgumentError, "right must be an integer of at least 0, or None, but it is 2.0"),
        (lambda: masks.window(True), ArgumentError, "left must be an integer of at least 0, or None, but it is True"),
        (lambda: masks.padding([3, -2]), ArgumentError, "lengths must be a number of at least 0, but it is -2"),
        (lambda: masks.padding([[1], [2, 3]]), ShapeError, "lengths is no array: its rows are not of one length"),
        (lambda: masks.prefix(1.5), ArgumentError, "n must be an integer of at least 0, but it is 1.5"),
        (lambda: masks.prefix(-1), ArgumentError, "n must be an integer of at least 0, but it is -1"),
        (
            lambda: masks.block_sparse([[True]], 2.0),
            ArgumentError,
            "size must be an integer of at least 1, but it is 2.0",
        ),
        (lambda: masks.documents(5), ShapeError, "ids must have at least 1 axes (*B, n), but its shape is ()"),
        (
            lambda: masks.documents(np.ma.masked_array([1, 2], [True, False])),
            DtypeError,
            "ids is a masked array, whose mask would be ignored; give ids.data, or ids.filled(...)",
        ),
        (
            lambda: masks.custom(lambda i, j: [[True], [True, False]])([1], [1]),
            ShapeError,
            "the rule custom is no array: its rows are not of one length",
        ),
        (
            lambda: masks.causal() and masks.padding(3),
            ArgumentError,
            "the rule causal is neither true nor false; combine rules with & | ~, not with and, or, not",
        ),
        (
            lambda: not (masks.causal() | masks.prefix(2)),
            ArgumentError,
            "the rule (causal | prefix(2)) is neither true nor false; combine rules with & | ~, not with and, or, not",
        ),
        (lambda: masks.padding([1.5]), DtypeError, "lengths must be integer, but its dtype is float64"),
        (lambda: masks.documents([True]), DtypeError, "ids must be integer, but its dtype is bool"),
        (lambda: masks.documents([1], [1.0]), DtypeError, "query_ids must be integer, but its dtype is float64"),
        (lambda: masks.block_sparse([[1]], 2), DtypeError, "blocks must be boolean, but its dtype is int64"),
        (lambda: masks.block_sparse([True], 2), ShapeError, "blocks must have shape (n, m), but its shape is (1,)"),
        (lambda: masks.block_sparse([[True]], 0), ArgumentError, "size must be an integer of at least 1, but it is 0"),
        (
            lambda: masks.documents(IDS)(range(11), range(12)),
            ArgumentError,
            "ids reaches position 11, but 11 positions are known",
        ),
        (
            lambda: masks.documents(IDS)([-1], range(3)),
            ArgumentError,
            "query_ids reaches position -1, but 11 positions are known",
        ),
        (
            lambda: masks.block_sparse(BLOCKS, 4)([16], [0]),
            ArgumentError,
            "the query reaches position 16, but 16 positions are known",
        ),
        (
            lambda: masks.block_sparse(BLOCKS, 4)([0], [12]),
            ArgumentError,
            "the key reaches position 12, but 12 positions are known",
        ),
        (
            lambda: masks.custom(lambda i, j: i - j, name="far")([1], [1]),
            DtypeError,
            "the rule far must be boolean, but its dtype is int64",
        ),
        (
            lambda: masks.causal() & np.ones((3, 3), bool),
            DtypeError,
            "the right side of & must be a rule, but its dtype is ndarray",
        ),
        (lambda: masks.causal() | True, DtypeError, "the right side of | must be a rule, but its dtype is bool"),
    ],
)
def test_one_line(call: Callable[[], Any], kind: type[Exception], line: str) -> None:
    with pytest.raises(kind) as error:
        call()
    assert str(error.value) == line


def test_a_rule_that_does_not_fit_the_call() -> None:
    x = np.ones((2, 3, 5, 7))
    with pytest.raises(ShapeError, match=r"^mask has shape \(3, 1, 1, 5\), which does not broadcast to the scores"):
        qkv.attention(x, x, x, mask=masks.padding([1, 2, 3]))
