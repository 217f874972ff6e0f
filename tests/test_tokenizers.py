"""Tokenizers in the files of older directories and in GGUF, held to sentencepiece and transformers on tricky texts."""

from __future__ import annotations

import base64
import json
import shutil
import struct
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.decoder_fixture import Copy
from tests.gguf_fixture import metadata_of, tensors_of, write
from tests.models_fixture import DATA
from tests.models_fixture import Copy as BertCopy

from qkv.errors import ArgumentError, FileError
from qkv.io.tokens.readable import BYTE_OF, readable
from qkv.io.tokens.spm import CONTROL, NORMAL, USER_DEFINED, Pieces, SPMFile
from qkv.io.tokens.tokenizer import Tokenizer, read_tokenizer, tokenizer_file
from qkv.models import load

HERE = DATA / "tokenizers"
TEXTS = json.loads((DATA / "smollm2_goldens.json").read_text())["texts"]
IDS = json.loads((HERE / "ids.json").read_text())
MODELS = sorted(path.stem for path in HERE.glob("*.model"))
DIRECTORIES = sorted(path.name for path in HERE.iterdir() if path.is_dir())
# The library looks at a letter with its marks as a whole: where a part of it is replaced, the rest is lost.
LOST = [text for text in TEXTS if "e\u0301\u0302" in text]
CONTROLS = ("<s>", "</s>")  # sentencepiece takes them for text; everyone who uses it for a model does not


def with_pieces(directory: Path, model: str, kind: str = "LlamaTokenizer", name: str = "tokenizer.model",
                **values: Any) -> Path:  # fmt: skip
    directory.mkdir(exist_ok=True)
    shutil.copy(HERE / f"{model}.model", directory / name)
    (directory / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind} | values))
    return directory


def pieces(directory: Path, model: str, **values: Any) -> Tokenizer:
    return read_tokenizer(with_pieces(directory, model, **values))


# sentencepiece


@pytest.mark.parametrize("model", MODELS)
def test_pieces_are_those_of_sentencepiece(tmp_path: Path, model: str) -> None:
    tokenizer = pieces(tmp_path, model)
    compared = 0
    for text, expected in zip(TEXTS, IDS[model]):
        if any(control in text for control in CONTROLS):
            continue
        if model in ("unigram", "char") and text in LOST:
            continue
        assert tokenizer.encode(text, special_tokens=False) == expected, ascii(text)
        compared += 1
    assert compared > 170
    assert len(LOST) == 3


@pytest.mark.parametrize("model", ["unigram_bytes", "bpe"])
def test_nothing_is_lost_between_text_and_ids(tmp_path: Path, model: str) -> None:
    tokenizer = pieces(tmp_path, model)
    for text in TEXTS:
        expected = "".join(text.split("\u2581"))
        assert tokenizer.decode(tokenizer.encode(text, special_tokens=False), special_tokens=True) == expected


def test_the_file_says_how_a_text_is_cut(tmp_path: Path) -> None:
    found = SPMFile(HERE / "bpe.model").read()
    assert (found.model, found.byte_fallback, found.add_prefix, found.remove_spaces) == (2, True, True, False)
    assert found.texts[:5] == ["<unk>", "<s>", "</s>", "<tag>", "¤"]
    assert [found.kinds[i] for i in (1, 3, 270)] == [CONTROL, USER_DEFINED, NORMAL]
    assert SPMFile(HERE / "unigram.model").read().charsmap
    assert not SPMFile(HERE / "bpe_no_prefix.model").read().add_prefix


def test_a_piece_of_the_users_own_is_never_cut(tmp_path: Path) -> None:
    tokenizer = pieces(tmp_path, "bpe")
    assert tokenizer.tokens(tokenizer.encode("a<tag>b ¤", special_tokens=False)) == ["▁a", "<tag>", "b", "▁", "¤"]
    assert tokenizer.tokens(tokenizer.encode("<tag>", special_tokens=False)) == ["▁", "<tag>"]


