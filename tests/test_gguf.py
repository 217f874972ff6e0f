"""GGUF: each architecture against transformers' numbers, every packing, and files that are damaged or hostile."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.decoder_fixture import CLOSE, LENGTHS, Copy, known
from tests.gguf_fixture import metadata_of, tensors_of, vocabulary, write

from qkv.errors import ArgumentError, FileError
from qkv.io.gguf.file import PACKINGS, open_gguf
from qkv.models import Decoder, load
from qkv.ops.scaling import Llama3, Yarn

LLAMA = metadata_of("llama") | vocabulary()


def frequencies() -> dict[str, np.ndarray]:
    """Llama 3's bands as the divisors that llama.cpp stores."""
    plain = 500.0 ** (-np.arange(0, 6, 2) / 6)
    return {"rope_freqs.weight": (plain / Llama3(8.0, 1.0, 4.0, 13).frequencies(6, 500.0, None)[0]).astype(np.float32)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.gguf"


def llama(path: Path, **changes: Any) -> Path:
    """The tiny Llama as a file, in which metadata is changed; `...` takes some out."""
    metadata = LLAMA | {name.replace("__", "."): value for name, value in changes.items()}
    metadata = {name: value for name, value in metadata.items() if value is not ...}
    return write(path, metadata, tensors_of("llama") | frequencies())


def refused(path: Path, message: str, key: str) -> None:
    with pytest.raises(FileError) as caught:
        load(path)
    assert caught.value.key == key
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None


# the mapping


def test_llama_with_bands_and_biases(path: Path) -> None:
    model = load(llama(path))
    for n in LENGTHS:
        np.testing.assert_allclose(model.logits(known("llama")[f"{n}.ids"]), known("llama")[f"{n}.logits"], **CLOSE)
    assert model.generate(known("llama")["7.ids"], max_new_tokens=11) == known("llama")["7.greedy"].tolist()


def test_qwen2(path: Path) -> None:
    model = load(write(path, metadata_of("qwen2"), tensors_of("qwen2")))
    for n in LENGTHS:
        np.testing.assert_allclose(model.logits(known("qwen2")[f"{n}.ids"]), known("qwen2")[f"{n}.logits"], **CLOSE)


# llama.cpp sees all keys in every layer of Qwen3, and scales Gemma 2 by the width of a head.
@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("qwen3", {"use_sliding_window": False, "layer_types": ..., "sliding_window": None}),
        ("gemma2", {"query_pre_attn_scalar": 6}),
    ],
)
def test_the_same_from_both_formats(path: Path, tmp_path: Path, family: str, changes: dict[str, Any]) -> None:
    copy = Copy(tmp_path, family)
    copy.config(**changes)
    other, model = copy.load(), load(write(path, metadata_of(family), tensors_of(family)))
    for n in LENGTHS:
        ids = known(family)[f"{n}.ids"]
        np.testing.assert_allclose(model.logits(ids), other.logits(ids), rtol=0, atol=1e-5)


def test_gemma2_of_46_layers_scales_by_another_width(path: Path) -> None:
    from qkv.io.gguf.models import read_settings

    metadata = metadata_of("gemma2") | {"gemma2.block_count": 46}
    with open_gguf(write(path, metadata, tensors_of("gemma2"))) as file:
        assert read_settings(file).scale == (20 / 4) ** -0.5


def test_a_linear_and_a_yarn_stretch(path: Path) -> None:
    for kind, factor in (("linear", 2.0), ("yarn", 4.0)):
        stretch = {"scaling.type": kind, "scaling.factor": factor, "scaling.original_context_length": 13}
        own = {f"llama.rope.{name}": value for name, value in stretch.items()}
        model = load(write(path, LLAMA | own, tensors_of("llama")))
        scaling = model.settings.rotary[2].scaling
        assert scaling.factor == factor
        assert kind == "linear" or (isinstance(scaling, Yarn) and scaling.original_length == 13)


def test_progress_ends_at_the_end(path: Path) -> None:
    told: list[tuple[int, int]] = []
    load(llama(path), progress=lambda done, total: told.append((done, total)))
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert len(told) == len(tensors_of("llama"))
    assert told[-1][0] == told[-1][1] > 0


