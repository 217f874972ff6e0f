"""An encoder held to transformers on a tiny random BERT, and what may be put into it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.models_fixture import TINY, Copy, goldens, tiny

import qkv
from qkv.errors import QkvError
from qkv.models import Encoder

GOLDENS = goldens(TINY / "goldens.npz")
CLOSE: dict[str, float] = {"rtol": 0, "atol": 1e-5}  # float32 through two layers, against float64
LENGTHS = (5, 11, 37)


def ids_of(length: int) -> np.ndarray:
    return GOLDENS[f"{length}.ids"]


@pytest.mark.parametrize("length", LENGTHS)
def test_equals_transformers(length: int) -> None:
    with qkv.record() as trace:
        hidden = tiny()(ids_of(length))
    layers = [trace["embeddings.out"], trace["layers.0.resid_post"], trace["layers.1.resid_post"]]
    np.testing.assert_allclose(layers, GOLDENS[f"{length}.hidden"], **CLOSE)
    weights = [trace["layers.0.attention.weights"], trace["layers.1.attention.weights"]]
    np.testing.assert_allclose(weights, GOLDENS[f"{length}.attention"], **CLOSE)
    pooler = tiny().pooler
    assert pooler is not None
    np.testing.assert_allclose(pooler(hidden), GOLDENS[f"{length}.pooled"], **CLOSE)


def test_paths_and_axes() -> None:
    with qkv.record() as trace:
        tiny()(ids_of(5))
    paths = list(trace)
    for path in ("embeddings.out", "layers.1.attention.weights", "layers.0.attention.output", "layers.0.resid_post"):
        assert path in paths
    assert trace["layers.0.attention.weights"].shape == (3, 5, 5)


def test_a_batch_equals_single_runs() -> None:
    batch = tiny()([ids_of(length) for length in (37, 5, 11)])
    for length, hidden in zip((37, 5, 11), batch):
        assert hidden.shape == (length, 21)
        np.testing.assert_allclose(hidden, tiny()(ids_of(length)), **CLOSE)


def test_looking_changes_nothing() -> None:
    plain = tiny()(ids_of(11))
    with qkv.record():
        np.testing.assert_allclose(tiny()(ids_of(11)), plain, **CLOSE)


def test_text_is_read_by_the_tokenizer_and_never_cut() -> None:
    model = tiny()
    assert model.tokenizer is not None
    ids = model.tokenizer.encode("The cats sat on the mat, 苹果树.")
    tokens = ["[CLS]", "the", "cat", "##s", "sat", "on", "the", "mat", ",", "苹", "果", "树", ".", "[SEP]"]
    assert model.tokenizer.tokens(ids) == tokens  # the file asks for 7 tokens, padded to 19
    assert model.tokenizer.decode(ids) == "the cats sat on the mat, 苹 果 树."
    assert model.tokenizer.decode(ids, special_tokens=True).startswith("[CLS] the")
    np.testing.assert_array_equal(model("The cats sat on the mat, 苹果树."), model(ids))
    assert model.tokenizer.encode("the cat", special_tokens=False) == ids[1:3]
    assert model.tokenizer.encode("the cat sat", max_tokens=4) == [ids[0], ids[1], ids[2], ids[-1]]


@pytest.mark.parametrize(
    "given", ["the cat", ["the cat"], [2, 5, 6, 3], [[2, 5, 6, 3]], np.array([2, 5, 6, 3]), ("the cat", "a mat")]
)
def test_one_or_many(given: Any) -> None:
    hidden = tiny()(given)
    single = isinstance(given, str) or (np.ndim(given) == 1 and not isinstance(given[0], str))
    assert isinstance(hidden, np.ndarray) == single
    assert tiny().encode(given).shape == ((63,) if single else (len(given), 63))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("", "there is no token in the text"),
        ("  \t", "there is no token in the text"),
        ([], "there is no token in the text"),
        (["the cat", ""], "there is no token in text 1 of the list"),
        ([[2, 5, 3], []], "there is no token in text 1 of the list"),
        (np.zeros((0,), int), "there is no token in the text"),
        ([2, 97, 3], "token ids must lie from 0 to 96, but 97 came"),
        ([2, -1, 3], "token ids must lie from 0 to 96, but -1 came"),
        ([2.0, 5.0], "ids must be integer, but its dtype is float64"),
        ([True, False], "ids must be integer, but its dtype is bool"),
        ([[2, 5], "the cat"], "a mixture of them came"),
        ([[[2, 5]], [[3, 5]]], r"shape \(1, 2\) came"),
        ([[[2, 5], [3]]], "a nested list came"),
        (None, "NoneType came"),
        (7, "int came"),
        (b"the cat", "bytes came"),
        ([None], "dtype is object"),
        ({"text": "the cat"}, "dict came"),
        ("the \ud800 cat", r"text must be valid Unicode, but 'the \\ud800 cat' came"),
        ("the cat " * 18, "the text has 38 tokens, but the model takes at most 37"),
        ([2] * 41, "the text has 41 tokens, but the model takes at most 37"),
    ],
)
def test_a_wrong_input_is_one_line(given: Any, message: str) -> None:
    with pytest.raises(QkvError, match=message) as caught:
        tiny()(given)
    assert "\n" not in str(caught.value)


def test_the_tokenizer_refuses_what_it_does_not_know() -> None:
    tokenizer = tiny().tokenizer
    assert tokenizer is not None
    for wrong in (-1, 96, 2**40):
        with pytest.raises(QkvError, match=f"but {wrong} came"):
            tokenizer.decode([2, wrong])
    with pytest.raises(QkvError, match="text must be a string, but int came"):
        tokenizer.encode(3)  # type: ignore[arg-type]


def by_hand(model: Encoder, ids: Any) -> np.ndarray:
    """cls, max and mean_sqrt_len, joined in this order, of length 1."""
    hidden = model(ids)
    vector = np.concatenate([hidden[0], hidden.max(0), hidden.sum(0) / len(hidden) ** 0.5])
    return vector / np.linalg.norm(vector)


def test_sentence_vectors() -> None:
    texts = ["the cat", "the cats sat on the mat.", "远方有颗苹果树", "sat"]
    vectors = tiny().encode(texts, batch_size=3)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, [by_hand(tiny(), text) for text in texts], **CLOSE)
    np.testing.assert_allclose(tiny().encode(texts[1]), vectors[1], **CLOSE)
    assert tiny().encode([]).shape == (0, 63)


def test_sentence_vectors_cut_as_the_files_say() -> None:
    tokenizer = tiny().tokenizer
    assert tokenizer is not None
    ids = tokenizer.encode("the cat sat on the mat " * 7)
    kept = [*ids[:12], ids[-1]]  # 13 with [CLS] and [SEP]
    np.testing.assert_allclose(tiny().encode("the cat sat on the mat " * 7), by_hand(tiny(), kept), **CLOSE)
    np.testing.assert_allclose(tiny().encode(ids[:37]), by_hand(tiny(), ids[:37]), **CLOSE)  # ids are not cut
    with pytest.raises(QkvError, match="44 tokens"):
        tiny().encode(ids)


def test_a_named_pooling_replaces_the_files() -> None:
    hidden = tiny()("the cat sat")
    mean = hidden.mean(0) / np.linalg.norm(hidden.mean(0))
    np.testing.assert_allclose(tiny().encode(["the cat sat"], pooling="mean"), [mean], **CLOSE)
    with pytest.raises(QkvError, match="pooling must be one of cls, max, mean, mean_sqrt_len, but it is 'last'"):
        tiny().encode("the cat", pooling="last")
    with pytest.raises(QkvError, match="batch_size must be an integer of at least 1"):
        tiny().encode("the cat", batch_size=0)


def test_without_files_no_pooling_is_guessed(tmp_path: Path) -> None:
    copy = Copy(tmp_path)
    (copy / "modules.json").unlink()
    model = copy.load()
    told = r"has no modules\.json .* say it with pooling=, or --pooling on the command line: one of cls"
    with pytest.raises(QkvError, match=told):
        model.encode("the cat")
    np.testing.assert_allclose(model.encode("the cat", pooling="cls"), model("the cat")[0], **CLOSE)


def test_without_the_tokenizers_package_ids_still_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    model = Copy(tmp_path).load()
    np.testing.assert_array_equal(model(ids_of(5)), tiny()(ids_of(5)))
    with pytest.raises(QkvError, match=r"pip install 'qkv\[models\]'"):
        model("the cat")


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_other_dtypes(dtype: type, tmp_path: Path) -> None:
    """Half precision is widened, exactly; float64 stays what it is."""
    copy = Copy(tmp_path)
    rounded = {name: tensor.astype(dtype) for name, tensor in copy.tensors().items()}
    copy.write(rounded)
    model = copy.load()
    expected = np.float64 if dtype is np.float64 else np.float32
    assert model.layers[1].feed_forward.W_2.dtype == model(ids_of(5)).dtype == expected
    stored = rounded["encoder.layer.1.output.dense.weight"].astype(expected)
    np.testing.assert_array_equal(model.layers[1].feed_forward.W_2.T, stored)
    assert model.encode("the cat").dtype == np.float32


def test_other_writers_of_the_same_model(tmp_path: Path) -> None:
    """The prefix of models with a head, the head itself, the oldest names of a norm, a buffer of positions."""
    copy = Copy(tmp_path)
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    tensors = {}
    for name, tensor in copy.tensors().items():
        for new, former in old.items():
            name = name.replace(new, former)
        tensors[f"bert.{name}"] = tensor
    tensors["bert.embeddings.position_ids"] = np.arange(37)[None]
    tensors["cls.seq_relationship.bias"] = np.zeros(2, np.float32)
    copy.write(tensors)
    copy.json("config.json", architectures=["BertForMaskedLM"], classifier_dropout=0.3)
    np.testing.assert_array_equal(copy.load()(ids_of(11)), tiny()(ids_of(11)))


def test_without_a_pooler(tmp_path: Path) -> None:
    copy = Copy(tmp_path)
    copy.change(pooler__dense__weight=None, pooler__dense__bias=None)
    model = copy.load()
    assert model.pooler is None
    np.testing.assert_array_equal(model(ids_of(11)), tiny()(ids_of(11)))


@pytest.mark.parametrize(
    ("named", "ours"),
    [
        ("gelu_new", "gelu_tanh"),
        ("gelu_pytorch_tanh", "gelu_tanh"),
        ("relu", "relu"),
        ("gelu", "gelu"),
        ("silu", "silu"),
    ],
)
def test_activations(named: str, ours: str, tmp_path: Path) -> None:
    copy = Copy(tmp_path)
    copy.json("config.json", hidden_act=named)
    model = copy.load()
    assert model.layers[0].feed_forward.activation == ours
    assert np.array_equal(model(ids_of(5)), tiny()(ids_of(5))) == (named == "gelu")


def test_settings_of_newer_sentence_transformers(tmp_path: Path) -> None:
    copy = Copy(tmp_path)
    (copy / "1_Pooling/config.json").write_text('{"embedding_dimension": 21, "pooling_mode": "mean"}')
    (copy / "sentence_bert_config.json").write_text(
        '{"transformer_task": "feature-extraction", "module_output_name": "token_embeddings",'
        ' "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}}'
    )
    (copy / "config_sentence_transformers.json").write_text(
        '{"prompts": {"query": "q: "}, "default_prompt_name": null, "similarity_fn_name": "cosine"}'
    )
    model = copy.load()
    np.testing.assert_array_equal(model.encode("the cat"), tiny().encode("the cat", pooling="mean"))
    with pytest.raises(QkvError, match="44 tokens"):  # no limit is said, so nothing is cut
        model.encode("the cat sat on the mat " * 7)


def test_lower_case_first(tmp_path: Path) -> None:
    copy = Copy(tmp_path)
    text = (copy / "tokenizer.json").read_text()
    assert '"lowercase": true' in text
    (copy / "tokenizer.json").write_text(text.replace('"lowercase": true', '"lowercase": false'))
    copy.json("sentence_bert_config.json", do_lower_case=True)
    model = copy.load()
    np.testing.assert_array_equal(model.encode("THE CAT"), tiny().encode("the cat"))
    assert not np.array_equal(model("THE CAT"), model("the cat"))