def test_the_space_before_a_text(tmp_path: Path) -> None:
    """After a special token there is none, unless the file asks for what was done in former times."""
    text, own = "a</s>b", {"special_tokens": False}
    found = {legacy: pieces(tmp_path, "bpe", legacy=legacy) for legacy in (True, False)}
    assert [t.tokens(t.encode(text, **own)) for t in found.values()] == [["▁a", "</s>", "▁b"], ["▁a", "</s>", "b"]]
    assert found[False].tokens(found[False].encode("<s>a", **own)) == ["<s>", "a"]
    other = pieces(tmp_path, "bpe", add_prefix_space=False)
    assert other.tokens(other.encode(text, **own)) == ["a", "</s>", "b"]
    assert found[False].encode("", **own) == []


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("LlamaTokenizer", {}, [1, -1]),
        ("LlamaTokenizerFast", {"add_eos_token": True}, [1, -1, 2]),
        ("LlamaTokenizer", {"add_bos_token": False}, [-1]),
        ("GemmaTokenizer", {"bos_token": "<s>", "eos_token": {"content": "</s>"}}, [1, -1]),
        ("T5Tokenizer", {}, [-1, 2]),
        ("XLMRobertaTokenizer", {}, [0, -1, 2]),
    ],
)
def test_tokens_around_a_text(tmp_path: Path, kind: str, values: dict[str, Any], expected: list[int]) -> None:
    tokenizer = pieces(tmp_path, "unigram_bytes", kind=kind, **values)
    inner = tokenizer.encode("it is", special_tokens=False)
    assert tokenizer.encode("it is") == [*expected[: expected.index(-1)], *inner, *expected[expected.index(-1) + 1 :]]


def test_xlm_roberta_numbers_its_tokens_otherwise(tmp_path: Path) -> None:
    plain, other = (pieces(tmp_path, "unigram", kind=kind) for kind in ("LlamaTokenizer", "XLMRobertaTokenizer"))
    text = "the attention"
    assert other.encode(text) == [0, *(i + 1 for i in plain.encode(text, special_tokens=False)), 2]
    assert other.tokens([0, 1, 2, 3, 501]) == ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def test_t5_adds_what_stands_for_gaps(tmp_path: Path) -> None:
    tokenizer = pieces(tmp_path, "unigram", kind="T5Tokenizer", extra_ids=3)
    assert tokenizer.tokens([500, 502]) == ["<extra_id_2>", "<extra_id_0>"]
    found = tokenizer.tokens(tokenizer.encode("the <extra_id_0> the", special_tokens=False))
    assert found == ["▁the", "<extra_id_0>", "▁the"]


def test_added_tokens(tmp_path: Path) -> None:
    more = {"800": {"content": "<pad>", "special": True}, "801": {"content": "→→", "special": False}}
    tokenizer = pieces(tmp_path, "bpe", added_tokens_decoder=more)
    assert tokenizer.encode("<pad>", special_tokens=False) == [800]
    assert 801 in tokenizer.encode("a →→ b")
    assert (tokenizer.vocab_size, tokenizer.n_words) == (802, 800)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "LlamaTokenizer"}')
    (tmp_path / "added_tokens.json").write_text('{"<pad>": 800}')
    assert read_tokenizer(tmp_path).encode("<pad>", special_tokens=False) == [800]


def with_gguf(path: Path, model: str, **changes: Any) -> Path:
    found = SPMFile(HERE / f"{model}.model").read()
    own = {
        "model": "llama", "pre": "default", "tokens": found.texts, "scores": found.scores, "token_type": found.kinds,
        "bos_token_id": 1, "eos_token_id": 2, "add_space_prefix": found.add_prefix,
    }  # fmt: skip
    named = {f"tokenizer.ggml.{name}": value for name, value in (own | changes).items() if value is not ...}
    return write(path / "model.gguf", metadata_of("llama") | named, tensors_of("llama"))


