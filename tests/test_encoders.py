"""Each family of encoders held to transformers on tiny random models, in every form in which its files come."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.encoder_fixture import (
    CLOSE,
    LENGTHS,
    NAMES,
    TINY,
    WRONG,
    Copy,
    all_hidden,
    difference,
    head_logits,
    known,
    tiny,
)
from tests.models_fixture import DATA

import qkv
from qkv.errors import FileError, QkvError
from qkv.io.config import Config
from qkv.models import Encoder, load
from qkv.models.families import ENCODERS

# Families that only have another name, with the same code.
ALSO = {"xlm-roberta": "XLMRoberta", "camembert": "Camembert"}


def test_every_family_is_held_to_transformers() -> None:
    found = {json.loads((TINY / name / "config.json").read_text())["model_type"] for name in NAMES}
    assert found | set(ALSO) == {family.model_type for family in ENCODERS}


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", NAMES)
def test_equals_transformers(name: str, length: int) -> None:
    model, arrays = tiny(name), known(name)
    ids = arrays[f"{length}.ids"]
    for ours, theirs in zip(all_hidden(model, ids), arrays[f"{length}.hidden"], strict=True):
        np.testing.assert_allclose(ours[:, ::3], theirs, **CLOSE)
    logits = head_logits(model, ids)
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits, arrays[f"{length}.logits"], **CLOSE)


@pytest.mark.parametrize("name", NAMES)
def test_a_pair_has_segments(name: str) -> None:
    arrays = known(name)
    types = arrays["pair.types"] if tiny(name).settings.n_types > 1 else None
    np.testing.assert_allclose(head_logits(tiny(name), arrays["pair.ids"], types), arrays["pair.logits"], **CLOSE)


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_equals_single_runs(name: str) -> None:
    model, ids = tiny(name), known(name)["41.ids"]
    given = [ids[:3], ids, ids[:17], ids[5:6]]
    for hidden, alone in zip(model(given), given):
        np.testing.assert_allclose(hidden, model(alone), **CLOSE)


@pytest.mark.parametrize("name", NAMES)
def test_the_longest_text(name: str) -> None:
    model = tiny(name)
    assert model.settings.n_positions == 41
    with pytest.raises(QkvError, match="42 tokens, but the model takes at most 41"):
        model([2] * 42)


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("fill")])
def test_looking_and_seeing(name: str) -> None:
    model = tiny(name)
    seen = qkv.see(model, "the cat sat on the mat", layer=1, head=2)
    assert len(seen.weights) == len(model.layers)
    assert "the cat sat on the mat" in str(seen)
    plain = model("the cat sat")
    with qkv.record():
        np.testing.assert_allclose(model("the cat sat"), plain, **CLOSE)
    for w in seen.weights:
        np.testing.assert_allclose(w.sum(-1), 1, rtol=0, atol=1e-5)


def test_local_layers_look_at_three_neighbours_on_each_side() -> None:
    model = tiny("modernbert-fill")
    with qkv.record("*.attention.weights") as trace:
        model(known("modernbert-fill")["41.ids"])
    for layer, near in enumerate([False, True, True, False, True]):
        reach = np.argwhere(trace[f"layers.{layer}.attention.weights"].max(0) > 0)
        assert abs(reach[:, 0] - reach[:, 1]).max() == (3 if near else 40)


PUBLISHED = json.loads((DATA / "published_encoders.json").read_text())


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_size_of_published_models(name: str, tmp_path: Path) -> None:
    """Their settings are understood, and the tensors that are asked for hold as many numbers as is known of them."""
    config = Config(tmp_path / "config.json", PUBLISHED[name]["config"])
    family = next(family for family in ENCODERS if family.model_type == config.raw("model_type"))
    settings = family.settings(config)
    sizes = {row.foreign: row.shape(settings) for row in family.rows(settings, PUBLISHED[name]["heads"])}
    assert sum(math.prod(shape) for shape in sizes.values()) == PUBLISHED[name]["parameters"]


# planted faults: each must show


def other_positions(model: Encoder) -> None:
    model.embeddings.padding_id = 0


def positions_counted_over_padding(model: Encoder) -> None:
    assert model.embeddings.W_position is not None
    model.embeddings.W_position = model.embeddings.W_position[2:]
    model.embeddings.padding_id = None


def rolled_positions(model: Encoder) -> None:
    model.embeddings.W_position = np.roll(model.embeddings.W_position, 1, axis=0)  # type: ignore[arg-type]


def drop(*fields: str) -> Callable[[Encoder], None]:
    def dropped(model: Encoder) -> None:
        part: Any = model
        for name in fields[:-1]:
            part = part[int(name)] if name.isdigit() else getattr(part, name)
        setattr(part, fields[-1], None)

    return dropped


def windows(size: int, other: int) -> Callable[[Encoder], None]:
    def changed(model: Encoder) -> None:
        for layer in model.layers:
            if "window" in layer.attention.rules:
                layer.attention.rules["window"] = (size, other)

    return changed


def window_everywhere(model: Encoder) -> None:
    model.layers[0].attention.rules["window"] = (3, 3)


def bases(model: Encoder) -> None:
    for layer in model.layers:
        layer.attention.rotary = replace(layer.attention.rotary, base=500.0)


def bends(name: str) -> Callable[[Encoder], None]:
    def changed(model: Encoder) -> None:
        for head in filter(None, (model.masked_lm, model.classifier, model.detector)):
            head.activation = name

    return changed


def other_gelu(model: Encoder) -> None:
    for layer in model.layers:
        layer.feed_forward.activation = "gelu" if layer.feed_forward.activation == "gelu_tanh" else "gelu_tanh"


def gate_and_up_swapped(model: Encoder) -> None:
    for layer in model.layers:
        fed: Any = layer.feed_forward
        fed.W_gate, fed.W_up = fed.W_up, fed.W_gate


def keys_for_queries(model: Encoder) -> None:
    attention = model.layers[1].attention
    attention.W_Q, attention.W_K = attention.W_K, attention.W_Q
    attention.b_Q, attention.b_K = attention.b_K, attention.b_Q


def other_order(model: Encoder) -> None:
    model.layers[1].order = "pre" if model.layers[1].order == "post" else "post"


def other_pooling(model: Encoder) -> None:
    assert model.settings.classifier is not None
    pooling = "mean" if model.settings.classifier.pooling == "cls" else "cls"
    model.settings = replace(model.settings, classifier=replace(model.settings.classifier, pooling=pooling))


FAULTS = [
    ("bert-fill", rolled_positions), ("bert-fill", drop("embeddings", "W_type")), ("bert-fill", keys_for_queries),
    ("bert-fill", drop("masked_lm", "norm")), ("bert-fill", drop("masked_lm", "b")), ("bert-fill", other_order),
    ("bert-fill", drop("masked_lm", "b_dense")), ("bert-fill", drop("embeddings", "norm")),
    ("bert-fill", bends("tanh")), ("bert-classify", bends("gelu")), ("bert-classify", other_pooling),
    ("bert-classify", drop("classifier", "b")),
    ("roberta-fill", other_positions), ("roberta-fill", positions_counted_over_padding),
    ("roberta-fill", drop("embeddings", "W_type")), ("roberta-fill", bends("relu")),
    ("roberta-fill", drop("masked_lm", "norm")), ("roberta-classify", bends("relu")),
    ("distilbert-fill", rolled_positions), ("distilbert-fill", drop("masked_lm", "norm")),
    ("distilbert-classify", bends("tanh")), ("distilbert-classify", drop("classifier", "b_dense")),
    ("electra-fill", drop("embeddings", "b_project")), ("electra-fill", drop("masked_lm", "norm")),
    ("electra-classify", bends("tanh")), ("electra-detect", bends("tanh")), ("electra-detect", drop("detector", "b")),
    ("modernbert-fill", windows(4, 4)), ("modernbert-fill", windows(3, 4)), ("modernbert-fill", windows(2, 2)),
    ("modernbert-fill", windows(3, 0)), ("modernbert-fill", window_everywhere), ("modernbert-fill", bases),
    ("modernbert-fill", gate_and_up_swapped), ("modernbert-fill", drop("norm")),
    ("modernbert-fill", drop("layers", "1", "norm_1")), ("modernbert-fill", drop("masked_lm", "norm")),
    ("modernbert-fill", other_order), ("modernbert-classify", other_pooling), ("modernbert-classify", bends("tanh")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "fault"), FAULTS)
def test_a_planted_fault_shows(name: str, fault: Callable[[Encoder], None]) -> None:
    model = load(TINY / name)
    fault(model)
    assert difference(model, name) > WRONG


@pytest.mark.parametrize("name", ["bert-fill", "roberta-fill", "distilbert-fill", "electra-fill", "modernbert-fill"])
@pytest.mark.parametrize("fault", [other_gelu, bends("gelu_tanh")], ids=["layers", "head"])
def test_the_form_of_gelu_shows(name: str, fault: Callable[[Encoder], None]) -> None:
    """The two forms differ little, but by more than the tolerance of other tests' rounding."""
    model = load(TINY / name)
    fault(model)
    assert difference(model, name) > 1e-4


