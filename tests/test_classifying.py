"""The labels of a text, by a decoder with a head for whole texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.decoder_fixture import Copy, byte_tokenizer, known, tiny

import qkv
from qkv.errors import ArgumentError, FileError
from qkv.models import Decoder

LABELS = {"0": "bad", "1": "so so", "2": "good"}
W = np.random.default_rng(13).normal(size=(3, 20)).astype(np.float32)


def classifier(directory: Path, family: str = "llama", W: np.ndarray = W, **changes: Any) -> Decoder:
    """A tiny decoder whose head was exchanged."""
    copy = Copy(directory, family)
    kept = {name: value for name, value in copy.tensors().items() if not name.startswith("lm_head")}
    copy.write(kept | {"score.weight": W})
    (name,) = copy.settings()["architectures"]
    inner = name.removesuffix("ForCausalLM").removesuffix("LMHeadModel")
    copy.config(**{"architectures": [f"{inner}ForSequenceClassification"], "id2label": LABELS, **changes})
    return copy.load()


def expected(hidden: np.ndarray) -> dict[str, float]:
    logits = W.astype(np.float64) @ hidden
    return dict(zip(LABELS.values(), np.exp(logits) / np.exp(logits).sum()))


@pytest.mark.parametrize("family", ["llama", "gpt2", "qwen2", "gemma", "deepseek_v3"])
def test_a_text_gets_the_labels_of_its_last_token(family: str, tmp_path: Path) -> None:
    model, ids = classifier(tmp_path, family), known(family)["23.ids"]
    assert model.classify(ids) == pytest.approx(expected(tiny(family)(ids)[-1]), abs=1e-5)
    several = model.classify([ids[:5], ids, ids[:1]])
    for found, part in zip(several, (ids[:5], ids, ids[:1])):
        assert found == pytest.approx(expected(tiny(family)(part)[-1]), abs=1e-5)


def test_padding_at_the_end_is_no_last_token(tmp_path: Path) -> None:
    model, hidden = classifier(tmp_path, pad_token_id=7), tiny("llama")([3, 1, 4, 7, 7])
    assert model.classify([3, 1, 4, 7, 7]) == pytest.approx(expected(hidden[2]), abs=1e-5)
    assert model.classify([7, 7]) == pytest.approx(expected(tiny("llama")([7])[0]), abs=1e-5)


def test_several_labels_at_once_and_a_number(tmp_path: Path) -> None:
    model = classifier(tmp_path / "several", problem_type="multi_label_classification")
    logits = W @ tiny("llama")([3, 1, 4])[-1]
    found = model.classify([3, 1, 4])
    np.testing.assert_allclose(list(found.values()), 1 / (1 + np.exp(-logits)), rtol=0, atol=1e-5)
    single = classifier(tmp_path / "one", W=W[:1], id2label={"0": "stars"})
    assert single.classify([3, 1, 4]) == pytest.approx({"stars": float(logits[0])}, abs=1e-4)


def test_a_text_is_read_by_the_tokenizer(tmp_path: Path) -> None:
    model = classifier(tmp_path)
    model.tokenizer = byte_tokenizer(tmp_path)
    ids = model.tokenizer.encode("!!")
    assert model.classify("!!") == model.classify(ids)
    with pytest.raises(ArgumentError, match="but a pair of texts came"):
        model.classify(("!", "!"))


def test_the_head_can_be_watched_and_edited(tmp_path: Path) -> None:
    model = classifier(tmp_path)
    with qkv.record("classifier.*") as trace:
        model.classify([3, 1, 4])
    assert trace["classifier.logits"].shape == (1, 3)
    with qkv.edit({"classifier.logits": lambda logits: logits * 0}):
        assert list(model.classify([3, 1, 4]).values()) == pytest.approx([1 / 3] * 3)


def test_what_is_refused(tmp_path: Path) -> None:
    model = classifier(tmp_path / "tied", "qwen2")
    with pytest.raises(ArgumentError, match="came without a head"):
        model.generate([3, 1, 4])
    with pytest.raises(FileError, match="has no head that classifies"):
        tiny("llama").classify([3, 1, 4])
    with pytest.raises(FileError, match=r"'score\.weight' must have shape \(3, 20\), but its shape is \(2, 20\)"):
        classifier(tmp_path / "shape", W=W[:2])
    with pytest.raises(FileError, match="'id2label' must be a name for each number from 0"):
        classifier(tmp_path / "names", id2label={"1": "good"})