@pytest.mark.parametrize("model", ["bpe", "bpe_no_prefix"])
def test_pieces_in_a_gguf_file(tmp_path: Path, model: str) -> None:
    from qkv.io.gguf.tokenizer import tokenizer_at

    tokenizer = tokenizer_at(with_gguf(tmp_path, model))
    for text, expected in zip(TEXTS, IDS[model]):
        if not any(control in text for control in CONTROLS):
            assert tokenizer.encode(text) == [1, *expected], ascii(text)
    space = "▁" if model == "bpe" else ""
    assert tokenizer.tokens(tokenizer.encode("a</s>b"))[1:] == [f"{space}a", "</s>", f"{space}b"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scores": ...}, "'tokenizer.ggml.scores' must be 420 numbers, one per token"),
        ({"scores": [0.0] * 3}, "'tokenizer.ggml.scores' must be 420 numbers"),
        ({"scores": ["0"] * 420}, "'tokenizer.ggml.scores' must be 420 numbers"),
        ({"scores": [float("nan")] * 420}, "the score of '<unk>' is no number"),
        ({"token_type": [1] * 420}, "it must have one piece for what is unknown"),
        ({"token_type": [1] * 3}, "'tokenizer.ggml.token_type' must be 420 numbers"),
        ({"add_space_prefix": "yes"}, "'tokenizer.ggml.add_space_prefix' must be true or false"),
        ({"tokens": ["a"] * 420}, "'tokenizer.ggml.tokens' must be each token once"),
    ],
)
def test_pieces_that_a_gguf_file_cannot_mean(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = with_gguf(tmp_path, "bpe_no_prefix", **changes)
    with pytest.raises(FileError) as caught:
        load(path)
    assert message in str(caught.value)


# words and bytes


@pytest.mark.parametrize("name", DIRECTORIES)
def test_older_files_give_the_ids_of_transformers(name: str) -> None:
    tokenizer = read_tokenizer(HERE / name)
    for text, expected in zip(TEXTS, IDS[name]):
        assert tokenizer.encode(text) == expected, ascii(text)


def test_clip_has_a_sign_at_the_end_of_each_word() -> None:
    tokenizer = read_tokenizer(HERE / "clip")
    ids = tokenizer.encode("The Model  reads")
    assert tokenizer.decode(ids).strip() == "the model reads"
    assert tokenizer.tokens(ids)[0] == "<|startoftext|>"


def test_the_newest_form_that_is_there_is_read(tmp_path: Path) -> None:
    shutil.copytree(HERE / "bert", tmp_path, dirs_exist_ok=True)
    assert tokenizer_file(tmp_path) == tmp_path / "vocab.txt"
    with_pieces(tmp_path, "bpe", name="spiece.model")
    assert tokenizer_file(tmp_path) == tmp_path / "spiece.model"
    shutil.copy(HERE / "gpt2" / "vocab.json", tmp_path)
    assert tokenizer_file(tmp_path) == tmp_path / "vocab.json"
    (tmp_path / "tokenizer.json").write_text("{}")
    assert tokenizer_file(tmp_path) == tmp_path / "tokenizer.json"


def test_a_models_directory(tmp_path: Path) -> None:
    """The kind follows from config.json where nothing else says it."""
    copy = BertCopy(tmp_path)
    (copy / "tokenizer.json").unlink()
    (copy / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat"]) + "\n")
    model = copy.load()
    assert model.tokenizer.encode("The cat purrs") == [2, 5, 6, 1, 3]
    assert model("the cat").shape == (4, 21)


def test_more_words_than_rows(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "llama")
    with_pieces(copy.directory, "char")
    with pytest.raises(FileError, match="the tokenizer has 120 words, but the model has rows for 67 only"):
        copy.load()


def test_a_token_added_without_a_row_is_refused_when_it_comes(tmp_path: Path) -> None:
    copy = BertCopy(tmp_path)
    (copy / "tokenizer.json").unlink()
    (copy / "vocab.txt").write_text("\n".join([*(f"[{n}]" for n in ("PAD", "UNK", "CLS", "SEP", "MASK")),
                                               *(f"w{i}" for i in range(92))]))  # fmt: skip
    (copy / "added_tokens.json").write_text('{"<new>": 97}')
    model = copy.load()
    assert model("w1 w2").shape == (4, 21)
    with pytest.raises(ArgumentError, match="token ids must lie from 0 to 96, but 97 came"):
        model("w1 <new>")


def test_a_tokenizer_of_another_kind_is_named_with_the_first_text(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "llama")
    with_pieces(copy.directory, "char", kind="XLNetTokenizer")
    model = copy.load()
    assert model.logits([1, 2]).shape == (2, 67)
    with pytest.raises(FileError, match="asks for a tokenizer of the kind 'XLNetTokenizer'; known are: LlamaTokenizer"):
        model.generate("a")


# damaged, hostile


def field(number: int, how: int, data: bytes) -> bytes:
    return bytes([number << 3 | how]) + data


def sized(number: int, data: bytes) -> bytes:
    size, written = len(data), b""
    while size > 127:
        written, size = written + bytes([size & 127 | 128]), size >> 7
    return field(number, 2, written + bytes([size]) + data)


def piece(text: bytes, score: float = 0.0, kind: int = 1) -> bytes:
    return sized(1, sized(1, text) + field(2, 5, struct.pack("<f", score)) + field(3, 0, bytes([kind])))


UNK = piece(b"<unk>", kind=2)


@pytest.mark.parametrize(
    ("content", "message"),
    {
        "empty": (b"", "it has no pieces"),
        "text": (b"version https://git-lfs", "it "),
        "2^60 bytes": (UNK + b"\x0a" + b"\x80" * 8 + b"\x10", "it ends before 1152921504606846976 things"),
        "a number without end": (UNK + b"\x0a" + b"\xff" * 20, "it ends within a number"),
        "a group": (UNK + b"\x0b", "no protocol buffer at byte"),
        "a score that is none": (UNK + piece(b"a", float("nan")), "the score of 'a' is no number"),
        "a score without end": (UNK + piece(b"a", float("-inf")), "the score of 'a' is no number"),
        "a piece twice": (UNK + piece(b"a") * 2, "'a' stands in it twice"),
        "no UTF-8": (UNK + piece(b"a\xff"), "no UTF-8 at byte 1 of a piece"),
        "an empty piece": (UNK + piece(b""), "an empty piece stands in it"),
        "a piece of an unknown kind": (UNK + piece(b"a", kind=9), "piece 1 is none"),
        "a piece that is a number": (UNK + field(1, 0, b"\x05"), "a number stands where a message should"),
        "a text that is a number": (UNK + sized(1, field(1, 0, b"\x05")), "piece 1 is none"),
        "nothing for what is unknown": (piece(b"a"), "it must have one piece for what is unknown"),
        "a long piece": (UNK + piece(b"a" * 513), "a piece of more than 512 characters stands in it"),
        "two for what is unknown": (UNK + piece(b"a", kind=2), "it must have one piece for what is unknown"),
    }.values(),
)
def test_damaged_pieces(tmp_path: Path, content: bytes, message: str) -> None:
    with_pieces(tmp_path, "char")
    (tmp_path / "tokenizer.model").write_bytes(content)
    with pytest.raises(FileError) as caught:
        read_tokenizer(tmp_path)
    assert caught.value.key == "damaged"
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (UNK + sized(2, field(3, 0, b"\x03")), "'model_type' must be one of 1, 2, 4, but it is 3"),
        (UNK + sized(2, bytes([0xC0, 1, 1])), "'treat_whitespace_as_suffix' must be false"),
        (UNK + sized(3, field(5, 0, b"\x00")), "'escape_whitespaces' must be true"),
        (UNK + sized(5, sized(2, b"xyz")), "'denormalizer_spec' must be left out"),
        (UNK + piece(b"a") + sized(3, sized(2, b"\xff" * 9)), "is damaged"),
    ],
)
def test_pieces_that_are_not_understood(tmp_path: Path, content: bytes, message: str) -> None:
    with_pieces(tmp_path, "char")
    (tmp_path / "tokenizer.model").write_bytes(content)
    with pytest.raises(FileError) as caught:
        read_tokenizer(tmp_path)
    assert message in str(caught.value)