@pytest.mark.parametrize("name", [name for name in NAMES if tiny(name).settings.n_types > 1])
def test_swapped_segments_show(name: str) -> None:
    arrays = known(name)
    swapped = head_logits(tiny(name), arrays["pair.ids"], 1 - arrays["pair.types"])
    assert np.abs(swapped - arrays["pair.logits"]).max() > WRONG
    alone = head_logits(tiny(name), arrays["pair.ids"])
    assert np.abs(alone - arrays["pair.logits"]).max() > WRONG


# the forms of files


@pytest.mark.parametrize("model_type", ALSO)
@pytest.mark.parametrize("name", ["roberta-fill", "roberta-classify"])
def test_families_that_only_have_another_name(model_type: str, name: str, tmp_path: Path) -> None:
    copy = Copy(tmp_path, name)
    task = copy.settings()["architectures"][0].removeprefix("Roberta")
    copy.config(model_type=model_type, architectures=[ALSO[model_type] + task])
    assert copy.difference() < CLOSE["atol"]
    copy.config(model_type=...)  # then the architecture says it
    assert copy.difference() < CLOSE["atol"]


def test_settings_of_older_versions(tmp_path: Path) -> None:
    """Flat bases and a rule of layers, as transformers 4 writes them; a local base of null is the global one."""
    copy = Copy(tmp_path, "modernbert-fill")
    flat = {"layer_types": ..., "rope_parameters": ..., "global_attn_every_n_layers": 3, "dtype": ...}
    more = {"torch_dtype": "float16", "reference_compile": None, "repad_logits_with_grad": False,
            "position_embedding_type": "absolute", "layer_norm_eps": 1e-5, "gradient_checkpointing": False}  # fmt: skip
    copy.config(**flat, **more, global_rope_theta=500.0, local_rope_theta=50.0)
    assert copy.difference() < CLOSE["atol"]
    copy.config(local_rope_theta=None)
    assert {layer.attention.rotary.base for layer in copy.load().layers} == {500.0}
    copy.config(local_rope_theta=..., global_rope_theta=...)
    assert [layer.attention.rotary.base for layer in copy.load().layers] == [160000, 10000, 10000, 160000, 10000]
    copy.config(global_rope_theta=500.0, local_rope_theta=50.0, global_attn_every_n_layers=2)
    assert copy.difference() > WRONG


