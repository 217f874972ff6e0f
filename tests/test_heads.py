"""The heads of encoders as they are used: filling in masks, classifying texts and pairs, finding replaced words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.encoder_fixture import CLOSE, NAMES, Copy, known, tiny
from tests.models_fixture import tiny as tiny_bert

from qkv.errors import QkvError
from qkv.models import Filling, load

FILL = [name for name in NAMES if name.endswith("fill")]
CLASSIFY = [name for name in NAMES if name.endswith("classify")]


def softmax(x: np.ndarray) -> np.ndarray:
    exp = np.exp(x.astype(np.float64))
    return exp / exp.sum(-1, keepdims=True)


# logits and masks


@pytest.mark.parametrize("name", FILL)
def test_logits_of_one_and_of_many(name: str) -> None:
    model, arrays = tiny(name), known(name)
    ids = arrays["41.ids"]
    np.testing.assert_allclose(model.logits(ids), arrays["41.logits"], **CLOSE)
    many = model.logits([ids[:7], ids])
    np.testing.assert_allclose(many[1], arrays["41.logits"], **CLOSE)
    assert many[0].shape == (7, model.settings.vocab_size)
    assert model.tokenizer is not None
    np.testing.assert_array_equal(model.logits("the cat"), model.logits(model.tokenizer.encode("the cat")))


@pytest.mark.parametrize("name", FILL)
def test_each_mask_is_filled_while_the_others_are_hidden(name: str) -> None:
    model = tiny(name)
    tokenizer = model.tokenizer
    assert tokenizer is not None
    found = model.fill("the [MASK] sat on [MASK].", top=4)
    assert [len(fillings) for fillings in found] == [4, 4]
    ids = tokenizer.encode(f"the{'' if name == 'roberta-fill' else ' '}{model.mask_token} sat on {model.mask_token}.")
    places = [i for i, number in enumerate(ids) if number == tokenizer.id_of(str(model.mask_token))]
    assert len(places) == 2
    for place, fillings in zip(places, found):
        p = softmax(model.logits(ids)[place])
        p[[i for i in range(len(p)) if not tokenizer.knows(i)]] = 0  # rows that stand for no token
        best = np.argsort(-p)[:4]
        assert [filling.id for filling in fillings] == best.tolist()
        np.testing.assert_allclose([filling.probability for filling in fillings], p[best], rtol=1e-4)
        assert [filling.token for filling in fillings] == tokenizer.tokens(best)
        assert all(filling.text == tokenizer.decode([filling.id], special_tokens=True) for filling in fillings)


def test_masks_as_the_model_calls_them() -> None:
    bert, roberta = tiny("bert-fill"), tiny("roberta-fill")
    assert (bert.mask_token, roberta.mask_token) == ("[MASK]", "<mask>")
    assert roberta.fill("the <mask> sat") == roberta.fill("the [MASK] sat")
    assert isinstance(bert.fill("[MASK]", top=1)[0][0], Filling)
    assert bert.tokenizer is not None
    assert len(bert.fill("远方有颗[MASK]果树", top=10**6)[0]) == bert.tokenizer.vocab_size


def test_rows_that_stand_for_no_token_are_never_offered() -> None:
    model = tiny("bert-fill")
    assert model.tokenizer is not None
    known_ids = {filling.id for filling in model.fill("[MASK]", top=97)[0]}
    assert known_ids == set(range(model.tokenizer.vocab_size))
    assert model.tokenizer.vocab_size < model.settings.vocab_size


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"tokenizer_config.json": {"mask_token": "cat"}}, "cat"),
        ({"tokenizer_config.json": {"mask_token": {"content": "cat", "lstrip": False}}}, "cat"),
        ({"special_tokens_map.json": {"mask_token": "mat"}}, "mat"),
        ({"tokenizer_config.json": {"mask_token": None}, "special_tokens_map.json": {"mask_token": "mat"}}, "mat"),
        ({"tokenizer_config.json": {"mask_token": "no such token"}}, "[MASK]"),
        ({"tokenizer_config.json": {}}, "[MASK]"),
    ],
)
def test_the_files_say_what_a_mask_is_called(files: dict[str, Any], expected: str, tmp_path: Path) -> None:
    copy = Copy(tmp_path, "bert-fill")
    for name, values in files.items():
        (copy.directory / name).write_text(json.dumps(values))
    model = copy.load()
    assert model.mask_token == expected
    assert len(model.fill(f"the {expected} sat")) == 1


@pytest.mark.parametrize(
    ("text", "how", "message"),
    [
        ("the cat sat", {}, r"there is no mask in the text: write \[MASK\] where a word is hidden"),
        ("", {}, "there is no token in the text"),
        ("[mask] _", {}, "there is no mask in the text"),
        ("[MASK] cat" * 30, {}, "62 tokens, but the model takes at most 41"),
        (["[MASK]"], {}, "text must be a string, but list came"),
        (None, {}, "text must be a string, but NoneType came"),
        ("[MASK]", {"top": 0}, "top must be an integer of at least 1, but it is 0"),
        ("[MASK]", {"top": 1.5}, "top must be an integer of at least 1"),
        ("[MASK] \ud800", {}, "text must be valid Unicode"),
    ],
)
def test_what_cannot_be_filled_is_one_line(text: Any, how: dict[str, Any], message: str) -> None:
    with pytest.raises(QkvError, match=message) as caught:
        tiny("bert-fill").fill(text, **how)
    assert "\n" not in str(caught.value)


def test_files_without_a_mask_or_a_tokenizer(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "bert-fill")
    path = copy.directory / "tokenizer.json"
    path.write_text(path.read_text().replace("[MASK]", "[HIDE]"))
    with pytest.raises(QkvError, match="names no mask token"):
        copy.load().fill("the [MASK] sat")
    (copy.directory / "tokenizer_config.json").write_text('{"mask_token": 7}')
    with pytest.raises(QkvError, match="'mask_token' must be a token, but it is 7"):
        copy.load()
    (copy.directory / "tokenizer_config.json").write_text('{"mask_token": "[HIDE]"}')
    assert len(copy.load().fill("the [MASK] sat [HIDE]")) == 2
    path.unlink()
    with pytest.raises(QkvError, match=r"has no tokenizer\.json"):
        copy.load().fill("the [MASK] sat")


@pytest.mark.parametrize(
    ("name", "method", "message"),
    [
        ("bert-classify", "fill", "no head 'masked_lm', which this needs; the heads that it has: classifier"),
        ("bert-classify", "logits", "no head 'masked_lm'"),
        ("bert-fill", "classify", "no head 'classifier', which this needs; the heads that it has: masked_lm"),
        ("electra-detect", "classify", "no head 'classifier', which this needs; the heads that it has: detector"),
        ("electra-fill", "replaced", "no head 'detector'"),
    ],
)
def test_a_missing_head_is_named_beside_those_that_are_there(name: str, method: str, message: str) -> None:
    with pytest.raises(QkvError, match=message):
        getattr(tiny(name), method)("the [MASK] sat")
    with pytest.raises(QkvError, match="which this needs; it has no head at all"):
        getattr(tiny_bert(), method)("the [MASK] sat")


# classification


def chances(name: str, logits: np.ndarray) -> dict[str, float]:
    """By hand: one of three, each of three, a number."""
    settings = tiny(name).settings.classifier
    assert settings is not None
    by_problem = {
        "single_label_classification": softmax, "multi_label_classification": lambda x: 1 / (1 + np.exp(-x)),
        "regression": lambda x: x,
    }  # fmt: skip
    return dict(zip(settings.labels, by_problem[settings.problem](logits).tolist()))


LABELS = {
    "bert-classify": ("bad", "so-so", "好"), "roberta-classify": ("bad", "so-so", "好"),
    "distilbert-classify": ("LABEL_0", "LABEL_1"), "electra-classify": ("LABEL_0",),
    "modernbert-classify": ("bad", "so-so", "好"),
}  # fmt: skip


@pytest.mark.parametrize("name", CLASSIFY)
def test_labels_of_ids_and_of_a_pair(name: str) -> None:
    model, arrays = tiny(name), known(name)
    pair = ("the cat sat", "a mat, 苹果树.")
    found = {"41": model.classify(arrays["41.ids"]), "pair": model.classify(pair)}
    for kind, given in found.items():
        assert tuple(given) == LABELS[name]
        expected = chances(name, arrays[f"{kind}.logits"])
        np.testing.assert_allclose(list(given.values()), list(expected.values()), rtol=0, atol=1e-5)


def test_the_three_problems() -> None:
    one, each, number = (tiny(f"{family}-classify") for family in ("bert", "roberta", "electra"))
    assert sum(one.classify("the cat").values()) == pytest.approx(1)
    assert sum(each.classify("the cat").values()) != pytest.approx(1, abs=0.01)
    assert all(0 < p < 1 for p in each.classify("the cat").values())
    assert isinstance(number.classify("the cat")["LABEL_0"], float)
    assert number.settings.classifier is not None
    assert number.settings.classifier.problem == "regression"


@pytest.mark.parametrize("name", CLASSIFY)
def test_many_at_once_equal_single_ones(name: str) -> None:
    model = tiny(name)
    texts = ["the cat", "远方有颗苹果树", "a", "the cat sat on the mat."]
    pairs = [("the cat", "sat"), ("sat", "the cat"), ("远方有颗", "苹果树.")]
    for given in (texts, pairs):
        for found, alone in zip(model.classify(given), given, strict=True):
            single = model.classify(alone)
            np.testing.assert_allclose(list(found.values()), list(single.values()), rtol=0, atol=1e-5)
    assert model.classify([("the cat", "sat")]) == [model.classify(("the cat", "sat"))]


def test_a_pair_is_no_list_of_two() -> None:
    model = tiny("bert-classify")
    pair, two = model.classify(("the cat", "sat")), model.classify(["the cat", "sat"])
    assert len(two) == 2
    assert pair not in two
    assert pair != model.classify(("sat", "the cat"))
    assert len(model.classify(("the", "cat", "sat"))) == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("", "there is no token in the text"),
        (("the cat", ""), "there is no token in the text"),
        ([("the", "cat"), ("", "cat")], "there is no token in text 1 of the list"),
        ([], "there is no token in the text"),
        ([("the", "cat"), "cat"], "a mixture of them came"),
        (("the cat " * 20, "sat"), "44 tokens, but the model takes at most 41"),
        (("the", "\ud800"), "text must be valid Unicode"),
        (7, "int came"),
    ],
)
def test_what_cannot_be_classified_is_one_line(given: Any, message: str) -> None:
    with pytest.raises(QkvError, match=message) as caught:
        tiny("bert-classify").classify(given)
    assert "\n" not in str(caught.value)


def test_segments_that_the_model_does_not_know_are_refused(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "bert-classify")
    path = copy.directory / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    for piece in tokenizer["post_processor"]["pair"][3:]:
        next(iter(piece.values()))["type_id"] = 9
    path.write_text(json.dumps(tokenizer))
    with pytest.raises(QkvError, match="the segment of a token must be from 0 to 1, but it is 9"):
        copy.load().classify(("the cat", "sat"))


def test_files_may_leave_segments_out(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "bert-classify")
    path = copy.directory / "tokenizer_config.json"
    path.write_text('{"model_input_names": ["input_ids", "attention_mask"]}')
    model, pair = copy.load(), ("the cat sat", "a mat, 苹果树.")
    assert model.tokenizer is not None
    assert model.classify(pair) == pytest.approx(model.classify(model.tokenizer.encode_pair(*pair)[0]))
    assert model.classify(pair) != pytest.approx(tiny("bert-classify").classify(pair), abs=1e-3)
    path.write_text('{"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}')
    assert copy.load().classify(pair) == tiny("bert-classify").classify(pair)
    path.write_text('{"model_input_names": "input_ids"}')
    with pytest.raises(QkvError, match="'model_input_names' must be a list of names"):
        copy.load()


# replaced words


def test_how_likely_each_word_was_replaced() -> None:
    model, arrays = tiny("electra-detect"), known("electra-detect")
    expected = 1 / (1 + np.exp(-arrays["41.logits"].astype(np.float64)))
    np.testing.assert_allclose(model.replaced(arrays["41.ids"]), expected, rtol=0, atol=1e-5)
    many = model.replaced([arrays["7.ids"], arrays["41.ids"]])
    np.testing.assert_allclose(many[1], expected, rtol=0, atol=1e-5)
    assert model.replaced("the cat").shape == (4,)


def test_weights_kept_in_16_bits() -> None:
    for name in FILL:
        model = load(tiny(name).directory, dtype="float16")
        assert model.embeddings.W_word.dtype == np.float16
        np.testing.assert_allclose(model.logits("the cat"), tiny(name).logits("the cat"), **CLOSE)
    for name in CLASSIFY:
        found = load(tiny(name).directory, dtype="float16").classify(["the cat", "sat"])
        for labels, expected in zip(found, tiny(name).classify(["the cat", "sat"]), strict=True):
            assert labels == pytest.approx(expected, abs=1e-4)
