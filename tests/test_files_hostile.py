"""Files that are missing, damaged, hostile or not understood: each is one line that names the file, and no harm."""

from __future__ import annotations

import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.models_fixture import TINY, Copy

from qkv.cli import main
from qkv.errors import FileError
from qkv.io import files
from qkv.io.store.stored import find
from qkv.models import load

WEIGHTS = (TINY / "model.safetensors").read_bytes()
TOKENIZER = (TINY / "tokenizer.json").read_text()


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


def refused(copy: Copy, file: str, message: str, key: str | None = None) -> None:
    """Loading is refused by one line that names `file` and holds `message`."""
    with pytest.raises(FileError) as caught:
        copy.load()
    line = str(caught.value)
    assert str(copy / file) in line
    assert message in line
    assert "\n" not in line
    assert caught.value.__cause__ is None  # no traceback of a library behind it
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert key is None or caught.value.key == key


class Bomb:
    def __reduce__(self) -> Any:
        return os.system, ("touch bomb-went-off",)


# -- files that are not there or not files ------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "1_Pooling/config.json"])
def test_missing(copy: Copy, file: str) -> None:
    (copy / file).unlink()
    refused(copy, file, "no such file", "no_file")


def test_no_directory(copy: Copy) -> None:
    for path, key in [
        ("elsewhere", "no_file"),
        ("config.json", "not_a_directory"),
        ("model.safetensors", "not_a_directory"),
    ]:
        with pytest.raises(FileError) as caught:
            load(copy / path)
        assert caught.value.key == key
    with pytest.raises(FileError, match="xxx cannot be read: File name too long"):
        load("x" * 5000)


def test_no_tokenizer(copy: Copy) -> None:
    (copy / "tokenizer.json").unlink()
    model = copy.load()
    assert model([2, 5, 3]).shape == (3, 21)
    with pytest.raises(FileError, match=r"has no tokenizer\.json, so it cannot read text; give token ids"):
        model("the cat")


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer.json", "modules.json"])
def test_a_directory_or_a_pipe_is_no_file(copy: Copy, file: str) -> None:
    (copy / file).unlink()
    (copy / file).mkdir()
    refused(copy, file, "is not a file", "not_a_file")
    (copy / file).rmdir()
    os.mkfifo(copy / file)
    refused(copy, file, "is not a file", "not_a_file")


# -- JSON ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["config.json", "modules.json", "1_Pooling/config.json", "sentence_bert_config.json"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no JSON from line 1, column 1"),
        (b'{"a": 1', "no JSON from line 1, column 8"),
        (b"\x80\x02}q", "no UTF-8 at byte 0"),
        (b"\xff\xfe{\x00", "no UTF-8 at byte 0"),
        (b'"words"', "no JSON"),
        (b"7", "no JSON"),
        (b'{"hidden_size": 21, "hidden_size": 42}', "'hidden_size' stands in it twice"),
        (b'{"layer_norm_eps": NaN}', "NaN is no number in JSON"),
        (b'{"layer_norm_eps": -Infinity}', "-Infinity is no number in JSON"),
        (b"[" * 200_000, "RecursionError"),
        (b'{"vocab_size": ' + b"9" * 5000 + b"}", "ValueError"),
    ],
)
def test_damaged_json(copy: Copy, file: str, content: bytes, message: str) -> None:
    (copy / file).write_bytes(content)
    refused(copy, file, message, "damaged")


def test_a_huge_config_is_not_read(copy: Copy) -> None:
    with (copy / "config.json").open("r+b") as file:
        file.truncate(2**33)  # a hole: takes no room on the disk
    refused(copy, "config.json", "at most 4194304 are read", "too_large")


def test_a_config_with_a_byte_order_mark_is_read(copy: Copy) -> None:
    path = copy / "config.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert copy.load().layers


