"""The same random encoders in transformers and here, made on the spot: settings that the files in git do not cover."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.encoder_fixture import head_logits

from qkv.models import load

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from scripts.make_tiny_encoders import FAMILIES, MODELS, computed, made, randomised  # noqa: E402  (needs torch)

CLOSE = 1e-4
LENGTHS = (1, 5, 17, 41)
LOCAL = ["sliding_attention"] * 5
LINEAR = {"rope_type": "linear", "factor": 2.5, "rope_theta": 500.0}
YARN = {"rope_type": "yarn", "factor": 3.0, "original_max_position_embeddings": 11, "rope_theta": 50.0}

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in MODELS),
    ("bert-fill", {"hidden_act": "relu", "tie_word_embeddings": False}),
    ("bert-fill", {"hidden_act": "gelu_new", "num_attention_heads": 1, "type_vocab_size": 3}),
    ("bert-classify", {"problem_type": "regression", "hidden_act": "silu"}),
    ("roberta-fill", {"pad_token_id": 5, "max_position_embeddings": 47, "type_vocab_size": 2}),
    ("roberta-fill", {"pad_token_id": 0, "max_position_embeddings": 42, "tie_word_embeddings": False}),
    ("roberta-fill", {"hidden_act": "relu"}),
    ("distilbert-fill", {"activation": "relu", "sinusoidal_pos_embds": True, "tie_word_embeddings": False}),
    ("distilbert-classify", {"num_labels": 7, "n_heads": 2}),
    ("electra-fill", {"embedding_size": 20, "tie_word_embeddings": False}),
    ("electra-fill", {"embedding_size": 31, "hidden_act": "gelu"}),
    ("electra-detect", {"hidden_act": "relu"}),
    ("modernbert-fill", {"attention_bias": True, "mlp_bias": True, "norm_bias": True, "classifier_bias": True}),
    ("modernbert-fill", {"decoder_bias": False, "tie_word_embeddings": False, "classifier_activation": "silu"}),
    ("modernbert-fill", {"layer_types": LOCAL, "local_attention": 2, "hidden_activation": "gelu_pytorch_tanh"}),
    ("modernbert-fill", {"layer_types": None, "rope_parameters": None, "local_attention": 1}),
    ("modernbert-fill", {"rope_parameters": {"full_attention": LINEAR, "sliding_attention": YARN}}),
    ("modernbert-classify", {"classifier_pooling": "cls", "classifier_bias": True, "norm_bias": True}),
]  # fmt: skip


def worst(peer: Any, directory: Path) -> float:
    """The largest difference over single sequences and over all of them as one batch."""
    model, found = load(directory), 0.0
    random = np.random.default_rng(3)
    sequences = [random.integers(0, peer.config.vocab_size, length) for length in LENGTHS]
    together = model.hidden(sequences)
    for ids, hidden in zip(sequences, together):
        expected = computed(peer, ids)
        found = max(found, float(np.abs(head_logits(model, ids) - expected["logits"]).max()))
        found = max(found, float(np.abs(hidden[:, ::3] - expected["hidden"][-1]).max()))
    return found


@pytest.mark.parametrize(("name", "changes"), VARIANTS, ids=[f"{n}-{'-'.join(c)}" for n, c in VARIANTS])
def test_random_encoders(name: str, changes: dict[str, Any], tmp_path: Path) -> None:
    peer = made(name, **changes)
    peer.save_pretrained(tmp_path)
    found = worst(peer, tmp_path)
    print(f"{name} {found:.1e}")
    assert found < CLOSE


@pytest.mark.parametrize("classes", ["XLMRoberta", "Camembert"])
@pytest.mark.parametrize("task", ["MaskedLM", "SequenceClassification"])
def test_families_that_only_have_another_name(classes: str, task: str, tmp_path: Path) -> None:
    config = getattr(transformers, f"{classes}Config")(**FAMILIES["roberta"][1], attn_implementation="eager")
    peer = randomised(getattr(transformers, f"{classes}For{task}")(config))
    peer.save_pretrained(tmp_path)
    assert worst(peer, tmp_path) < CLOSE


@pytest.mark.parametrize("name", [name for name in MODELS if name.split("-")[0] in ("bert", "electra")])
def test_segments_beside_padding(name: str, tmp_path: Path) -> None:
    peer = made(name)
    peer.save_pretrained(tmp_path)
    model, random = load(tmp_path), np.random.default_rng(7)
    pairs = [(random.integers(2, 97, n), np.arange(n) * 2 // n) for n in (7, 23)]
    together = model.hidden([ids for ids, _ in pairs], [types for _, types in pairs])
    for (ids, types), hidden in zip(pairs, together):
        expected = computed(peer, ids, types)
        assert np.abs(hidden[:, ::3] - expected["hidden"][-1]).max() < CLOSE
        assert np.abs(head_logits(model, ids, types) - expected["logits"]).max() < CLOSE


@pytest.mark.parametrize("task", ["TokenClassification", "QuestionAnswering", "MultipleChoice"])
@pytest.mark.parametrize("family", FAMILIES)
def test_other_heads_are_passed_over(family: str, task: str, tmp_path: Path) -> None:
    classes, values = FAMILIES[family]
    config = getattr(transformers, f"{classes}Config")(**values, attn_implementation="eager")
    peer = randomised(getattr(transformers, f"{classes}For{task}")(config))
    peer.save_pretrained(tmp_path)
    ids = np.arange(2, 19)
    with torch.no_grad():
        expected = getattr(peer, peer.base_model_prefix)(torch.tensor(ids)[None]).last_hidden_state[0]
    assert np.abs(load(tmp_path)(ids) - expected.numpy()).max() < CLOSE


def test_filling_and_classifying_as_a_pipeline_does(tmp_path: Path) -> None:
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(Path(__file__).parents[1] / "data" / "tiny_encoders" / "bert-fill" / "tokenizer.json"),
        mask_token="[MASK]", unk_token="[UNK]", sep_token="[SEP]", cls_token="[CLS]", pad_token="[PAD]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )  # fmt: skip
    for name, task in (("bert-fill", "fill-mask"), ("bert-classify", "text-classification")):
        peer, directory = made(name), tmp_path / name
        peer.save_pretrained(directory)
        tokenizer.save_pretrained(directory)
        model, pipeline = load(directory), transformers.pipeline(task, model=peer, tokenizer=tokenizer)
        if task == "fill-mask":
            (ours,), theirs = model.fill("the [MASK] sat", top=5), pipeline("the [MASK] sat", top_k=11)
            theirs = [one for one in theirs if one["token"] < tokenizer.vocab_size][:5]  # not rows without a token
            assert [one.id for one in ours] == [one["token"] for one in theirs]
            np.testing.assert_allclose([o.probability for o in ours], [t["score"] for t in theirs], rtol=1e-4)
        else:
            theirs = pipeline({"text": "the cat", "text_pair": "sat on"}, top_k=None)
            ours = model.classify(("the cat", "sat on"))
            assert ours == pytest.approx({one["label"]: one["score"] for one in theirs}, rel=1e-4)
