"""What a model has read before: the same result, with less computed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.decoder_fixture import byte_tokenizer, random_decoder

import qkv
from qkv.errors import QkvError
from qkv.layers import Rotary
from qkv.models import Decoder, PrefixCache
from qkv.ops.scaling import DynamicNTK, LongRoPE

IDS = np.random.default_rng(2).integers(0, 258, 31).tolist()
STRETCHED = (Rotary(100.0, scaling=DynamicNTK(3.0, 19)),) * 3
LONG = (Rotary(100.0, scaling=LongRoPE((1.0, 1.2), (3.0, 5.0), 19, 2.0)),) * 3
PROMPTS = [IDS[:17], IDS[:23], IDS[:5], IDS[:5] + IDS[20:], IDS[1:9], IDS[1:9], IDS[:29], [7]]


def check(model: Decoder, cache: PrefixCache, ids: list[int], n: int = 1) -> None:
    np.testing.assert_allclose(cache.begin().logits(ids, n), model.logits(ids)[-n:], rtol=0, atol=1e-10)


@pytest.mark.parametrize("changes", [{}, {"windows": (5, None, 3)}, {"rotary": STRETCHED}, {"rotary": LONG}])
def test_each_call_gives_what_a_fresh_one_gives(changes: dict[str, Any]) -> None:
    model = random_decoder(**changes)
    cache = PrefixCache(model)
    for n in (1, 3):
        for ids in PROMPTS[:-1]:
            check(model, cache, ids, n)
    for how in ({}, {"temperature": 1.0, "seed": 3}):
        for ids in PROMPTS:
            expected = model.generate(ids, max_new_tokens=9, **how)
            assert model.generate(ids, max_new_tokens=9, cache=cache, **how) == expected
            assert list(model.stream(ids, max_new_tokens=9, cache=cache, **how)) == expected


def test_how_much_is_reused() -> None:
    model = random_decoder()
    cache, counts = PrefixCache(model), []
    for ids in PROMPTS:
        model.generate(ids, max_new_tokens=1, cache=cache)
        counts.append((cache.n_reused, cache.n_computed))
    assert counts == [(0, 17), (17, 6), (4, 1), (5, 11), (0, 8), (7, 1), (0, 29), (0, 1)]
    assert cache.length == 1
    answer = model.generate(IDS[:17], max_new_tokens=9, cache=cache)
    model.generate([*IDS[:17], *answer, 3, 4], max_new_tokens=3, cache=cache)
    assert (cache.n_reused, cache.n_computed) == (17 + 8, 3)  # the last of the answer was never read
    cache.clear()
    assert (cache.length, cache.nbytes) == (0, 0)


def test_less_is_computed_with_what_is_held() -> None:
    model = random_decoder()
    cache = PrefixCache(model)
    model.generate(IDS[:17], max_new_tokens=1, cache=cache)
    with qkv.record("layers.0.attention.q") as trace:
        model.generate(IDS[:20], max_new_tokens=2, cache=cache)
    assert [value.shape[-2] for value in trace.values()] == [3, 1]


def test_text_and_a_history_that_grows(tmp_path: Path) -> None:
    model, history = random_decoder(n_positions=None), "Q: 你好\nA:"
    model.tokenizer = byte_tokenizer(tmp_path)
    cache = PrefixCache(model)
    for _ in range(4):
        n_before = len(model.tokenizer.encode(history))
        answer = model.generate(history, max_new_tokens=7, cache=cache)
        assert answer == model.generate(history, max_new_tokens=7)
        assert cache.n_reused + cache.n_computed == n_before
        history += answer + "\nQ: again\nA:"
    assert cache.n_reused > 20


def test_sliding_computes_anew_what_moved() -> None:
    model = random_decoder(n_positions=23)
    cache = PrefixCache(model)
    for ids in (IDS[:17], IDS[:20]):
        expected = model.generate(ids, max_new_tokens=31, slide=True)
        assert model.generate(ids, max_new_tokens=31, slide=True, cache=cache) == expected


# edits


def test_nothing_that_was_edited_is_reused() -> None:
    model, change = random_decoder(), {"layers.0.attention.output": qkv.edits.scale(0.1)}
    cache = PrefixCache(model)
    plain = model.generate(IDS[:17], max_new_tokens=9, cache=cache)
    with qkv.edit(change):
        edited = model.generate(IDS[:17], max_new_tokens=9)
        assert model.generate(IDS[:17], max_new_tokens=9, cache=cache) == edited != plain
        assert cache.n_reused == 0
        assert model.generate(IDS[:17], max_new_tokens=9, cache=cache) == edited
        assert cache.n_reused == 0
    assert model.generate(IDS[:17], max_new_tokens=9, cache=cache) == plain
    assert cache.n_reused == 0
    assert model.generate(IDS[:17], max_new_tokens=9, cache=cache) == plain
    assert cache.n_reused == 16


def test_an_edit_in_the_middle_of_a_stream_spoils_what_is_held() -> None:
    model, cache = random_decoder(), PrefixCache(random_decoder())
    cache = PrefixCache(model)
    pieces = model.stream(IDS[:17], max_new_tokens=9, cache=cache)
    next(pieces)
    with qkv.edit({"layers.*.resid_post": qkv.edits.scale(0.3)}):
        next(pieces)
    pieces.close()  # type: ignore[attr-defined]
    assert model.generate(IDS[:17], max_new_tokens=9, cache=cache) == model.generate(IDS[:17], max_new_tokens=9)
    assert cache.n_reused == 0


def test_looking_reuses_and_changes_nothing() -> None:
    model = random_decoder()
    cache = PrefixCache(model)
    model.generate(IDS[:17], max_new_tokens=2, cache=cache)
    with qkv.record() as trace:
        found = model.generate(IDS[:23], max_new_tokens=2, cache=cache)
    assert found == model.generate(IDS[:23], max_new_tokens=2)
    assert trace["step.0.layers.0.attention.weights"].shape == (6, 23 - 17, 23)


# what goes wrong


@pytest.mark.parametrize("stopped", ["layers.1.attention.output", "layers.0.resid_post", "layers.2.attention.weights"])
def test_what_was_broken_off_can_go_on(stopped: str) -> None:
    """Ctrl-C in the middle of a pass leaves some layers ahead of others."""
    model = random_decoder(windows=(5, None, 3))
    cache = PrefixCache(model)
    model.generate(IDS[:17], max_new_tokens=2, cache=cache)

    def interrupt(value: np.ndarray) -> np.ndarray:
        raise KeyboardInterrupt

    for ids in (IDS[:23], IDS[:9] + IDS[20:]):
        with pytest.raises(KeyboardInterrupt), qkv.edit({stopped: interrupt}):
            model.generate(ids, max_new_tokens=2, cache=cache)
        cache._is_edited = False  # as if it had come from the keyboard
        check(model, cache, ids)
        check(model, cache, IDS[:29])


def test_threads_that_share_one_take_turns() -> None:
    model = random_decoder()
    cache = PrefixCache(model)
    prompts = [[start, 2, 3, end] for end in range(7) for start in (5, 6, 7)]
    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(lambda ids: model.generate(ids, max_new_tokens=11, cache=cache), prompts))
    assert found == [model.generate(ids, max_new_tokens=11) for ids in prompts]


def test_what_is_refused() -> None:
    model = random_decoder()
    cache = PrefixCache(model)
    for how, message in (
        ({"cache": PrefixCache(random_decoder())}, "must be a PrefixCache of this model, but one of another model"),
        ({"cache": "yes"}, "cache must be a PrefixCache of this model, but str came"),
        ({"cache": cache, "kv_dtype": "int8"}, "cache cannot be given together with kv_dtype"),
        ({"cache": cache, "n_beams": 3}, "cache cannot be given together with n_beams"),
    ):
        for call in (model.generate, model.stream):
            with pytest.raises(QkvError, match=message):
                call(IDS, **how)  # type: ignore[operator]
    with pytest.raises(QkvError, match="the input must be one prompt, for it has a cache, but a list came"):
        model.generate([IDS, IDS], cache=cache)
    assert model.generate([IDS], max_new_tokens=3, cache=cache) == [model.generate(IDS, max_new_tokens=3)]