# -- what the configuration says ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "key", "message"),
    [
        ({"model_type": "mamba"}, "no_architecture", "asks for architecture 'mamba'; known are: bert"),
        ({"model_type": 7}, "no_architecture", "asks for architecture 7"),
        ({"architectures": ["LlamaForCausalLM"]}, "no_architecture", "'LlamaForCausalLM'; known are: BertModel, "),
        ({"architectures": ["BertModel", "X"]}, "no_architecture", "'X'"),
        ({"model_type": ..., "architectures": ["GPT2DoubleHeadsModel"]}, "no_architecture", "'GPT2DoubleHeadsModel'"),
        ({"architectures": "BertModel"}, "config_value", "'architectures' must be a list of names"),
        ({"model_type": ..., "architectures": ...}, "config_missing", "has no 'model_type'"),
        ({"hidden_size": ...}, "config_missing", "has no 'hidden_size'"),
        ({"vocab_size": ...}, "config_missing", "has no 'vocab_size'"),
        ({"rope_theta": 10000.0}, "config_unknown", "'rope_theta' is not a setting that is understood"),
        ({"quantization_config": {"bits": 4}}, "config_unknown", "'quantization_config'"),
        ({"auto_map": {"AutoModel": "evil.py"}}, "config_unknown", "'auto_map'"),
        ({"my_own": None}, "config_unknown", "'my_own'"),
        ({"position_embedding_type": "relative_key"}, "config_value", "must be 'absolute', but it is 'relative_key'"),
        ({"is_decoder": True}, "config_value", "'is_decoder' must be False, but it is True"),
        ({"add_cross_attention": True}, "config_value", "'add_cross_attention' must be False"),
        ({"pruned_heads": {"0": [1]}}, "config_value", "'pruned_heads' must be {}"),
        ({"hidden_act": "mish"}, "config_value", "'hidden_act' must be one of gelu, gelu_new"),
        ({"hidden_act": ["gelu"]}, "config_value", "'hidden_act'"),
        ({"num_attention_heads": 4}, "config_value", "'hidden_size' must be a multiple of num_attention_heads=4"),
        ({"num_attention_heads": 0}, "config_value", "must be an integer from 1 to 2147483647, but it is 0"),
        ({"num_hidden_layers": 10**12}, "config_value", "must be an integer from 1 to 10000, but it is 1000000000000"),
        ({"hidden_size": 10**18}, "config_value", "'hidden_size'"),
        ({"hidden_size": "21"}, "config_value", "but it is '21'"),
        ({"hidden_size": 21.0}, "config_value", "but it is 21.0"),
        ({"hidden_size": True}, "config_value", "but it is True"),
        ({"hidden_size": None}, "config_value", "but it is None"),
        ({"layer_norm_eps": -1e-6}, "config_value", "'layer_norm_eps' must be a number from 0 to 1"),
        ({"layer_norm_eps": 1e999}, "damaged", "Infinity is no number in JSON"),
    ],
)
def test_config(copy: Copy, changes: dict[str, Any], key: str, message: str) -> None:
    copy.json("config.json", **changes)
    refused(copy, "config.json", message, key)


def test_a_known_architecture_is_enough(copy: Copy) -> None:
    copy.json("config.json", model_type=...)
    assert copy.load().layers
    copy.json("config.json", model_type="bert", architectures=...)
    assert copy.load().layers


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        ("1_Pooling/config.json", {"pooling_mode_lasttoken": True}, "'pooling_mode_lasttoken' must be False"),
        ("1_Pooling/config.json", {"pooling_mode_weightedmean_tokens": True}, "'pooling_mode_weightedmean_tokens'"),
        ("1_Pooling/config.json", {"word_embedding_dimension": 22}, "'word_embedding_dimension' must be 21"),
        ("1_Pooling/config.json", {"include_prompt": False}, "'include_prompt' must be True"),
        ("1_Pooling/config.json", {"pooling_mode_cls_token": "yes"}, "must be true or false, but it is 'yes'"),
        ("1_Pooling/config.json", {"pooling_mode": "lasttoken"}, "'pooling_mode' must be one of cls, max, mean"),
        ("1_Pooling/config.json", {"pooling_mode_median": True}, "'pooling_mode_median' is not a setting"),
        ("sentence_bert_config.json", {"max_seq_length": -5}, "'max_seq_length' must be an integer from 3"),
        ("sentence_bert_config.json", {"max_seq_length": 2}, "'max_seq_length' must be an integer from 3"),
        ("sentence_bert_config.json", {"do_upper_case": True}, "'do_upper_case' is not a setting"),
        (
            "sentence_bert_config.json",
            {"transformer_task": "fill-mask"},
            "'transformer_task' must be 'feature-extraction'",
        ),
    ],
)
def test_sentence_settings(copy: Copy, file: str, changes: dict[str, Any], message: str) -> None:
    copy.json(file, **changes)
    refused(copy, file, message)