@pytest.mark.parametrize("packing", PACKINGS)
def test_every_packing(path: Path, packing: str) -> None:
    """Rows of several blocks, more numbers than are unpacked at once, against the library's own reader."""
    kind = gguf.GGMLQuantizationType[packing]
    per_block, n_bytes = gguf.GGML_QUANT_SIZES[kind]
    n_blocks = -(-(2**18 + 1) // per_block) // 3 + 1
    bytes_ = np.random.default_rng(3).integers(0, 0x3C, (3, n_blocks * n_bytes), dtype=np.uint8)  # no exponent is huge
    write(path, LLAMA, {"x": bytes_}, x=kind)
    with open_gguf(path) as file:
        assert file.shapes == {"x": (3, n_blocks * per_block)}
        found = file.read("x")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, gguf.dequantize(gguf.GGUFReader(path).tensors[0].data, kind))
    assert len(np.unique(found)) > 1


# the tokenizer and the chat


def test_tokens(path: Path) -> None:
    tokenizer = load(llama(path)).tokenizer
    spelled = [tokenizer.tokens(tokenizer.encode(text)) for text in ("hello hello", "the  12", "<end>a<tag>")]
    assert spelled == [["hello", "Ġhello"], ["the", "ĠĠ", "1", "2"], ["<end>", "a", "<tag>"]]
    assert tokenizer.decode([0, 28, 1]) == " <tag>"  # a control token is left out, a tag of the user's is text
    assert load(path).end_ids == {0}


@pytest.mark.parametrize(
    ("words", "spelled"),
    [
        ("gpt-2", "the Ġ Ġ 12 Ċ Ċ at"),
        ("smollm", "the ĠĠ 1 2 Ċ Ċ at"),
        ("llama-bpe", "the Ġ Ġ 12 ĊĊ at"),
        ("dbrx", "the Ġ Ġ 12 ĊĊ at"),
        ("smaug-bpe", "the Ġ Ġ 12 ĊĊ at"),
        ("qwen2", "the Ġ Ġ 1 2 ĊĊ at"),
    ],
)
def test_words(path: Path, words: str, spelled: str) -> None:
    """By hand: what each pattern takes together, and the merges within that."""
    tokenizer = load(llama(path, tokenizer__ggml__pre=words)).tokenizer
    assert tokenizer.tokens(tokenizer.encode("the  12\n\nat")) == spelled.split()


def test_a_word_that_is_a_token_needs_no_merges(path: Path) -> None:
    for words, spelled in (("llama-bpe", ["the"]), ("gpt-2", [*"the"]), ("dbrx", [*"the"])):
        tokenizer = load(llama(path, tokenizer__ggml__pre=words, tokenizer__ggml__merges=["l l"])).tokenizer
        assert tokenizer.tokens(tokenizer.encode("the")) == spelled


def test_qwen2_takes_letters_and_their_accents_together(path: Path) -> None:
    tokens = [*LLAMA["tokenizer.ggml.tokens"][:-2], "Ã", "©"]  # the two bytes of é
    for words, spelled in (("qwen2", ["Ã", "©"]), ("gpt-2", ["e"])):
        tokenizer = load(llama(path, tokenizer__ggml__pre=words, tokenizer__ggml__tokens=tokens)).tokenizer
        assert tokenizer.tokens(tokenizer.encode("e\u0301")) == spelled


def test_a_token_before_and_after_every_text(path: Path) -> None:
    options = {"tokenizer__ggml__bos_token_id": 1, "tokenizer__ggml__add_bos_token": True,
               "tokenizer__ggml__add_eos_token": True}  # fmt: skip
    model = load(llama(path, **options))
    assert model.tokenizer.encode("a") == [1, 2, 0]
    assert model.tokenizer.n_special_tokens == 2
    assert model.tokenizer.encode("a", special_tokens=False) == [2]


@pytest.mark.parametrize("changes", [{"tokenizer__ggml__model": "t5"}, {"tokenizer__ggml__pre": "deepseek-llm"},
                                     {"tokenizer__ggml__pre": ...}])  # fmt: skip
def test_a_tokenizer_that_is_not_read_is_named_with_the_first_text(path: Path, changes: dict[str, Any]) -> None:
    model = load(llama(path, **changes))
    assert model.logits([2, 3]).shape == (2, 67)
    with pytest.raises(FileError, match=r"'tokenizer\.ggml\.(model|pre)'"):
        model.generate("a", max_new_tokens=1)


MESSAGES = [{"role": "user", "content": "hi {{ 7 }}"}]