def table(*units: tuple[int, int], texts: bytes = b"a\0") -> bytes:
    """A table of replacements with a trie of 256 units, all 0 but for these."""
    trie = [0] * 256
    for place, unit in units:
        trie[place] = unit
    return struct.pack("<I256I", 1024, *trie) + texts


LEADS_TO_A = 1 << 8 | ord("x")  # the byte x; a text ends here, and its unit is the one that follows


@pytest.mark.parametrize(
    "content",
    {
        "no root": struct.pack("<I", 0),
        "cut off": table()[:500],
        "a root that leads outside": table((0, 5000 << 10)),
        "a unit that leads outside": table((0, 1 << 10), (1 ^ ord("x"), ord("x") | 5000 << 10)),
        "a text behind the end": table((0, 1 << 10), (1 ^ ord("x"), LEADS_TO_A | 2 << 10), (123, 1 << 31 | 77)),
        "within a character": table((0, 1 << 10), (1 ^ ord("x"), LEADS_TO_A | 2 << 10), (123, 1 << 31 | 1),
                                    texts="é".encode() + b"\0"),
        "no UTF-8": table(texts=b"\xff\0"),
    }.items(),
    ids=lambda item: item[0],
)  # fmt: skip
def test_a_table_that_one_would_fall_out_of(tmp_path: Path, content: tuple[str, bytes]) -> None:
    with_pieces(tmp_path, "char")
    (tmp_path / "tokenizer.model").write_bytes(UNK + piece(b"x") + sized(3, sized(2, content[1])))
    with pytest.raises(FileError, match="its table of replacements is broken"):
        read_tokenizer(tmp_path)


