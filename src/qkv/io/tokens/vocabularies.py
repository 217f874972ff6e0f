"""Tokenizers of older directories: a vocabulary in a file or two, as the `tokenizer.json` that says the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ...errors import FileError
from ..cutting import BYTES, GPT2_WORDS, WORDS, Part, around, numbers_of, replaced, sequence
from ..files import read_json, read_text
from .special_tokens import SpecialTokens
from .spm import CONTROL, UNIGRAM, UNKNOWN, Pieces, SPMFile
from .spm_tokenizer import described as described_pieces

BERTS = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer")
BERT_TOKENS = {name: f"[{name.upper()}]" for name in ("unk", "sep", "pad", "cls", "mask")}
CLIP_WORDS = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
# Of each kind its special tokens, where no file says them; then what is put before a text and after it, and whether it
# is where no file says so.
End = tuple[str, bool] | None
ROBERTA = ({"bos": "<s>", "eos": "</s>", "sep": "</s>", "cls": "<s>", "unk": "<unk>", "pad": "<pad>", "mask": "<mask>"},
           ("cls", True), ("sep", True))  # fmt: skip
END_OF_TEXT = "<|endoftext|>"
BYTE_PAIRS: dict[str, tuple[dict[str, str], End, End]] = {
    "GPT2Tokenizer": ({"bos": END_OF_TEXT, "eos": END_OF_TEXT, "unk": END_OF_TEXT}, ("bos", False), None),
    "RobertaTokenizer": ROBERTA,
    "BartTokenizer": ROBERTA,
    "Qwen2Tokenizer": ({"eos": END_OF_TEXT, "pad": END_OF_TEXT}, None, None),
    "CLIPTokenizer": ({"bos": "<|startoftext|>", "eos": END_OF_TEXT, "unk": END_OF_TEXT}, ("bos", True), ("eos", True)),
}
SENTENCEPIECE: dict[str, tuple[dict[str, str], End, End]] = {
    "LlamaTokenizer": ({"bos": "<s>", "eos": "</s>", "unk": "<unk>"}, ("bos", True), ("eos", False)),
    "GemmaTokenizer": ({"bos": "<bos>", "eos": "<eos>", "unk": "<unk>"}, ("bos", True), ("eos", False)),
    "T5Tokenizer": ({"eos": "</s>", "unk": "<unk>", "pad": "<pad>"}, None, ("eos", True)),
    "XLMRobertaTokenizer": ROBERTA,
}

SPACE_EVERYWHERE = ("T5Tokenizer", "XLMRobertaTokenizer")  # after every special token too


def wordpiece(path: Path, special: SpecialTokens) -> Part:
    """BERT's `vocab.txt`: one token a line."""
    special.kind(*BERTS)
    special.must_be(do_basic_tokenize=True, never_split=None)
    lines = read_text(path).replace("\r\n", "\n").removesuffix("\n").split("\n")
    numbers = {token: i for i, token in enumerate(lines)}
    if len(numbers) < len(lines):
        twice = next(token for i, token in enumerate(lines) if numbers[token] != i)
        raise FileError("damaged", path=path, reason=f"{twice!r} stands in it twice")
    accents = None if special.raw("strip_accents", None) is None else special.flag("strip_accents")
    described = _described({
        "type": "WordPiece", "vocab": numbers, "unk_token": special.token("unk", "[UNK]"),
        "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
    })  # fmt: skip
    described["normalizer"] = {
        "type": "BertNormalizer", "clean_text": True, "strip_accents": accents,
        "lowercase": special.flag("do_lower_case", default=True),
        "handle_chinese_chars": special.flag("tokenize_chinese_chars", default=True),
    }  # fmt: skip
    described["pre_tokenizer"] = {"type": "BertPreTokenizer"}
    described["decoder"] = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    _in_vocabulary(path, numbers, special.token("unk", "[UNK]"))
    return _finished(path, described, special, BERT_TOKENS, ("cls", True), ("sep", True))


def byte_pairs(path: Path, special: SpecialTokens) -> Part:
    """`vocab.json` and `merges.txt`: pairs of bytes that are merged, as GPT-2 and others have them."""
    kind = special.kind(*BYTE_PAIRS)
    described = _described({
        "type": "BPE", "vocab": _numbers(path), "merges": _merges(path.with_name("merges.txt")),
        "fuse_unk": False, "byte_fallback": False,
    })  # fmt: skip
    in_bytes = {"add_prefix_space": special.flag("add_prefix_space", default=False)}
    described["pre_tokenizer"], described["decoder"] = GPT2_WORDS | in_bytes, GPT2_WORDS
    if kind == "Qwen2Tokenizer":
        cut, last = WORDS["qwen2"]
        described["normalizer"] = {"type": "NFC"}
        described["pre_tokenizer"] = sequence("pretokenizers", cut, last | in_bytes)
    if kind == "CLIPTokenizer":
        _lower_cased(described, special.token("unk", END_OF_TEXT))
    return _finished(path, described, special, *BYTE_PAIRS[kind])


