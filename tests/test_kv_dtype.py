"""Keys and values in fewer bits, through a whole model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.decoder_fixture import random_decoder, tiny

from qkv.errors import QkvError
from qkv.models import PrefixCache

IDS = np.random.default_rng(2).integers(0, 258, 31)


@pytest.mark.parametrize("changes", [{}, {"windows": (5, None, 3)}])
@pytest.mark.parametrize(("dtype", "error"), [("float16", 0.1), ("int8", 0.6)])
def test_the_logits_hardly_move_and_in_chunks_not_at_all(changes: dict[str, Any], dtype: str, error: float) -> None:
    model = random_decoder(**changes)
    caches, plain = model.new_caches(dtype), model.new_caches()
    parts = [model.logits(part, caches) for part in np.split(IDS, [1, 2, 13, 14])]
    expected = model.logits(IDS, plain)
    moved = np.abs(np.concatenate(parts) - expected).max()
    assert error / 1000 < moved < error < np.abs(expected).max() / 3
    once = model.logits(IDS, model.new_caches(dtype))
    np.testing.assert_allclose(np.concatenate(parts), once, rtol=0, atol=1e-9)


def test_memory() -> None:
    model, rows = random_decoder(), 3 * 2 * 2 * 31
    sizes = {}
    for dtype in (None, "float16", "int8"):
        caches = model.new_caches(dtype)
        model.logits(IDS, caches)
        sizes[dtype] = caches.nbytes
    assert sizes == {None: rows * 4 * 8, "float16": rows * 4 * 2, "int8": rows * (4 + 4)}
    assert caches.n_seen == 31
    cache = PrefixCache(model, "int8")
    model.generate(IDS, max_new_tokens=1, cache=cache)
    assert cache.nbytes == sizes["int8"]


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_generating_with_few_bits(dtype: str) -> None:
    model, ids = tiny("llama"), (IDS % 67).tolist()[:13]
    caches = model.new_caches(dtype)
    last = model.logits(ids, caches)[-1]
    expected: list[int] = []
    for _ in range(9):
        expected.append(int(last.argmax()))
        last = model.logits(expected[-1:], caches)[-1]
    assert model.generate(ids, max_new_tokens=9, kv_dtype=dtype) == expected
    assert list(model.stream(ids, max_new_tokens=9, kv_dtype=dtype)) == expected
    both = model.generate([ids, ids[:5]], max_new_tokens=9, kv_dtype=dtype)
    assert both == [expected, model.generate(ids[:5], max_new_tokens=9, kv_dtype=dtype)]
    assert model.generate(ids, max_new_tokens=9, kv_dtype=dtype, cache=None, n_beams=3)


def test_another_packing_is_refused() -> None:
    with pytest.raises(QkvError, match="kv_dtype must be one of float16, int8, None, but it is 'int4'"):
        random_decoder().generate(IDS, kv_dtype="int4")