def test_a_table_that_is_whole(tmp_path: Path) -> None:
    with_pieces(tmp_path, "char")
    whole = table((0, 1 << 10), (1 ^ ord("x"), LEADS_TO_A | 2 << 10), (1 ^ ord("x") ^ 2, 1 << 31 | 0))
    (tmp_path / "tokenizer.model").write_bytes(
        UNK + piece(b"<s>", kind=3) + piece(b"a") + sized(3, sized(2, whole) + field(3, 0, b"\0"))
    )
    tokenizer = read_tokenizer(tmp_path)
    assert tokenizer.tokens(tokenizer.encode("x")) == ["<s>", "a"]


def test_a_panic_of_the_library_is_one_line(tmp_path: Path) -> None:
    """A tokenizer.json is the library's own; what it falls over with a text alone is refused as well."""
    trie = base64.b64encode(table((0, 5000 << 10))).decode()
    described = {
        "version": "1.0", "added_tokens": [],
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": trie},
        "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
    }  # fmt: skip
    (tmp_path / "tokenizer.json").write_text(json.dumps(described))
    with pytest.raises(FileError) as caught:
        read_tokenizer(tmp_path).encode("x")
    assert caught.value.key == "damaged"
    assert "\n" not in str(caught.value)


def test_a_panic_behind_the_text_is_one_line(tmp_path: Path) -> None:
    """A template of two texts that names a token which is none."""
    known = {"Sequence": {"id": "A", "type_id": 0}}
    unknown = {"SpecialToken": {"id": "[X]", "type_id": 0}}
    described = {
        "version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
        "post_processor": {"type": "TemplateProcessing", "single": [known, unknown], "pair": [known, unknown],
                           "special_tokens": {}},
    }  # fmt: skip
    (tmp_path / "tokenizer.json").write_text(json.dumps(described))
    tokenizer = read_tokenizer(tmp_path)
    for call in (lambda: tokenizer.encode("a"), lambda: tokenizer.encode_pair("a", "a")):
        with pytest.raises(FileError, match="is damaged") as caught:
            call()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("place", ["normalizer", "decoder"])
def test_steps_that_would_fill_the_memory_are_refused(tmp_path: Path, place: str) -> None:
    twice = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    described = {
        "version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
        place: {"type": "Sequence", f"{place}s": [twice] * 40},
    }  # fmt: skip
    (tmp_path / "tokenizer.json").write_text(json.dumps(described))
    with pytest.raises(FileError, match="its steps would make a text thousands of times as long"):
        read_tokenizer(tmp_path)