def chatting(path: Path, template: str, **changes: Any) -> Decoder:
    return load(llama(path, tokenizer__chat_template=template, **changes))


def test_a_chat(path: Path) -> None:
    model = chatting(path, "{% for m in messages %}\n<{{ m.role }}>{{ m['content'] }}\n{% endfor %}\n"
                           "{% if add_generation_prompt %}<a>{% endif %}{{ eos_token }}")  # fmt: skip
    assert model.chat_prompt(MESSAGES) == "<user>hi {{ 7 }}\n<a><end>"
    assert model.chat_prompt(MESSAGES, answer=False) == "<user>hi {{ 7 }}\n<end>"


def test_the_first_token_is_not_put_twice(path: Path) -> None:
    template, start = "{{ bos_token }}x", {"tokenizer__ggml__bos_token_id": 1}
    assert chatting(path, template, **start).chat_prompt(MESSAGES) == "<tag>x"
    model = chatting(path, template, **start, tokenizer__ggml__add_bos_token=True)
    assert model.chat_prompt(MESSAGES) == "x"


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{% if", "unexpected"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "unsafe"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{{ range(10**9) | list }}", "Range too big"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{% include '/etc/passwd' %}", "loader"),
    ],
)
def test_a_template_that_cannot_be_used(path: Path, template: str, reason: str) -> None:
    with pytest.raises(FileError) as caught:
        chatting(path, template).chat_prompt(MESSAGES)
    assert caught.value.key == "chat"
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("messages", ["hi", [], ["hi"], [{"role": "user"}], None, {"role": "user", "content": "hi"}])
def test_what_is_no_chat(path: Path, messages: Any) -> None:
    with pytest.raises(ArgumentError, match="messages must be a list of messages, each with role and content"):
        chatting(path, "x").chat_prompt(messages)


def test_no_template(path: Path) -> None:
    with pytest.raises(FileError, match="has no chat template"):
        load(llama(path)).chat_prompt(MESSAGES)


def test_a_template_in_a_directory(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "llama")
    assert copy.load().chat_template is None
    settings_file = copy.directory / "tokenizer_config.json"
    settings_file.write_text('{"chat_template": "1{{ bos_token }}", "bos_token": {"content": "<s>"}}')
    assert copy.load().chat_prompt(MESSAGES) == "1<s>"
    settings_file.write_text('{"chat_template": [{"name": "default", "template": "2"}]}')
    assert copy.load().chat_prompt(MESSAGES) == "2"
    (copy.directory / "chat_template.jinja").write_text("3")
    assert copy.load().chat_prompt(MESSAGES) == "3"
    (copy.directory / "chat_template.jinja").unlink()
    settings_file.write_text('{"chat_template": 7}')
    with pytest.raises(FileError, match="'chat_template' must be a string, but it is 7"):
        copy.load()


# files that are not what they should be


