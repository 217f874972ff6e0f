"""What a walk takes: sentence, sizes, seed, row. Whatever else comes is one line."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import qkv
from qkv.errors import ArgumentError
from qkv.walkthrough.setup import LIMIT, Setup, check_sizes

LEAST = "must be an integer of at least 1, but it is"
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"text": 3}, "text must be a string, but it is 3"),
    ({"text": b"a b"}, "text must be a string, but it is b'a b'"),
    ({"d_model": "a"}, f"d_model {LEAST} 'a'"),
    ({"d_model": True}, f"d_model {LEAST} True"),
    ({"d_model": 2.5}, f"d_model {LEAST} 2.5"),
    ({"d_model": 0}, f"d_model {LEAST} 0"),
    ({"d_k": "a"}, f"d_k {LEAST} 'a'"),
    ({"d_v": -3}, f"d_v {LEAST} -3"),
    ({"heads": 1.0}, f"heads {LEAST} 1.0"),
    ({"seed": 1.5}, "seed must be from 0 to 2^32 - 1, but it is 1.5"),
    ({"seed": True}, "seed must be from 0 to 2^32 - 1, but it is True"),
    ({"seed": -1}, "seed must be from 0 to 2^32 - 1, but it is -1"),
    ({"row": None}, "there is no token None in the sentence; its tokens are: a b"),
    ({"row": [0]}, "there is no token [0] in the sentence; its tokens are: a b"),
    ({"row": 1.0}, "there is no token 1.0 in the sentence; its tokens are: a b"),
    ({"row": True}, "there is no token True in the sentence; its tokens are: a b"),
    ({"row": 2}, "there is no token 2 in the sentence; its tokens are: a b"),
    ({"lang": 3}, "lang must be one of en, zh, but it is 3"),
    ({"causal": "no"}, "causal must be True or False, but it is 'no'"),
    ({"causal": 1}, "causal must be True or False, but it is 1"),
    ({"example": ["cat-mat"]}, "example must be one of apple-tree, cat-mat, but it is ['cat-mat']"),
    ({"rng": ["pcg64"]}, "rng must be one of legacy, pcg64, but it is ['pcg64']"),
    (
        {"d_model": 10**9},
        "X would hold 2000000000 numbers, but an array of a walk may hold 67108864 at most",
    ),
    (
        {"d_model": 10**4, "d_k": 10**6},
        "W_Q would hold 10000000000 numbers, but an array of a walk may hold 67108864 at most",
    ),
    (
        {"text": "a " * 8193},
        "weights would hold 67125249 numbers, but an array of a walk may hold 67108864 at most",
    ),
]


@pytest.mark.parametrize(("changes", "line"), WRONG, ids=[row[1][:40] for row in WRONG])
@pytest.mark.parametrize("call", ["explain", "compare"])
def test_one_line(call: str, changes: dict[str, Any], line: str) -> None:
    given = {"text": "a b"} | changes
    with pytest.raises(ArgumentError) as error:
        qkv.explain(**given) if call == "explain" else qkv.compare(given.pop("text"), "a c", **given)
    assert str(error.value) == line


@pytest.mark.parametrize("text", [None, 3])
def test_the_second_sentence_is_no_less_a_text(text: Any) -> None:
    with pytest.raises(ArgumentError) as error:
        qkv.compare("a b", text)
    assert str(error.value) == f"text must be a string, but it is {text}"


def test_numbers_of_numpy_are_numbers() -> None:
    sizes = {"d_model": 6, "d_k": 5, "d_v": 3, "heads": 2, "seed": 7}
    of_numpy = {name: np.int64(size) for name, size in sizes.items()}
    walk = qkv.explain("a b", **of_numpy, row=np.int64(1), causal=np.True_)
    assert walk.setup == Setup("a b", **sizes, causal=True)
    assert all(type(getattr(walk.setup, name)) is int for name in sizes)
    assert json.loads(walk.to_json()) == json.loads(qkv.explain("a b", **sizes, row=1, causal=True).to_json())


def test_the_largest_walk() -> None:
    check_sizes(Setup("", d_model=LIMIT // 7, d_k=7), 7)
    check_sizes(Setup("", heads=4), 4096)
    with pytest.raises(ArgumentError, match=r"^weights would hold "):
        check_sizes(Setup("", heads=5), 4096)
