"""The tokenizer inside a GGUF file, as the `tokenizer.json` that says the same."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from ..errors import FileError
from .endings import END_OF_TURN
from .gguf import open_gguf
from .tokenizer import Tokenizer, read_tokenizer

PREFIX = "tokenizer.ggml."
KINDS = ("gpt2",)  # pairs of bytes that are merged; SentencePiece ("llama") and WordPiece ("bert") are not read
CONTROL, USER_DEFINED = 3, 4  # kinds of token that are found in a text before it is cut into words
ENDS = ("eos_token_id", "eot_token_id", "eom_token_id")
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
GPT2_WORDS = BYTES | {"use_regex": True}
DIGITS = {"type": "Digits", "individual_digits": True}


def _words(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def _by_script(digits: str) -> dict[str, Any]:
    """The pattern of GPT-4's tokenizer: runs of letters, of digits as long as `digits` says, of signs, of spaces."""
    return _words(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
        + digits
        + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


# How a text is cut into words before pairs are merged, by the name that llama.cpp gives it.
LLAMA3, QWEN2 = [_by_script(r"\p{N}{1,3}"), BYTES], [_by_script(r"\p{N}"), BYTES]
WORDS = {
    "gpt-2": [GPT2_WORDS],
    "mpt": [GPT2_WORDS],
    "olmo": [GPT2_WORDS],
    "smollm": [DIGITS, GPT2_WORDS],
    "starcoder": [DIGITS, GPT2_WORDS],
    "refact": [DIGITS, GPT2_WORDS],
    "llama3": LLAMA3,
    "llama-v3": LLAMA3,
    "llama-bpe": LLAMA3,
    "qwen2": QWEN2,
}
# Those in which a word that is a token is that token, and which put a token before every text.
WHOLE_WORDS_AND_START = ("llama3", "llama-v3", "llama-bpe")


class GGUFVocabulary:
    """What a GGUF file's metadata says of its tokenizer.

    Parameters
    ----------
    path : Path
    metadata : dict
    """

    def __init__(self, path: Path, metadata: dict[str, Any]) -> None:
        self._path, self._metadata = path, metadata

    @property
    def is_read(self) -> bool:
        """Whether it is of a kind that is read here; token ids need none."""
        kind, words = (self._metadata.get(PREFIX + name) for name in ("model", "pre"))
        return kind in KINDS and words in list(WORDS)

    def tokenizer(self) -> Tokenizer:
        """The tokenizer.

        Raises
        ------
        FileError
            For one of a kind that is not read, or a vocabulary that cannot be.
        MissingExtraError
            When the `tokenizers` library is not installed.
        """
        self._is("model", KINDS)
        words = self._is("pre", WORDS)
        tokens, merges = self._texts("tokens"), self._texts("merges")
        vocabulary = {token: number for number, token in enumerate(tokens)}
        if len(vocabulary) < len(tokens):
            raise self._wrong("tokens", "each token once", None)
        described = {
            "version": "1.0",
            "added_tokens": self._added(tokens),
            "normalizer": {"type": "NFC"} if words == "qwen2" else None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": WORDS[words]},
            "post_processor": self._around(tokens, words),
            "decoder": GPT2_WORDS,
            "model": {
                "type": "BPE", "vocab": vocabulary, "merges": merges,
                "ignore_merges": words in WHOLE_WORDS_AND_START,
            },
        }  # fmt: skip
        return Tokenizer(self._path, json.dumps(described))

    def end_ids(self, tokenizer: Tokenizer | None) -> frozenset[int]:
        """The ids that the file calls an end of the text or of a turn, and the usual ends of turns."""
        found = {self._id(name) for name in ENDS}
        if tokenizer is not None:
            found |= {tokenizer.id_of(name) for name in END_OF_TURN}
        return frozenset(number for number in found if number is not None)

    @property
    def chat_template(self) -> str | None:
        """The Jinja2 template of a chat, as text."""
        template = self._metadata.get("tokenizer.chat_template")
        if template is not None and not isinstance(template, str):
            raise FileError("config_value", path=self._path, name="tokenizer.chat_template", expected="a string",
                            value=template)  # fmt: skip
        return template

    def token(self, name: str) -> str:
        """The token that begins (`bos`) or ends (`eos`) a text; empty where there is none."""
        tokens, number = self._metadata.get(f"{PREFIX}tokens"), self._id(f"{name}_token_id")
        if not isinstance(tokens, list) or number is None or number >= len(tokens):
            return ""
        return str(tokens[number])

    def _added(self, tokens: list[str]) -> list[dict[str, Any]]:
        kinds = self._metadata.get(f"{PREFIX}token_type") or [1] * len(tokens)
        if not isinstance(kinds, list) or len(kinds) != len(tokens):
            raise self._wrong("token_type", f"{len(tokens)} numbers, one per token", None)
        how = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
        return [
            {"id": number, "content": tokens[number], "special": kind == CONTROL, **how}
            for number, kind in enumerate(kinds)
            if kind in (CONTROL, USER_DEFINED)
        ]

    def _around(self, tokens: list[str], words: str) -> dict[str, Any]:
        """The tokens that are put before and after a text."""
        parts: list[dict[str, Any]] = [{"Sequence": {"id": "A", "type_id": 0}}]
        special: dict[str, Any] = {}
        for name, default in (("bos", words in WHOLE_WORDS_AND_START), ("eos", False)):
            number = self._id(f"{name}_token_id")
            if not self._metadata.get(f"{PREFIX}add_{name}_token", default) or number is None:
                continue
            if number >= len(tokens):
                raise self._wrong(f"{name}_token_id", f"below {len(tokens)}", number)
            part = {"SpecialToken": {"id": tokens[number], "type_id": 0}}
            parts = [part, *parts] if name == "bos" else [*parts, part]
            special[tokens[number]] = {"id": tokens[number], "ids": [number], "tokens": [tokens[number]]}
        pair = [*parts, {"Sequence": {"id": "B", "type_id": 0}}]
        return {"type": "TemplateProcessing", "single": parts, "pair": pair, "special_tokens": special}

    def _is(self, name: str, known: Collection[str]) -> str:
        value = self._metadata.get(PREFIX + name)
        if value is None:
            raise FileError("config_missing", path=self._path, name=PREFIX + name)
        if value not in list(known):  # which may not be hashable
            raise self._wrong(name, f"one of {', '.join(known)}", value)
        return str(value)

    def _texts(self, name: str) -> list[str]:
        value = self._metadata.get(PREFIX + name)
        if not isinstance(value, list) or not value or not all(isinstance(text, str) for text in value):
            raise self._wrong(name, "a list of strings", type(value).__name__)
        return value

    def _id(self, name: str) -> int | None:
        value = self._metadata.get(PREFIX + name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            raise self._wrong(name, "a token id", value)
        return value

    def _wrong(self, name: str, expected: str, value: Any) -> FileError:
        return FileError("config_value", path=self._path, name=PREFIX + name, expected=expected, value=value)


def tokenizer_of(path: Path) -> Tokenizer:
    """The tokenizer of a model's directory, or of a GGUF file; where there is none, the error that says so."""
    if not path.is_file():
        return read_tokenizer(path)
    with open_gguf(path) as file:
        return GGUFVocabulary(path, file.metadata).tokenizer()