@pytest.mark.parametrize(
    ("changes", "key", "message"),
    [
        ({"general__architecture": "mamba"}, "no_architecture", "'mamba'; known are: llama, qwen2, qwen3, gemma, "),
        ({"llama__embedding_length": ...}, "config_missing", "has no 'llama.embedding_length'"),
        ({"llama__context_length": ...}, "config_missing", "has no 'llama.context_length'"),
        ({"llama__embedding_length": 0}, "config_value", "'llama.embedding_length' must be an integer from 1"),
        ({"llama__block_count": 10**9}, "config_value", "'llama.block_count' must be an integer from 1 to 10000"),
        ({"llama__block_count": 4}, "tensor_missing", "blk.3.attn_q.weight"),
        ({"llama__block_count": 2}, "tensor_left_over", "blk.2.attn_"),
        ({"llama__attention__head_count_kv": 3}, "config_value", "'llama.attention.head_count' must be a multiple"),
        ({"llama__attention__head_count_kv": 1}, "tensor_shape", "'blk.0.attn_k.weight' must have shape (6, 20)"),
        ({"llama__feed_forward_length": [23, 23, 23]}, "config_value", "'llama.feed_forward_length'"),
        ({"llama__expert_count": 8}, "config_missing", "has no 'llama.expert_used_count'"),
        ({"llama__rope__dimension_count": 4}, "config_value", "'llama.rope.dimension_count' must be 6"),
        ({"llama__attention__value_length": 4}, "config_value", "'llama.attention.value_length' must be 6"),
        ({"llama__attention__sliding_window": 5}, "config_unknown", "'llama.attention.sliding_window'"),
        ({"llama__my_own": 5}, "config_unknown", "'llama.my_own' is not a setting that is understood"),
        ({"llama__rope__scaling__type": "longer"}, "config_value", "'llama.rope.scaling.type'"),
        ({"llama__rope__freq_base": float("nan")}, "config_value", "must be a number from"),
        ({"llama__attention__layer_norm_rms_epsilon": -1.0}, "config_value", "must be a number from 0 to 1"),
        ({"general__alignment": 24}, "damaged", "general.alignment is 24"),
        ({"tokenizer__ggml__tokens": ["a"] * 67}, "config_value", "'tokenizer.ggml.tokens' must be each token once"),
        ({"tokenizer__ggml__tokens": ...}, "config_value", "'tokenizer.ggml.tokens' must be a list of strings"),
        ({"tokenizer__ggml__merges": ["h Q"]}, "damaged", "out of vocabulary"),
        ({"tokenizer__ggml__merges": "h e"}, "config_value", "'tokenizer.ggml.merges' must be a list of strings"),
        ({"tokenizer__ggml__token_type": [1, 3]}, "config_value", "'tokenizer.ggml.token_type' must be 67 numbers"),
        ({"tokenizer__ggml__eos_token_id": "<end>"}, "config_value", "'tokenizer.ggml.eos_token_id' must be"),
        ({"tokenizer__chat_template": 7}, "config_value", "'tokenizer.chat_template' must be a string"),
    ],
)  # fmt: skip
def test_metadata(path: Path, changes: dict[str, Any], key: str, message: str) -> None:
    refused(llama(path, **changes), message, key)


def test_a_token_that_is_none_before_every_text(path: Path) -> None:
    llama(path, tokenizer__ggml__bos_token_id=67, tokenizer__ggml__add_bos_token=True)
    refused(path, "'tokenizer.ggml.bos_token_id' must be below 67, but it is 67", "config_value")


@pytest.mark.parametrize(
    ("changes", "key", "message"),
    [
        ({"output_norm.weight": None}, "tensor_missing", "has no tensor output_norm.weight"),
        ({"x": np.ones(3, np.float32)}, "tensor_left_over", "no part of the model uses: x"),
        ({"output_norm.weight": np.ones(21, np.float32)}, "tensor_shape", "must have shape (20,)"),
        ({"output_norm.weight": np.full(20, np.nan, np.float32)}, "tensor_value", "holds NaN"),
        ({"output_norm.weight": np.full(20, -np.inf, np.float16)}, "tensor_value", "holds inf"),
        ({"output_norm.weight": np.ones(20, np.int32)}, "tensor_dtype", "but its dtype is I32"),
        ({"rope_freqs.weight": np.ones(4, np.float32)}, "tensor_shape", "'rope_freqs.weight' must have shape (3,)"),
        ({"rope_freqs.weight": np.zeros(3, np.float32)}, "tensor_value", "'rope_freqs.weight' holds 0.0"),
    ],
)
def test_tensors(path: Path, changes: dict[str, Any], key: str, message: str) -> None:
    tensors = tensors_of("llama") | frequencies() | changes
    write(path, LLAMA, {name: tensor for name, tensor in tensors.items() if tensor is not None})
    refused(path, message, key)


def header(n_tensors: int, n_values: int, rest: bytes = b"", version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, n_tensors, n_values) + rest


def text(letters: bytes) -> bytes:
    return struct.pack("<Q", len(letters)) + letters


def value(kind: int, data: bytes, name: bytes = b"a") -> bytes:
    return text(name) + struct.pack("<I", kind) + data