def test_no_pooling_at_all(copy: Copy) -> None:
    flags = {
        f"pooling_mode_{name}": False for name in ("cls_token", "max_tokens", "mean_tokens", "mean_sqrt_len_tokens")
    }
    copy.json("1_Pooling/config.json", **flags)
    refused(copy, "1_Pooling/config.json", "must be true, or another pooling")


def test_a_prompt_by_default_is_refused(copy: Copy) -> None:
    file = "config_sentence_transformers.json"
    (copy / file).write_text('{"prompts": {"query": "q: "}, "default_prompt_name": "query"}')
    refused(copy, file, "'default_prompt_name' must be None, but it is 'query'")


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        (
            ["Transformer", "Pooling", "Dense"],
            "asks for 'Dense'; known are, in this order: Transformer, Pooling, Normalize",
        ),
        (["Transformer", "Normalize"], "asks for 'Normalize'"),
        (["Pooling", "Transformer"], "asks for 'Pooling'"),
        (["Transformer", "Pooling", "Normalize", "Normalize"], "asks for 'Normalize'"),
        (["Transformer"], "has no 'Pooling'"),
        ([], "has no 'Pooling'"),
    ],
)
def test_modules(copy: Copy, kinds: list[str], message: str) -> None:
    paths = {"Pooling": "1_Pooling"}
    modules = [{"type": f"sentence_transformers.models.{kind}", "path": paths.get(kind, "")} for kind in kinds]
    (copy / "modules.json").write_text(json.dumps(modules))
    refused(copy, "modules.json", message)


@pytest.mark.parametrize("path", ["/etc", "../..", 7, None])
def test_modules_stay_inside_the_directory(copy: Copy, path: Any) -> None:
    modules = [{"type": "a.Transformer", "path": ""}, {"type": "a.Pooling", "path": path}]
    (copy / "modules.json").write_text(json.dumps(modules))
    refused(copy, "modules.json", "'path' must be a folder beside it", "config_value")


@pytest.mark.parametrize("entry", [{}, {"type": "a.Transformer"}, "words", None])
def test_modules_without_type_or_path(copy: Copy, entry: Any) -> None:
    (copy / "modules.json").write_text(json.dumps([entry]))
    refused(copy, "modules.json", "has no '", "config_missing")


# -- tensors ------------------------------------------------------------------------------------------------------


def test_missing_tensors_are_named(copy: Copy) -> None:
    copy.change(encoder__layer__1__attention__self__key__bias=None, embeddings__LayerNorm__weight=None)
    names = "embeddings.LayerNorm.weight, encoder.layer.1.attention.self.key.bias"
    refused(copy, "model.safetensors", f"has no tensor {names}", "tensor_missing")


def test_half_a_pooler_is_missing_the_other_half(copy: Copy) -> None:
    copy.change(pooler__dense__bias=None)
    refused(copy, "model.safetensors", "has no tensor pooler.dense.bias", "tensor_missing")


def test_a_layer_too_many_in_the_config(copy: Copy) -> None:
    copy.json("config.json", num_hidden_layers=10_000)
    refused(copy, "model.safetensors", "encoder.layer.2.attention.self.query.weight, ", "tensor_missing")
    with pytest.raises(FileError) as caught:
        copy.load()
    assert str(caught.value).endswith(f"… (+{16 * 9_998 - 20})")


def test_left_over_tensors_are_named(copy: Copy) -> None:
    copy.change(classifier__weight=np.ones((2, 21), np.float32), encoder__layer__2__x=np.ones(3, np.float32))
    refused(copy, "model.safetensors", "classifier.weight, encoder.layer.2.x", "tensor_left_over")


def test_a_layer_too_few_in_the_config(copy: Copy) -> None:
    copy.json("config.json", num_hidden_layers=1)
    refused(copy, "model.safetensors", "encoder.layer.1.attention.output.LayerNorm.bias", "tensor_left_over")