def test_a_piece_twice_among_many_is_found_at_once() -> None:
    texts = [str(i) for i in range(200_000)] + ["199999"]
    start = time.thread_time()
    assert Pieces(texts, [0.0] * len(texts), [1] * len(texts)).reason() == "'199999' stands in it twice"
    assert time.thread_time() - start < 2


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_pieces_with_flipped_bytes_are_refused_or_harmless(tmp_path: Path, data: st.DataObject) -> None:
    model = data.draw(st.sampled_from(MODELS))
    with_pieces(tmp_path, model)
    path = tmp_path / "tokenizer.model"
    changed = bytearray(path.read_bytes())
    table = len(changed) - 2400 if model in ("unigram", "char") else 0  # what is replaced comes last
    for _ in range(data.draw(st.integers(1, 3))):
        first = data.draw(st.sampled_from([0, max(0, table)]))
        changed[data.draw(st.integers(first, len(changed) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(changed[: data.draw(st.one_of(st.just(len(changed)), st.integers(0, len(changed))))]))
    try:
        read_tokenizer(tmp_path).encode("a text,\t123 é ①ﬁ\u3000ß")
    except FileError as error:
        said = str(error)
    else:
        said = ""
    assert "\n" not in said


BERT = b'{"tokenizer_class": "BertTokenizer"'


@pytest.mark.parametrize(
    ("name", "file", "content", "message"),
    [
        ("bert", "vocab.txt", b"[UNK]\n\xff\n", "no UTF-8 at byte 6"),
        ("bert", "vocab.txt", b"", "it has no token '[UNK]'"),
        ("bert", "vocab.txt", b"[UNK]\na\n", "it has no token '[CLS]'"),
        ("bert", "vocab.txt", b"[UNK]\na\na\n", "'a' stands in it twice"),
        ("bert", "tokenizer_config.json", BERT + b', "do_lower_case": 1}', "'do_lower_case' must be true or false"),
        ("bert", "tokenizer_config.json", BERT + b', "do_basic_tokenize": false}', "must be True, but it is False"),
        ("bert", "tokenizer_config.json", BERT + b', "sep_token": 7}', "'sep_token' must be a token"),
        ("bert", "special_tokens_map.json", b"[]", "no JSON object"),
        ("gpt2", "vocab.json", b"{}", "it has no numbers of tokens"),
        ("gpt2", "vocab.json", b'{"a": 0, "b": 0}', "its numbers are not those from 0 on, each once"),
        ("gpt2", "vocab.json", b'{"a": 0, "b": 2}', "its numbers are not those from 0 on, each once"),
        ("gpt2", "vocab.json", b'{"a": "0"}', "it has no numbers of tokens"),
        ("gpt2", "vocab.json", b'{"a": 0, "a": 1}', "'a' stands in it twice"),
        ("gpt2", "merges.txt", b"#version: 0.2\na b c\n", "'a b c' is no pair"),
        ("gpt2", "merges.txt", b"a zz\n", "vocabulary"),
        ("gpt2", "added_tokens.json", b'{"<new>": 405}', "tokens from 400 on, without a gap"),
        ("gpt2", "added_tokens.json", b'{"<new>": -1}', "must be a token id"),
        ("gpt2", "added_tokens.json", b'{"<|endoftext|>": 400}', "must be token 0, but it is 400"),
        ("qwen2", "tokenizer_config.json", b'{"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": {"x": 1}}',
         "must be tokens by their numbers"),
        ("clip", "tokenizer_config.json", b'{"tokenizer_class": "CLIPTokenizer", "bos_token": "<go>"}', "'<go>'"),
    ],
)  # fmt: skip
def test_damaged_vocabularies(tmp_path: Path, name: str, file: str, content: bytes, message: str) -> None:
    shutil.copytree(HERE / name, tmp_path / name)
    (tmp_path / name / file).write_bytes(content)
    with pytest.raises(FileError) as caught:
        read_tokenizer(tmp_path / name)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_merges_that_are_missing(tmp_path: Path) -> None:
    shutil.copytree(HERE / "gpt2", tmp_path / "gpt2")
    (tmp_path / "gpt2" / "merges.txt").unlink()
    with pytest.raises(FileError, match=r"no such file: .*merges\.txt"):
        read_tokenizer(tmp_path / "gpt2")


def test_tokens_of_bytes_are_read_as_the_text_that_they_stand_for() -> None:
    from tokenizers.pre_tokenizers import ByteLevel

    assert set(BYTE_OF) == set(ByteLevel.alphabet())
    for text in ("一", "é", "👍", "Ġ", " a", "\n"):
        spelled = "".join(part for part, _ in ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(text))
        assert readable(spelled) == text.replace(" ", "Ġ").replace("\n", "Ċ")
    assert readable("ä½") == "<0xE4><0xBD>"
    assert readable("aÃ") == "a<0xC3>"


@pytest.mark.parametrize("directory", DIRECTORIES)
def test_only_bytes_are_read_so_and_never_what_was_added(directory: str) -> None:
    tokenizer = read_tokenizer(HERE / directory)
    ids = tokenizer.encode("a cat é")
    spelled, read = tokenizer.tokens(ids), tokenizer.readable(ids)
    assert (read != spelled) == ("bert" not in directory or directory == "roberta")
    assert [a for a, b in zip(spelled, read, strict=True) if a.isascii() and a != b] == []