@pytest.mark.parametrize("name", NAMES)
def test_names_without_the_prefix(name: str, tmp_path: Path) -> None:
    copy = Copy(tmp_path, name)
    family = copy.settings()["model_type"]
    copy.renamed((f"{'model' if family == 'modernbert' else family}.", ""))
    assert copy.difference() < CLOSE["atol"]


@pytest.mark.parametrize("name", ["bert-fill", "electra-fill"])
def test_older_names_of_norms_and_buffers(name: str, tmp_path: Path) -> None:
    copy = Copy(tmp_path, name)
    copy.renamed(("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta"))
    prefix = name.removesuffix("-fill")
    copy.write(copy.tensors() | {f"{prefix}.embeddings.position_ids": np.arange(41)[None]})
    assert copy.difference() < CLOSE["atol"]


@pytest.mark.parametrize(
    ("name", "last", "bias"),
    [
        ("bert-fill", "cls.predictions.decoder", "cls.predictions.bias"),
        ("roberta-fill", "lm_head.decoder", "lm_head.bias"),
        ("distilbert-fill", "vocab_projector", ""),
        ("electra-fill", "generator_lm_head", ""),
        ("modernbert-fill", "decoder", ""),
    ],
)
def test_a_last_matrix_of_its_own_is_used_and_a_missing_one_is_the_table(
    name: str, last: str, bias: str, tmp_path: Path
) -> None:
    copy = Copy(tmp_path, name)
    tensors = copy.tensors()
    assert f"{last}.weight" not in tensors
    table = next(value for n, value in tensors.items() if "word_embeddings" in n or "tok_embeddings" in n)
    copy.write(tensors | {f"{last}.weight": table})
    assert copy.difference() < CLOSE["atol"]
    copy.write(tensors | {f"{last}.weight": -table})
    assert copy.difference() > WRONG
    copy.write(tensors)
    copy.config(tie_word_embeddings=False)
    with pytest.raises(FileError, match=rf"has no tensor {last}\.weight"):
        copy.load()
    copy.config(tie_word_embeddings=True)
    if bias:  # beside it, or twice
        assert bias in tensors
        copy.write(tensors | {f"{last}.bias": tensors[bias]})
        assert copy.difference() < CLOSE["atol"]
        copy.write({n: value for n, value in tensors.items() if n != bias} | {f"{last}.bias": tensors[bias]})
        assert copy.difference() < CLOSE["atol"]