def test_a_tensor_under_two_names_is_left_over(copy: Copy) -> None:
    copy.change(embeddings__LayerNorm__gamma=np.ones(21, np.float32))
    refused(copy, "model.safetensors", "embeddings.LayerNorm.", "tensor_left_over")


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("embeddings.word_embeddings.weight", (96, 21), (97, 21)),
        ("encoder.layer.0.intermediate.dense.weight", (21, 29), (29, 21)),
        ("encoder.layer.0.attention.output.dense.bias", (21, 1), (21,)),
        ("encoder.layer.1.output.LayerNorm.bias", (), (21,)),
        ("pooler.dense.weight", (0, 21), (21, 21)),
    ],
)
def test_wrong_shapes(copy: Copy, name: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    copy.change(**{name.replace(".", "__"): np.ones(shape, np.float32)})
    message = f"tensor {name!r} must have shape {expected}, but its shape is {shape}"
    refused(copy, "model.safetensors", message, "tensor_shape")


@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "inf")])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_weights_that_are_no_numbers(copy: Copy, value: float, what: str, dtype: type) -> None:
    bias = np.zeros(29, dtype)
    bias[17] = value
    copy.change(encoder__layer__0__intermediate__dense__bias=bias)
    message = f"tensor 'encoder.layer.0.intermediate.dense.bias' holds {what}"
    refused(copy, "model.safetensors", message, "tensor_value")


@pytest.mark.parametrize(("dtype", "named"), [(np.int8, "I8"), (np.int64, "I64"), (np.bool_, "BOOL")])
def test_weights_that_are_no_floats(copy: Copy, dtype: type, named: str) -> None:
    copy.change(pooler__dense__bias=np.zeros(21, dtype))
    refused(
        copy, "model.safetensors", f"'pooler.dense.bias' must hold floating-point numbers, but its dtype is {named}"
    )


def safetensors(header: bytes | dict[str, Any], data: bytes = bytes(84)) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(start: int, stop: int, dtype: str = "F32", shape: tuple[int, ...] = (21,)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


NAME = "pooler.dense.bias"


@pytest.mark.parametrize(
    "content",
    {
        "empty": b"",
        "seven bytes": WEIGHTS[:7],
        "the length alone": WEIGHTS[:8],
        "cut in the header": WEIGHTS[:900],
        "cut in the last tensor": WEIGHTS[:-1],
        "bytes behind the end": WEIGHTS + b"\0",
        "a header of 2^60 bytes": struct.pack("<Q", 2**60) + WEIGHTS[8:],
        "a header of 2^63 + 5 bytes": struct.pack("<Q", 2**63 + 5) + WEIGHTS[8:],
        "a header of 2^64 - 1 bytes": b"\xff" * 8 + WEIGHTS[8:],
        "overlapping": safetensors({NAME: entry(0, 84), "b": entry(0, 84)}),
        "half overlapping": safetensors({NAME: entry(0, 84), "b": entry(40, 124)}, bytes(124)),
        "a gap": safetensors({NAME: entry(0, 84), "b": entry(100, 184)}, bytes(184)),
        "backwards": safetensors({NAME: entry(84, 0)}),
        "beyond the end": safetensors({NAME: entry(0, 2**40, shape=(2**38,))}),
        "a negative shape": safetensors({NAME: entry(0, 84, shape=(-21,))}),
        "a shape that overflows": safetensors({NAME: entry(0, 84, shape=(2**40, 2**40))}),
        "a shape of another size": safetensors({NAME: entry(0, 84, shape=(22,))}),
        "an unknown dtype": safetensors({NAME: entry(0, 84, dtype="Q4")}),
        "no offsets": safetensors({NAME: {"dtype": "F32", "shape": [21]}}),
        "a name twice": safetensors(b'{"%s":%s,"%s":%s}' % ((NAME.encode(), json.dumps(entry(0, 84)).encode()) * 2)),
        "not UTF-8": safetensors(b"\xff\xfe{}"),
        "a list": safetensors(b"[]"),
        "nested": safetensors(b'{"a":' * 100_000),
        "text": b"version https://git-lfs.github.com/spec/v1\noid sha256:0123456789\nsize 90868376\n",
        "HTML": b"<!DOCTYPE html><html>404</html>",
        "zeros": bytes(4096),
    }.items(),
    ids=lambda item: item[0],
)
def test_damaged_safetensors(copy: Copy, content: tuple[str, bytes]) -> None:
    (copy / "model.safetensors").write_bytes(content[1])
    refused(copy, "model.safetensors", "is damaged or not what it says: ", "damaged")


def test_an_8_bit_float_is_refused_by_name(copy: Copy) -> None:
    tensors = copy.tensors()
    at, header = 0, {}
    for name, tensor in tensors.items():
        size = 21 if name == NAME else tensor.nbytes
        header[name] = entry(at, at + size, "F8_E4M3" if name == NAME else "F32", tensor.shape)
        at += size
    (copy / "model.safetensors").write_bytes(safetensors(header, bytes(at)))
    refused(copy, "model.safetensors", f"tensor {NAME!r} must hold floating-point numbers, but its dtype is F8_E4M3")


# -- pickles ------------------------------------------------------------------------------------------------------


def zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Bomb()))


