"""Encoder-decoders held to transformers on tiny random models; caches, batches and files never change the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given as given_values
from hypothesis import strategies as st
from tests.seq2seq_fixture import (
    CLOSE,
    EXACT,
    FAMILIES,
    LENGTHS,
    TINY,
    VOCAB_SIZE,
    Copy,
    given,
    known,
    random_ids,
    tiny,
)

import qkv
from qkv.errors import FileError, QkvError
from qkv.io.config import Config
from qkv.layers import ContextCache
from qkv.models import EncoderDecoder, load
from qkv.models.families import SEQ2SEQ
from qkv.models.seq2seq import Target
from qkv.ops.biases import t5_relative

N_NEW = 11
WRONG = 1e-3  # a fault must show by far more than the tolerance


# what is computed


def test_every_family_is_held_to_transformers() -> None:
    found = {family.replace("_v1_1", "") for family in FAMILIES}
    assert found == {family.model_type for family in SEQ2SEQ}


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("family", FAMILIES)
def test_equals_transformers(family: str, length: int) -> None:
    model, arrays = tiny(family), known(family)
    source, written = model.encode_source(given(family, length)), arrays[f"{length}.written"]
    assert source.states.dtype == np.float32
    np.testing.assert_allclose(source.states, arrays[f"{length}.encoder"], **CLOSE)
    with qkv.record("decoder.layers.*.cross_attention.weights") as trace:
        logits = model.logits(source, decoder_ids=written)
    np.testing.assert_allclose(logits, arrays[f"{length}.logits"], **CLOSE)
    if length == LENGTHS[0]:
        np.testing.assert_allclose(np.stack(list(trace.values())), arrays["cross"], **CLOSE)
    assert model.generate(given(family, length), max_new_tokens=N_NEW) == arrays[f"{length}.greedy"].tolist()


def test_paths() -> None:
    with qkv.record() as trace:
        tiny("bart").logits(given("bart", 7), decoder_ids=[2, 5, 11])
    for path, shape in (
        ("encoder.embeddings.out", (7, 20)), ("encoder.layers.1.attention.weights", (5, 7, 7)),
        ("encoder.out", (7, 20)), ("decoder.layers.0.self_attention.weights", (4, 3, 3)),
        ("decoder.layers.2.cross_attention.weights", (4, 3, 7)), ("decoder.layers.2.cross_attention.k", (4, 7, 5)),
        ("decoder.layers.2.resid_crossed", (3, 20)), ("decoder.out", (3, 20)), ("head.logits", (3, VOCAB_SIZE)),
    ):  # fmt: skip
        assert trace[path].shape == shape, path
    with qkv.record() as trace:
        tiny("whisper")(given("whisper", 7), decoder_ids=[3])
    assert trace["encoder.embeddings.convolution_1.windows"].shape == (100, 240)
    assert trace["encoder.embeddings.halved"].shape == (50, 20)


# caches and batches


@pytest.mark.parametrize("family", FAMILIES)
@given_values(cuts=st.lists(st.integers(1, 12), unique=True).map(sorted))
def test_any_chunks_equal_one_pass(family: str, cuts: list[int]) -> None:
    model, ids = tiny(family, "float64"), random_ids(3, 13)
    source = model.encode_source(given(family, 7))
    caches = model.new_caches()
    parts = [model.logits(source, decoder_ids=part, caches=caches) for part in np.split(ids, cuts)]
    np.testing.assert_allclose(np.concatenate(parts), model.logits(source, decoder_ids=ids), **EXACT)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_equals_single_runs(family: str) -> None:
    """Sources of different lengths, and answers of different lengths."""
    model = tiny(family, "float64")
    sources: list[Any] = [given(family, 7), given(family, 23), given(family, 23)[:3001]]
    if family != "whisper":
        sources = [random_ids(0, 5), random_ids(1, 17), random_ids(2, 1)]
    written = [random_ids(4, 3), random_ids(5, 11), random_ids(6, 7)]
    for source, alone in zip(model.encode_source(sources).states, sources):
        np.testing.assert_allclose(source, model.encode_source(alone).states, **EXACT)
    for logits, source, ids in zip(model.logits(sources, decoder_ids=written), sources, written):
        np.testing.assert_allclose(logits, model.logits(source, decoder_ids=ids), **EXACT)
    expected = [model.generate(source, decoder_ids=ids, max_new_tokens=N_NEW) for source, ids in zip(sources, written)]
    assert model.generate(sources, decoder_ids=written, max_new_tokens=N_NEW) == expected
    alone = [model.generate(source, max_new_tokens=N_NEW, temperature=1.5, seed=7) for source in sources]
    assert model.generate(sources, max_new_tokens=N_NEW, temperature=1.5, seed=7) == alone
    assert list(model.stream(sources[1], max_new_tokens=N_NEW, temperature=1.5, seed=7)) == alone[1]


def test_keys_and_values_of_the_source_are_computed_once() -> None:
    model = tiny("t5")
    source = model.encode_source(given("t5", 7))
    caches = model.new_caches()
    calls = []
    layer = model.decoder.layers[1].cross_attention
    project = layer.keys_values
    layer.keys_values = lambda rows: calls.append(len(rows)) or project(rows)
    try:
        for token in (0, 5, 9):
            model.logits(source, decoder_ids=[token], caches=caches)
    finally:
        del layer.keys_values
    assert calls == [7]


def test_what_is_kept_of_one_source_is_not_used_for_another() -> None:
    model = tiny("t5")
    one, other = (model.encode_source(given("t5", length)) for length in LENGTHS)
    expected = model.logits(other, decoder_ids=[0, 5])
    model.logits(one, decoder_ids=[0])
    stale = replace(other, kept=one.kept)
    with pytest.raises(QkvError) as caught:
        model.logits(stale, decoder_ids=[0, 5])
    assert caught.value.key == "other_context"
    for cache in one.kept:  # a cache that does not look at what it is asked about would give something else
        cache._context = other.hidden
    assert np.abs(model.logits(stale, decoder_ids=[0, 5]) - expected).max() > WRONG


def test_a_source_belongs_to_its_model() -> None:
    source = tiny("t5").encode_source([5, 7])
    with pytest.raises(QkvError) as caught:
        tiny("t5_v1_1").logits(source, decoder_ids=[0])
    assert caught.value.key == "other_source"


def test_writing_twice_reads_the_source_once() -> None:
    model = tiny("bart")
    source = model.encode_source(given("bart", 7))
    first = model.generate(source, max_new_tokens=3)
    kept = source.batched().kept[0]._kept
    assert kept is not None
    assert model.generate(source, max_new_tokens=3) == first
    assert source.batched().kept[0]._kept is kept


def test_without_the_mask_a_batch_is_not_what_single_runs_are() -> None:
    model = tiny("bart")
    source = model.encode_source([given("bart", 7), given("bart", 23)])
    expected = model.logits(given("bart", 7), decoder_ids=[2, 5])
    unmasked = replace(source, lengths=None, kept=[ContextCache() for _ in source.kept])
    np.testing.assert_allclose(model.logits(source, decoder_ids=[[2, 5], [2, 5]])[0], expected, **CLOSE)
    assert np.abs(model.logits(unmasked, decoder_ids=[[2, 5], [2, 5]])[0] - expected).max() > WRONG


def test_beams_find_what_the_same_search_over_whole_passes_finds() -> None:
    model = tiny("bart")
    sources = [given("bart", 7), given("bart", 23)]
    together = model.generate(sources, max_new_tokens=5, n_beams=3)
    assert together == [model.generate(source, max_new_tokens=5, n_beams=3) for source in sources]

    def score(source: Any, ids: list[int]) -> float:
        logits = model.logits(source, decoder_ids=[2, *ids[:-1]])
        return float(qkv.log_softmax(logits)[np.arange(len(ids)), ids].sum())

    for source, found in zip(sources, together):
        assert score(source, found) >= score(source, model.generate(source, max_new_tokens=5)) - 1e-5


# planted faults: each must show


def take_out(side: str, rule: str, layers: slice = slice(None)) -> Callable[[EncoderDecoder], None]:
    def taken(model: EncoderDecoder) -> None:
        for layer in getattr(model, side).layers[layers]:
            attention = layer.attention if side == "encoder" else layer.self_attention
            attention.rules.pop(rule)

    return taken


def turn_bias(side: str) -> Callable[[EncoderDecoder], None]:
    """The other direction: in the encoder earlier and later keys change places, in the decoder later ones count."""

    def turned(model: EncoderDecoder) -> None:
        for layer in getattr(model, side).layers:
            attention = layer.attention if side == "encoder" else layer.self_attention
            bias = attention.rules["bias"]
            attention.rules["bias"] = qkv.biases.custom(lambda i, j, bias=bias: bias.added(-i, -j))

    return turned


def other_distance(model: EncoderDecoder) -> None:
    for layer in model.encoder.layers:
        bias = layer.attention.rules["bias"]
        table = bias(range(1), range(1)).shape
        assert table[0] == 3
        layer.attention.rules["bias"] = qkv.biases.custom(lambda i, j, bias=bias: bias.added(i, np.minimum(j, i + 3)))


def drop(*fields: str) -> Callable[[EncoderDecoder], None]:
    def dropped(model: EncoderDecoder) -> None:
        part: Any = model
        for name in fields[:-1]:
            part = part[int(name)] if name.isdigit() else getattr(part, name)
        setattr(part, fields[-1], None)

    return dropped


def shift_positions(model: EncoderDecoder) -> None:
    for side in (model.encoder, model.decoder):
        side.embeddings.W_position = np.roll(side.embeddings.W_position, 2, axis=0)


def tie(model: EncoderDecoder) -> None:
    model.head.W = model.decoder.embeddings.W_word.T


def other_order(model: EncoderDecoder) -> None:
    for layer in model.decoder.layers:
        layer.order = "post" if layer.order == "pre" else "pre"


def swap_attentions(model: EncoderDecoder) -> None:
    for layer in model.decoder.layers:
        layer.self_attention, layer.cross_attention = layer.cross_attention, layer.self_attention


def exact_gelu(model: EncoderDecoder) -> None:
    for layer in (*model.encoder.layers, *model.decoder.layers):
        layer.feed_forward.activation = "gelu"


def step_by_one(model: EncoderDecoder) -> None:
    model.encoder.embeddings.convolution_2.padding = 0
    model.encoder.embeddings.W_position = model.encoder.embeddings.W_position[:49]


def mirror(model: EncoderDecoder) -> None:
    convolution = model.encoder.embeddings.convolution_1
    convolution.W = convolution.W[::-1]


FAULTS: dict[str, tuple[str, Callable[[EncoderDecoder], None]]] = {
    "relative bias of the encoder turned round": ("t5", turn_bias("encoder")),
    "relative bias of the decoder turned round": ("t5", turn_bias("decoder")),
    "relative bias cut at three": ("t5", other_distance),
    "relative bias in the first layer alone": ("t5", take_out("decoder", "bias", slice(1, None))),
    "scores divided by a root": ("t5", take_out("encoder", "scale")),
    "no scale before the tied head": ("t5", drop("head", "scale")),
    "a tied head instead of its own": ("t5_v1_1", tie),
    "the exact gelu": ("t5_v1_1", exact_gelu),
    "positions from row 0": ("bart", shift_positions),
    "no scale of the embeddings": ("bart", drop("decoder", "embeddings", "scale")),
    "no norm of the embeddings": ("bart", drop("encoder", "embeddings", "norm")),
    "no bias of the logits": ("bart", drop("head", "b")),
    "norms before the parts": ("bart", other_order),
    "norms after the parts": ("mbart", other_order),
    "no last norm": ("mbart", drop("decoder", "norm")),
    "no positions": ("marian", drop("encoder", "embeddings", "W_position")),
    "self and cross attention exchanged": ("marian", swap_attentions),
    "the second convolution without padding": ("whisper", step_by_one),
    "a mirrored convolution": ("whisper", mirror),
    "no bias of the queries": ("whisper", drop("decoder", "layers", "1", "cross_attention", "b_Q")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_shows(fault: str) -> None:
    family, plant = FAULTS[fault]
    model, arrays = load(TINY / family), known(family)
    plant(model)
    found = [model.logits(given(family, n), decoder_ids=arrays[f"{n}.written"]) for n in LENGTHS]
    assert max(float(np.abs(each - arrays[f"{n}.logits"]).max()) for each, n in zip(found, LENGTHS)) > WRONG


def test_the_bias_of_the_tiny_models_reaches_every_kind_of_bucket() -> None:
    """Near ones, far ones, and those that all lie in the last."""
    settings = tiny("t5").settings
    table = np.arange(float(settings.n_buckets))[:, None]
    bias = t5_relative(table, bidirectional=True, max_distance=settings.max_distance)
    assert set(bias(range(23), range(23)).ravel()) == set(range(settings.n_buckets)) - {4.0}  # 4: later, at distance 0


# how an answer begins and ends


def with_target(family: str, **changes: Any) -> EncoderDecoder:
    model = load(TINY / family)
    model.target = replace(model.target, **changes)
    return model


def test_how_an_answer_begins() -> None:
    source = given("bart", 7)
    model = with_target("bart", first=13)
    found = model.generate(source, max_new_tokens=5)
    assert found[0] == 13
    assert found[1:] == tiny("bart").generate(source, decoder_ids=[2, 13], max_new_tokens=4)
    assert model.generate(source, max_new_tokens=3, n_beams=2)[0] == 13


def test_what_is_never_written() -> None:
    source = given("bart", 23)
    usual = tiny("bart").generate(source, max_new_tokens=N_NEW)
    never = with_target("bart", never=frozenset(usual)).generate(source, max_new_tokens=N_NEW)
    assert not set(never) & set(usual)
    late = with_target("bart", never_first=frozenset([usual[0]])).generate(source, max_new_tokens=N_NEW)
    assert late[0] != usual[0]
    assert late[1:] == tiny("bart").generate(source, decoder_ids=[2, late[0]], max_new_tokens=N_NEW - 1)


def test_where_an_answer_ends() -> None:
    source = given("bart", 7)
    model = load(TINY / "bart")
    usual = model.generate(source, max_new_tokens=N_NEW)
    model.end_ids = frozenset([usual[3]])
    assert model.generate(source, max_new_tokens=N_NEW) == usual[: usual.index(usual[3])]


def test_text_for_text() -> None:
    model = tiny("bart")
    text = "the cat sees a big tree"
    ids = model.generate(model.tokenizer.encode(text), max_new_tokens=N_NEW)
    assert model.generate(text, max_new_tokens=N_NEW) == model.tokenizer.decode(ids)
    assert "".join(model.stream(text, max_new_tokens=N_NEW)) == model.tokenizer.decode(ids)
    one, two = model.generate([text, "my dog eats"], max_new_tokens=4)
    assert isinstance(one, str)
    assert isinstance(two, str)
    word = model.tokenizer.decode(ids).split()[0]
    assert model.generate(text, max_new_tokens=N_NEW, stop=word) == ""


def test_the_files_say_how_an_answer_begins(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "bart")
    copy.json(
        "generation_config.json", decoder_start_token_id=5, forced_bos_token_id=7, bad_words_ids=[[11], [13]],
        suppress_tokens=[17], begin_suppress_tokens=[19], eos_token_id=[23, 29], lang_to_id={"<|en|>": 31},
        task_to_id={"transcribe": 37}, no_timestamps_token_id=41, forced_decoder_ids=[[1, 43], [2, 47]],
    )  # fmt: skip
    model = copy.load()
    assert model.target == Target(
        (5, 43, 47), 7, frozenset([11, 13, 17]), frozenset([19]), {"en": 31}, {"transcribe": 37}, 41
    )  # fmt: skip
    assert model.end_ids == {23, 29}
    copy.json("generation_config.json", decoder_start_token_id=..., forced_decoder_ids=[[1, None], [2, 47]])
    copy.json("config.json", decoder_start_token_id=53)
    assert copy.load().target.start == (53,)
    copy.json("config.json", decoder_start_token_id=...)
    model = copy.load()
    assert model.target.start == ()
    with pytest.raises(QkvError, match="with which token an answer begins"):
        model.generate([5, 7])
    assert len(model.generate([5, 7], decoder_ids=[2], max_new_tokens=3)) == 3


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("decoder_start_token_id", VOCAB_SIZE, "a token id from 0 to 66"), ("forced_bos_token_id", "5", "a token id"),
        ("suppress_tokens", [True], "a list of token ids"), ("begin_suppress_tokens", 5, "a list of token ids"),
        ("bad_words_ids", [[5, 7]], "one token id each"), ("forced_decoder_ids", [[2, 5]], "in order"),
        ("forced_decoder_ids", [5], "in order"), ("lang_to_id", [5], "an object of token ids"),
    ],
)  # fmt: skip
def test_a_rule_of_writing_that_is_none_is_refused(name: str, value: Any, expected: str, tmp_path: Path) -> None:
    copy = Copy(tmp_path, "bart")
    copy.json("generation_config.json", **{name: value})
    with pytest.raises(FileError, match=expected) as caught:
        copy.load()
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


# files


@pytest.mark.parametrize(("family", "name"), [("t5", "T5Model"), ("bart", "BartModel"), ("whisper", "WhisperModel")])
def test_a_model_without_a_head(family: str, name: str, tmp_path: Path) -> None:
    copy, whole = Copy(tmp_path, family), tiny(family)
    copy.json("config.json", architectures=[name])
    bare = {tensor.removeprefix("model."): value for tensor, value in copy.tensors().items()}
    head = ("lm_head.weight", "final_logits_bias")
    copy.write({tensor: value for tensor, value in bare.items() if tensor not in head})
    model, ids = copy.load(), [3, 5, 11]
    source = given(family, 7)
    np.testing.assert_array_equal(model(source, decoder_ids=ids), whole(source, decoder_ids=ids))
    for call in (model.logits, model.generate):
        with pytest.raises(QkvError) as caught:
            call(source, decoder_ids=ids)
        assert caught.value.key == "no_head"


@pytest.mark.parametrize("config", [{}, {"is_encoder_decoder": False}])
def test_a_model_that_only_reads(config: dict[str, Any], tmp_path: Path) -> None:
    copy = Copy(tmp_path, "t5")
    copy.json("config.json", architectures=["T5EncoderModel"], **config)
    copy.write({name: value for name, value in copy.tensors().items() if not name.startswith("decoder.")})
    model, source = copy.load(), given("t5", 23)
    np.testing.assert_array_equal(model.encode_source(source).states, tiny("t5").encode_source(source).states)
    for call in (model, model.logits, model.generate):
        with pytest.raises(QkvError) as caught:
            call(source)
        assert caught.value.key == "no_decoder"


def test_tables_of_either_sides_own(tmp_path: Path) -> None:
    """Files may hold the one table of tokens two or three times."""
    copy = Copy(tmp_path, "t5")
    tensors = copy.tensors()
    tensors |= {f"{side}.embed_tokens.weight": tensors["shared.weight"] for side in ("encoder", "decoder")}
    bias = "decoder.block.0.layer.{}.relative_attention_bias.weight"
    tensors[bias.format("1.EncDecAttention")] = tensors[bias.format("0.SelfAttention")]
    copy.write(tensors)
    expected = tiny("t5").logits([5, 7], decoder_ids=[0, 3])
    np.testing.assert_array_equal(copy.load().logits([5, 7], decoder_ids=[0, 3]), expected)
    del tensors["shared.weight"]
    copy.write(tensors)
    np.testing.assert_array_equal(copy.load().logits([5, 7], decoder_ids=[0, 3]), expected)
    tensors["encoder.embed_tokens.weight"] = tensors["encoder.embed_tokens.weight"][::-1]
    copy.write(tensors)
    assert np.abs(copy.load().logits([5, 7], decoder_ids=[0, 3]) - expected).max() > WRONG


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weights_in_sixteen_bits(family: str, dtype: str) -> None:
    """The files hold float16: kept so, nothing is lost; in bfloat16 three digits are left."""
    ids = random_ids(3, 5)
    logits = tiny(family, dtype).logits(given(family, 7), decoder_ids=ids)
    expected = tiny(family).logits(given(family, 7), decoder_ids=ids)
    assert logits.dtype == np.float32
    largest = float(np.abs(expected).max())
    assert np.abs(logits - expected).max() < (1e-4 if dtype == "float16" else 0.1) * largest


def test_positions_that_are_computed_need_not_be_there(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "marian")
    copy.write({name: value for name, value in copy.tensors().items() if "embed_positions" not in name})
    arrays = known("marian")
    logits = copy.load().logits(arrays["7.ids"], decoder_ids=arrays["7.written"])
    np.testing.assert_allclose(logits, arrays["7.logits"], **CLOSE)


@pytest.mark.parametrize(
    ("family", "changes", "expected"),
    [
        ("t5", {"feed_forward_proj": "gated-tanh"}, "'feed_forward_proj' must be one of"),
        ("t5", {"is_gated_act": True}, "'is_gated_act' must be False"),
        ("t5", {"dense_act_fn": "gelu"}, "'dense_act_fn' must be 'relu'"),
        ("t5", {"relative_attention_num_buckets": 9}, "an even number"),
        ("t5", {"relative_attention_max_distance": 4}, "more than relative_attention_num_buckets / 2 = 4"),
        ("t5", {"num_heads": 4}, "must have shape"), ("t5", {"use_relative_keys": 1}, "'use_relative_keys'"),
        ("t5", {"architectures": ["T5ForQuestionAnswering"]}, "T5ForQuestionAnswering"),
        ("bart", {"encoder_attention_heads": 3}, "a divisor of d_model=20"),
        ("bart", {"normalize_before": True}, "'normalize_before' must be False"),
        ("bart", {"tie_word_embeddings": False}, "has no tensor lm_head.weight"),
        ("mbart", {"add_final_layer_norm": False}, "must be True"),
        ("marian", {"decoder_vocab_size": 68}, "'decoder_vocab_size' must be 67"),
        ("whisper", {"num_mel_bins": 79}, "must have shape"), ("whisper", {"scale_embedding": True}, "must be False"),
    ],
)  # fmt: skip
def test_settings_that_are_not_understood_are_refused(
    family: str, changes: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    copy = Copy(tmp_path, family)
    copy.json("config.json", **changes)
    with pytest.raises(FileError, match=expected) as caught:
        copy.load()
    assert "\n" not in str(caught.value)


def test_a_layer_more_than_the_file_holds(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "bart")
    copy.json("config.json", decoder_layers=4)
    with pytest.raises(FileError, match=r"has no tensor decoder\.layers\.3"):
        copy.load()


# wrong calls


@pytest.mark.parametrize(
    ("call", "key"),
    [
        (lambda m: m.logits([5, 7]), "decoder_ids_needed"), (lambda m: m([5, 7]), "decoder_ids_needed"),
        (lambda m: m.logits([5, 7], decoder_ids=[2, 67]), "token_id"),
        (lambda m: m.logits([5, 67], decoder_ids=[2]), "token_id"), (lambda m: m.generate([5, -1]), "token_id"),
        (lambda m: m.logits([], decoder_ids=[2]), "empty_text"), (lambda m: m.generate(""), "empty_text"),
        (lambda m: m.generate([[5], []]), "empty_text_at"), (lambda m: m.logits([5], decoder_ids=[]), "empty_text"),
        (lambda m: m.logits([5] * 42, decoder_ids=[2]), "too_long"),
        (lambda m: m.logits([5], decoder_ids=[2] * 42), "too_long"),
        (lambda m: m.generate([5], max_new_tokens=41), "answer_long"),
        (lambda m: m.generate([5], max_new_tokens=3, slide=True), "unused"),
        (lambda m: m.logits([5], decoder_ids="a cat"), "model_input"),
        (lambda m: m.logits([5], decoder_ids=[[2]]), "model_input"),
        (lambda m: m.logits([[5], [7]], decoder_ids=[2]), "model_input"),
        (lambda m: m.logits([[5], [7]], decoder_ids=[[2]]), "model_input"),
        (lambda m: m.logits([[5], [7]], decoder_ids=[[2], [3]], caches=m.new_caches()), "model_input"),
        (lambda m: m.stream([[5], [7]]), "model_input"), (lambda m: m.generate({"a": 1}), "model_input"),
        (lambda m: m.transcribe([5, 7]), "cannot_hear"), (lambda m: m.generate([0.5, 0.25]), "dtype"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_one_line(call: Callable[[EncoderDecoder], Any], key: str) -> None:
    with pytest.raises(QkvError) as caught:
        call(tiny("bart"))
    assert caught.value.key == key
    assert "\n" not in str(caught.value)


def test_more_than_the_positions_with_caches() -> None:
    model = tiny("bart")
    caches = model.new_caches()
    model.logits([5], decoder_ids=[2] * 40, caches=caches)
    model.logits([5], decoder_ids=[3], caches=caches)
    with pytest.raises(QkvError) as caught:
        model.logits([5], decoder_ids=[3], caches=caches)
    assert caught.value.key == "too_long"


# published models


def t5_size(d: int, d_kv: int, d_ff: int, layers: int, heads: int, vocab: int, gated: bool, own_head: bool) -> int:
    attention, fed = 4 * d * d_kv * heads, (3 if gated else 2) * d * d_ff
    encoder, decoder = layers * (attention + fed + 2 * d), layers * (2 * attention + fed + 3 * d)
    return encoder + decoder + 2 * d + 2 * 32 * heads + vocab * d * (2 if own_head else 1)


@pytest.mark.parametrize(
    ("model_type", "config", "parameters"),
    [
        ("t5", {"d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6, "num_heads": 8, "vocab_size": 32128,
                "n_positions": 512, "decoder_start_token_id": 0, "feed_forward_proj": "relu"}, 60_506_624),
        ("t5", {"d_model": 512, "d_kv": 64, "d_ff": 1024, "num_layers": 8, "num_heads": 6, "vocab_size": 32128,
                "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}, 76_961_152),
        ("bart", {"d_model": 768, "encoder_layers": 6, "decoder_layers": 6, "encoder_ffn_dim": 3072,
                  "decoder_ffn_dim": 3072, "encoder_attention_heads": 12, "decoder_attention_heads": 12,
                  "max_position_embeddings": 1024, "vocab_size": 50265, "normalize_embedding": True,
                  "num_beams": 4, "no_repeat_ngram_size": 3, "early_stopping": True}, 139_420_416),
        ("whisper", {"d_model": 384, "encoder_layers": 4, "decoder_layers": 4, "encoder_ffn_dim": 1536,
                     "decoder_ffn_dim": 1536, "encoder_attention_heads": 6, "decoder_attention_heads": 6,
                     "num_mel_bins": 80, "max_source_positions": 1500, "max_target_positions": 448,
                     "vocab_size": 51865, "median_filter_width": 7}, 37_760_640),
    ],
)  # fmt: skip
def test_the_size_of_published_models(model_type: str, config: dict[str, Any], parameters: int, tmp_path: Path) -> None:
    """As many numbers are asked for as T5 small, its version 1.1, BART base and Whisper tiny are known to hold."""
    family = next(family for family in SEQ2SEQ if family.model_type == model_type)
    settings = family.settings(Config(tmp_path / "config.json", config))
    names = () if model_type == "t5" else ("final_logits_bias",)
    shapes = {
        row.foreign: [getattr(settings, axis) for axis in row.axes.split()]
        for row in family.rows(settings, {"shared.weight", *names})
    }
    shapes.pop("final_logits_bias", None)
    assert sum(int(np.prod(shape)) for shape in shapes.values()) == parameters
    if model_type == "t5":
        gated = settings.gated
        sizes = (settings.d_model, config["d_kv"], settings.encoder_d_ff, settings.n_encoder_layers)
        assert parameters == t5_size(*sizes, settings.encoder_heads, settings.vocab_size, gated, gated)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of the overflow
@pytest.mark.parametrize("how", [{}, {"n_beams": 2}, {"temperature": 1.0, "seed": 0}])
def test_logits_that_are_no_numbers_give_no_token(how: dict[str, Any], tmp_path: Path) -> None:
    model = Copy(tmp_path, "bart").load()
    model.decoder.layers[0].feed_forward.W_1[:] = 3e38  # which overflows: inf - inf
    with pytest.raises(QkvError, match="the logits hold NaN"):
        model.generate([3, 4, 5], max_new_tokens=3, **how)
