"""llama.cpp as a second witness of SmolLM2: it computes with the 4-bit numbers, we with what they stand for."""

from __future__ import annotations

import functools
import json
from typing import Any

import numpy as np
import pytest
from tests.gguf_fixture import smollm2, smollm2_file
from tests.models_fixture import DATA

llama_cpp = pytest.importorskip("llama_cpp")

KNOWN = json.loads((DATA / "smollm2_goldens.json").read_text())
PROMPTS = [known["prompt"] for known in KNOWN["greedy"]]


@functools.cache
def witness() -> Any:
    return llama_cpp.Llama(str(smollm2_file()), n_ctx=256, n_threads=2, logits_all=True, verbose=False)


def tokens(text: str) -> list[int]:
    return witness().tokenize(text.encode(), add_bos=False, special=True)


def test_the_ids_of_200_texts() -> None:
    """Byte 0 ends a text for llama.cpp's reader of strings, not for its tokenizer: the length is given."""
    tokenizer = smollm2().tokenizer
    assert tokenizer is not None
    assert {text: tokenizer.encode(text) for text in KNOWN["texts"]} == {text: tokens(text) for text in KNOWN["texts"]}


@pytest.mark.parametrize("prompt", PROMPTS)
def test_logits(prompt: str) -> None:
    """Its products round each vector to 8 bits, so the logits can only be near.

    The other layout of the rotation, a missing norm or another scale shows; another base, by less than four times,
    does not: that is for the comparison with transformers.
    """
    ids = tokens(prompt)
    witness().reset()
    witness().eval(ids)
    theirs, ours = witness().scores[: len(ids)], smollm2().logits(ids)
    centred = [x - x.mean(axis=-1, keepdims=True) for x in (theirs, ours)]
    norms = [np.linalg.norm(x, axis=-1) for x in centred]
    cosine = (centred[0] * centred[1]).sum(axis=-1) / (norms[0] * norms[1])
    same = (theirs.argmax(axis=-1) == ours.argmax(axis=-1)).mean()
    print(f"{prompt[:20]!r}: cosine at least {cosine.min():.4f}, the same first choice {same:.0%}")
    assert cosine.min() > 0.995
    assert same > 0.8


def test_the_capital_of_france() -> None:
    answer = witness().create_completion("The capital of France is", max_tokens=5, temperature=0)
    assert answer["choices"][0]["text"] == smollm2().generate("The capital of France is", max_new_tokens=5)