@pytest.mark.parametrize("file", ["pytorch_model.bin", "model.pt", "weights.pth", "model.safetensors"])
@pytest.mark.parametrize(
    "write", [lambda path: path.write_bytes(pickle.dumps(Bomb())), zipped], ids=["plain", "zipped"]
)
def test_a_pickle_is_named_and_never_run(
    copy: Copy, file: str, write: Callable[[Path], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (copy / "model.safetensors").unlink()
    write(copy / file)
    monkeypatch.chdir(copy.directory)
    refused(copy, file, "is a pickle, which can run code when it is opened; convert it to safetensors", "pickle")
    with pytest.raises(FileError):
        load(copy / file)
    assert not (copy / "bomb-went-off").exists()


def test_a_pickle_beside_safetensors_does_not_matter(copy: Copy) -> None:
    (copy / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb()))
    copy.load()


# -- the tokenizer ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    {
        "empty": "",
        "cut": TOKENIZER[:1000],
        "no object": "[]",
        "no model": "{}",
        "no vocabulary": '{"version": "1.0", "model": {"type": "WordPiece"}}',
        "another version": TOKENIZER.replace('"version": "1.0"', '"version": "9.0"'),
        "an unknown part": TOKENIZER.replace('"type": "WordPiece",', '"type": "Fancy",'),
        "a negative id": TOKENIZER.replace('"the": 5', '"the": -5'),
        "nested": "[" * 100_000,
    }.items(),
    ids=lambda item: item[0],
)
def test_damaged_tokenizer(copy: Copy, content: tuple[str, str]) -> None:
    assert content[1] != TOKENIZER
    (copy / "tokenizer.json").write_text(content[1])
    refused(copy, "tokenizer.json", "is damaged or not what it says: ", "damaged")


# -- anything at all ----------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_flipped_bytes_are_refused_or_harmless(copy: Copy, data: st.DataObject) -> None:
    """Bytes changed anywhere, in the header above all: a model, or one line; never another error."""
    file = data.draw(st.sampled_from(["model.safetensors", "config.json", "tokenizer.json", "modules.json"]))
    original = (TINY / file).read_bytes()
    changed = bytearray(original)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, min(len(changed), 4000) - 1))] = data.draw(st.integers(0, 255))
    (copy / file).write_bytes(bytes(changed[: data.draw(st.integers(1, len(changed)))]))
    try:
        copy.load()
    except FileError as error:
        said = str(error)
    else:
        said = ""
    finally:
        (copy / file).write_bytes(original)
    assert "\n" not in said


# -- what is too large ------------------------------------------------------------------------------------------------


def test_too_little_memory_is_one_line(copy: Copy, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(files, "safe_open", full)
    with pytest.raises(SystemExit) as caught:
        main(["size", str(copy.directory)])
    assert caught.value.code == 2
    assert capsys.readouterr().err == "Error: there is not enough memory for this\n"


def test_a_configuration_of_many_small_things_is_not_read(copy: Copy) -> None:
    copy.json("config.json", id2label=[{}] * 1_200_000)
    refused(copy, "config.json", "at most 4194304 are read", "too_large")


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "\ud800"])
def test_a_name_that_no_file_may_have(name: str) -> None:
    assert find(name) is None
    with pytest.raises(FileError, match=r"cannot be read|no such file"):
        load(name)


def test_what_a_name_holds_cannot_act(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["\x1b[31mred\x07"])
    shown = capsys.readouterr().err
    assert "\\x1b[31mred\\x07" in shown
    assert not {"\x1b", "\x07"} & set(shown)
