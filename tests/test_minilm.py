"""The real MiniLM against transformers; `scripts/make_minilm_goldens.py` made the values."""

from __future__ import annotations

import numpy as np
import pytest
from tests.models_fixture import DATA, goldens, minilm

import qkv

GOLDENS = goldens(DATA / "minilm_goldens.npz")
SEEN = range(len(GOLDENS["seen"]))
WEIGHTS = 2e-5  # of an attention weight: float32 through six layers; 1e-6 is what was measured


@pytest.mark.parametrize("i", SEEN)
def test_tokens(i: int) -> None:
    tokenizer = minilm().tokenizer
    assert tokenizer is not None
    ids = tokenizer.encode(str(GOLDENS["seen"][i]))
    assert ids == GOLDENS[f"{i}.ids"].tolist()
    assert tokenizer.tokens(ids) == GOLDENS[f"{i}.tokens"].tolist()


@pytest.mark.parametrize("i", SEEN)
def test_attention_maps(i: int) -> None:
    with qkv.record("*.attention.weights") as trace:
        minilm()(str(GOLDENS["seen"][i]))
    weights = np.stack([trace[f"layers.{layer}.attention.weights"] for layer in range(6)])
    assert weights.dtype == np.float32
    np.testing.assert_allclose(weights, GOLDENS[f"{i}.attention"], rtol=0, atol=WEIGHTS)


@pytest.mark.parametrize("i", SEEN)
def test_hidden_states(i: int) -> None:
    with qkv.record() as trace:
        hidden = minilm()(str(GOLDENS["seen"][i]))
    layers = [trace["embeddings.out"], *(trace[f"layers.{layer}.resid_post"] for layer in range(6))]
    np.testing.assert_array_equal(hidden, layers[-1])
    np.testing.assert_allclose(np.stack(layers)[:, :, ::13], GOLDENS[f"{i}.hidden"], rtol=0, atol=2e-5)


@pytest.mark.parametrize("batch_size", [1, 5, 32])
def test_sentence_vectors(batch_size: int) -> None:
    """The last text is longer than the 256 tokens that the model's files allow."""
    vectors = minilm().encode([str(text) for text in GOLDENS["embedded"]], batch_size)
    assert vectors.dtype == np.float32
    expected = GOLDENS["vectors"]
    cosines = (vectors * expected).sum(1) / np.linalg.norm(vectors, axis=1) / np.linalg.norm(expected, axis=1)
    assert cosines.min() >= 0.999999
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=0, atol=1e-6)


def test_only_sentence_vectors_cut_a_text() -> None:
    longest = str(GOLDENS["embedded"][-1])
    tokenizer = minilm().tokenizer
    assert tokenizer is not None
    size = len(tokenizer.encode(longest))
    assert size > 256  # the tokenizer's own file asks for 128
    with pytest.raises(qkv.QkvError, match=f"{2 * size - 2} tokens, but the model takes at most 512"):
        minilm()(longest + " " + longest)


def test_what_is_near_in_meaning_is_near() -> None:
    vectors = minilm().encode([str(text) for text in GOLDENS["embedded"]])
    likeness = vectors @ vectors.T
    assert likeness[4, 5] > 0.75 > likeness[4, 0]