def entry(name: bytes, *shape: int, kind: int = 0, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


ROOM = bytes(200)


@pytest.mark.parametrize(
    ("content", "message"),
    {
        "empty": (b"", "no GGUF"),
        "text": (b"version https://git-lfs", "no GGUF"),
        "the magic alone": (b"GGUF", "it ends within its header"),
        "version 1": (header(0, 0, version=1), "GGUF of version 1"),
        "big-endian": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "GGUF of version 50331648"),
        "2^60 tensors": (header(2**60, 0), "it ends before 1152921504606846976 things"),
        "2^64 - 1 values": (header(0, 2**64 - 1), "it ends before"),
        "a name of 2^60 bytes": (header(0, 1, struct.pack("<Q", 2**60) + ROOM), "it ends before"),
        "a text of 2^60 bytes": (header(0, 1, value(8, struct.pack("<Q", 2**60)) + ROOM), "it ends before"),
        "a list of 2^60": (header(0, 1, value(9, struct.pack("<IQ", 4, 2**60)) + ROOM), "it ends before"),
        "a list of lists": (header(0, 1, value(9, struct.pack("<IQ", 9, 1)) + ROOM), "metadata of type 9"),
        "an unknown type": (header(0, 1, value(77, b"") + ROOM), "metadata of type 77"),
        "a name twice": (header(0, 2, value(0, b"1") * 2 + ROOM), "'a' stands in it twice"),
        "no UTF-8": (header(0, 1, value(8, text(b"a\xff")) + ROOM), "no UTF-8 at byte 46"),
        "a tensor twice": (header(2, 0, entry(b"t", 1) * 2 + ROOM), "'t' stands in it twice"),
        "overlapping": (header(2, 0, entry(b"t", 9) + entry(b"u", 9, offset=32) + ROOM), "tensor 'u' overlaps another"),
        "behind the end": (header(1, 0, entry(b"t", 9, offset=2**40) + ROOM), "'t' ends behind the end of the file"),
        "2^62 numbers": (header(1, 0, entry(b"t", 2**31, 2**31) + ROOM), "'t' ends behind the end of the file"),
        "no number": (header(1, 0, entry(b"t", 0) + ROOM), "'t' cannot have the shape (0,)"),
        "no axis": (header(1, 0, entry(b"t") + ROOM), "'t' cannot have the shape ()"),
        "half a block": (header(1, 0, entry(b"t", 33, kind=2) + ROOM), "'t' cannot have the shape (33,)"),
        "2^32 - 1 axes": (header(1, 0, text(b"t") + b"\xff" * 4 + ROOM), "'t' has 4294967295 axes"),
    }.values(),
)
def test_damaged(path: Path, content: bytes, message: str) -> None:
    path.write_bytes(content)
    refused(path, message, "damaged")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (header(0, 1, value(9, struct.pack("<IQ", 0, 2**38))), "its header has more than 67108864 bytes"),
        (header(0, 1, value(8, struct.pack("<Q", 2**38))), "its header has more than 67108864 bytes"),
        (header(2**34, 0), "its header has more than 67108864 bytes"),
        (header(70_000, 0), "it has more than 65536 tensors"),
    ],
)
def test_what_a_hole_in_the_file_promises_is_not_read(path: Path, content: bytes, message: str) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.truncate(2**40)
    tracemalloc.start()
    try:
        refused(path, message, "damaged")
        assert tracemalloc.get_traced_memory()[1] < 10**7
    finally:
        tracemalloc.stop()


def test_a_packing_that_is_not_known(path: Path) -> None:
    path.write_bytes(header(1, 0, entry(b"t", 32, kind=9999) + ROOM))
    refused(path, "its dtype is number 9999", "tensor_dtype")


def test_a_name_is_not_needed_and_a_directory_is_no_file(path: Path, tmp_path: Path) -> None:
    other = llama(path).rename(tmp_path / "model")
    assert isinstance(load(other), Decoder)
    path.mkdir()
    with pytest.raises(FileError):
        load(path)


ODD = ([1], ["a", "a"], "a", "", 7, 0, -1.5, float("inf"), True)


@pytest.mark.parametrize("name", list(LLAMA | {"tokenizer.chat_template": "", "llama.rope.scaling.type": ""}))
def test_any_setting_of_another_kind_is_refused_or_harmless(path: Path, name: str) -> None:
    said = []
    for odd in ODD:
        try:
            said += [] if load(llama(path, **{name: odd})).tokenizer else ["no tokenizer"]
        except FileError as error:
            said.append(str(error))
    assert all("\n" not in line for line in said)
    assert len(said) >= 1


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return llama(tmp_path_factory.mktemp("whole") / "model.gguf").read_bytes()


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_flipped_bytes_are_refused_or_harmless(path: Path, whole: bytes, data: st.DataObject) -> None:
    """Bytes changed in the header or a file cut anywhere: a model, or one line; never another error."""
    changed = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, 6000))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.just(len(changed)), st.integers(0, len(changed))))
    path.write_bytes(bytes(changed[:cut]))
    try:
        load(path)
    except FileError as error:
        said = str(error)
    else:
        said = ""
    assert "\n" not in said