def _lower_cased(described: Part, unknown: str | None) -> None:
    """CLIP's: lower case, and a sign at the end of each word, where others have a space before it."""
    described["model"] |= {"end_of_word_suffix": "</w>", "unk_token": unknown}
    one_space = replaced({"Regex": r"\s+"}, " ")
    described["normalizer"] = sequence("normalizers", {"type": "NFC"}, one_space, {"type": "Lowercase"})
    cut = {"type": "Split", "pattern": {"Regex": CLIP_WORDS}, "behavior": "Removed", "invert": True}
    described["pre_tokenizer"] = sequence("pretokenizers", cut, BYTES)
    described["decoder"] = sequence("decoders", BYTES, replaced({"String": "</w>"}, " "))


def sentencepiece(path: Path, special: SpecialTokens) -> tuple[Part, bool]:
    """A `.model` file; and whether a space is to be put before a text, at its beginning alone."""
    kind, pieces = special.kind(*SENTENCEPIECE), SPMFile(path).read()
    if kind == "XLMRobertaTokenizer":
        pieces = _renumbered(path, pieces)
    if special.raw("add_prefix_space", None) is not None:
        pieces.add_prefix = special.flag("add_prefix_space")
    everywhere = kind in SPACE_EVERYWHERE or (kind == "LlamaTokenizer" and special.raw("legacy", None) is True)
    described = described_pieces(pieces, prefix_everywhere=everywhere)
    if kind == "T5Tokenizer" and pieces.model == UNIGRAM:
        _with_sentinels(described, special.integer("extra_ids", low=0, high=10_000, default=100))
    return _finished(path, described, special, *SENTENCEPIECE[kind]), pieces.add_prefix and not everywhere


def _renumbered(path: Path, pieces: Pieces) -> Pieces:
    """XLM-R begins its numbers with four tokens of its own, where the file has three, and ends with a mask."""
    if pieces.texts[:3] != ["<unk>", "<s>", "</s>"]:
        raise FileError("damaged", path=path, reason="it does not begin with <unk>, <s>, </s>")
    first, kinds = ["<s>", "<pad>", "</s>", "<unk>"], [CONTROL, CONTROL, CONTROL, UNKNOWN]
    return replace(
        pieces,
        texts=[*first, *pieces.texts[3:], "<mask>"],
        scores=[0.0] * 4 + pieces.scores[3:] + [0.0],
        kinds=[*kinds, *pieces.kinds[3:], CONTROL],
    )


def _with_sentinels(described: Part, n: int) -> None:
    """T5 adds tokens that stand for what was left out of a text, the last of them first."""
    vocabulary = described["model"]["vocab"]
    if not any(text == "<extra_id_0>" for text, _ in vocabulary):
        lowest = min(score for _, score in vocabulary)
        vocabulary += [[f"<extra_id_{i}>", lowest] for i in reversed(range(n))]
    sentinels = {text: i for i, (text, _) in enumerate(vocabulary) if text.startswith("<extra_id_")}
    known = {one["content"] for one in described["added_tokens"]}
    described["added_tokens"] += [
        {"id": i, "content": text, "special": True, "single_word": False, "lstrip": True, "rstrip": True,
         "normalized": False}
        for text, i in sentinels.items() if text not in known
    ]  # fmt: skip


def _described(model: Part) -> Part:
    return {"version": "1.0", "added_tokens": [], "normalizer": None, "model": model}


def _finished(path: Path, described: Part, special: SpecialTokens, defaults: Mapping[str, str], before: End,
              after: End) -> Part:  # fmt: skip
    """With its special tokens, and with those around a text."""
    finished, put = special.add_to(described, defaults), []
    numbers = numbers_of(finished)
    for end in (before, after):
        wanted = end is not None and special.flag(f"add_{end[0]}_token", default=end[1])
        put.append(special.token(end[0], defaults.get(end[0])) if wanted and end is not None else None)
        _in_vocabulary(path, numbers, put[-1])
    return finished | {"post_processor": around(numbers, *put)}


def _in_vocabulary(path: Path, numbers: Mapping[str, int], token: str | None) -> None:
    if token is not None and token not in numbers:
        raise FileError("damaged", path=path, reason=f"it has no token {token!r}")


def _numbers(path: Path) -> dict[str, int]:
    """The number of each token: all of them, each once."""
    numbers: dict[str, int] = read_json(path)
    if not numbers or not all(type(number) is int for number in numbers.values()):
        raise FileError("damaged", path=path, reason="it has no numbers of tokens")
    if sorted(numbers.values()) != list(range(len(numbers))):
        raise FileError("damaged", path=path, reason="its numbers are not those from 0 on, each once")
    return numbers


def _merges(path: Path) -> list[list[str]]:
    lines = read_text(path).replace("\r\n", "\n").split("\n")
    pairs = [line.split(" ") for line in lines[lines[0].startswith("#version") :] if line]
    if wrong := next((pair for pair in pairs if len(pair) != 2), None):
        raise FileError("damaged", path=path, reason=f"{' '.join(wrong)!r} is no pair")
    return pairs