def test_other_heads_are_passed_over(tmp_path: Path) -> None:
    copy, whole = Copy(tmp_path, "bert-classify"), Copy(tmp_path, "bert-fill")
    for name in ("TokenClassification", "MultipleChoice"):
        copy.config(architectures=[f"BertFor{name}"])
        assert copy.load().classifier is None
    whole.write(whole.tensors() | {"cls.seq_relationship.weight": np.ones((2, 20)), "cls.seq_relationship.bias": [1.0]})
    assert whole.difference() < CLOSE["atol"]
    modern = Copy(tmp_path, "modernbert-classify")
    modern.config(architectures=["ModernBertForTokenClassification"])
    assert modern.load().classifier is modern.load().masked_lm is None


def test_what_another_library_does_with_the_answers_is_passed_over(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "bert-classify")
    copy.config(sbert_ce_default_activation_function="torch.nn.modules.linear.Identity", sentence_transformers={})
    assert copy.difference() < CLOSE["atol"]


def test_a_bare_encoder_and_a_head_that_is_not_whole(tmp_path: Path) -> None:
    for name, heads in (("bert-fill", ("cls.",)), ("modernbert-fill", ("head.", "decoder."))):
        copy = Copy(tmp_path, name)
        tensors = copy.tensors()
        copy.write({n: value for n, value in tensors.items() if not n.startswith(heads)})
        assert copy.load().masked_lm is None
        np.testing.assert_allclose(copy.load()([2, 3, 5]), tiny(name)([2, 3, 5]), **CLOSE)
        left = next(n for n in tensors if n.startswith(heads) and n.endswith("dense.weight"))
        copy.write({n: value for n, value in tensors.items() if n != left})
        with pytest.raises(FileError, match=f"has no tensor {left}"):
            copy.load()


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("roberta-fill", {"position_embedding_type": "relative_key"}, "'position_embedding_type' must be 'absolute'"),
        ("roberta-fill", {"pad_token_id": 42}, "'pad_token_id' must be an integer from 0 to 41"),
        ("roberta-fill", {"pad_token_id": None}, "'pad_token_id' must be an integer"),
        ("roberta-fill", {"is_decoder": True}, "'is_decoder' must be False"),
        ("roberta-fill", {"hidden_size": 21}, "'hidden_size' must be a multiple of num_attention_heads=5"),
        ("roberta-fill", {"architectures": ["RobertaForCausalLM"]}, "asks for architecture 'RobertaForCausalLM'"),
        ("roberta-fill", {"prefix_length": 3}, "'prefix_length' is not a setting"),
        ("distilbert-fill", {"dim": 18}, "'dim' must be a multiple of n_heads=5"),
        ("distilbert-fill", {"n_layers": 10**12}, "'n_layers' must be an integer"),
        ("distilbert-fill", {"activation": "mish"}, "'activation' must be one of gelu"),
        ("electra-fill", {"embedding_size": 0}, "'embedding_size' must be an integer from 1"),
        ("electra-fill", {"embedding_size": 10**9}, r"must have shape \(97, 1000000000\), but its shape is \(97, 13\)"),
        ("electra-fill", {"embedding_size": 20}, "uses: electra.embeddings_project"),
        ("modernbert-fill", {"layer_types": ["full_attention"] * 2}, "'layer_types' must be 5 times"),
        ("modernbert-fill", {"local_attention": "wide"}, "'local_attention' must be an integer"),
        ("modernbert-fill", {"rope_parameters": {"other": {}}}, "an object of full_attention and sliding_attention"),
        ("modernbert-fill", {"rope_parameters": {"full_attention": 7}}, "'rope_parameters' must be an object"),
        ("modernbert-fill", {"rope_parameters": {"full_attention": {"rope_theta": -1}}}, "'rope_theta' must be a num"),
        ("modernbert-fill", {"rope_parameters": None, "global_rope_theta": "x"}, "'rope_theta' must be a number"),
        ("modernbert-fill", {"attention_bias": True}, "has no tensor layers.0.attn.Wqkv.bias"),
        ("modernbert-fill", {"norm_bias": 1}, "'norm_bias' must be true or false"),
        ("modernbert-fill", {"classifier_pooling": "max"}, "'classifier_pooling' must be one of cls, mean"),
        ("modernbert-fill", {"num_attention_heads": 4}, "turning an even part of each head"),
        ("bert-classify", {"id2label": {"0": "a", "1": "a", "2": "b"}}, "'id2label' must be different names"),
        ("bert-classify", {"id2label": {"0": "a", "2": "b"}}, "'id2label' must be a name for each number from 0"),
        ("bert-classify", {"id2label": {"0": 1, "1": 2, "2": 3}}, "'id2label' must be a name for each number from 0"),
        ("bert-classify", {"id2label": []}, "'id2label' must be a name for each"),
        ("bert-classify", {"id2label": {"0": "a"}}, r"'classifier.weight' must have shape \(1, 20\)"),
        ("bert-classify", {"id2label": ..., "num_labels": 10**9}, "'num_labels' must be an integer from 1 to 1000000"),
        ("bert-classify", {"problem_type": "ranking"}, "'problem_type' must be one of single_label_classification"),
        ("bert-classify", {"architectures": None}, r"uses: classifier\.bias, classifier\.weight"),
    ],
)  # fmt: skip
def test_a_setting_that_is_not_understood_is_refused(
    name: str, changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    copy = Copy(tmp_path, name)
    copy.config(**changes)
    with pytest.raises(FileError, match=message) as caught:
        copy.load()
    assert "\n" not in str(caught.value)
