"""The tokenizer inside a GGUF file, as the `tokenizer.json` that says the same."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from ...errors import FileError
from ..cutting import GPT2_WORDS, WORDS, Part, added, around, sequence
from ..tokens.endings import END_OF_TURN
from ..tokens.spm import BPE, CONTROL, USER_DEFINED, Pieces
from ..tokens.spm_tokenizer import described as described_pieces
from ..tokens.tokenizer import Tokenizer, read_tokenizer
from .file import open_gguf

PREFIX = "tokenizer.ggml."
KINDS = ("gpt2", "llama")  # pairs of bytes that are merged, and SentencePiece's; others are not read
ENDS = ("eos_token_id", "eot_token_id", "eom_token_id")
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
        return kind == "llama" or (kind == "gpt2" and words in list(WORDS))

    def tokenizer(self) -> Tokenizer:
        """The tokenizer.

        Raises
        ------
        FileError
            For one of a kind that is not read, or a vocabulary that cannot be.
        MissingExtraError
            When the `tokenizers` library is not installed.
        """
        kind, tokens = self._is("model", KINDS), self._texts("tokens")
        if len(set(tokens)) < len(tokens):
            raise self._wrong("tokens", "each token once", None)
        described = self._by_score(tokens) if kind == "llama" else self._by_bytes(tokens)
        return Tokenizer(self._path, json.dumps(described))

    def _by_bytes(self, tokens: list[str]) -> Part:
        """GPT-2's kind: merges in their order, within words."""
        words, merges = self._is("pre", WORDS), self._texts("merges")
        whole = words in WHOLE_WORDS_AND_START
        kinds = self._kinds(tokens)
        return {
            "version": "1.0",
            "added_tokens": [added(i, tokens[i], special=kind == CONTROL) for i, kind in enumerate(kinds)
                             if kind in (CONTROL, USER_DEFINED)],
            "normalizer": {"type": "NFC"} if words == "qwen2" else None,
            "pre_tokenizer": sequence("pretokenizers", *WORDS[words]),
            "post_processor": self._around(tokens, starts=whole),
            "decoder": GPT2_WORDS,
            "model": {
                "type": "BPE", "vocab": {token: i for i, token in enumerate(tokens)}, "merges": merges,
                "ignore_merges": whole,
            },
        }  # fmt: skip

    def _by_score(self, tokens: list[str]) -> Part:
        """SentencePiece's kind, as llama.cpp reads it: a space before the text, and after every special token."""
        scores = self._metadata.get(f"{PREFIX}scores")
        numbers = isinstance(scores, list) and all(isinstance(score, float) for score in scores)
        if not numbers or not isinstance(scores, list) or len(scores) != len(tokens):
            raise self._wrong("scores", f"{len(tokens)} numbers, one per token", None)
        pieces = Pieces(
            tokens, scores, self._kinds(tokens), BPE, byte_fallback=True,
            add_prefix=self._flag("add_space_prefix", True),
            remove_spaces=self._flag("remove_extra_whitespaces", False),
        )  # fmt: skip
        if reason := pieces.reason():
            raise FileError("damaged", path=self._path, reason=reason)
        around = {"post_processor": self._around(tokens, starts=True)}
        return described_pieces(pieces, prefix_everywhere=True) | around

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

    def _kinds(self, tokens: list[str]) -> list[int]:
        """The kind of each token, by SentencePiece's numbers."""
        kinds = self._metadata.get(f"{PREFIX}token_type") or [1] * len(tokens)
        if not isinstance(kinds, list) or len(kinds) != len(tokens):
            raise self._wrong("token_type", f"{len(tokens)} numbers, one per token", None)
        return kinds

    def _around(self, tokens: list[str], starts: bool) -> Part:
        """The tokens that are put before and after a text; `starts`: one before it, where the file does not say."""
        put = []
        for name, default in (("bos", starts), ("eos", False)):
            number = self._id(f"{name}_token_id")
            wanted = self._flag(f"add_{name}_token", default) and number is not None
            if wanted and number is not None and number >= len(tokens):
                raise self._wrong(f"{name}_token_id", f"below {len(tokens)}", number)
            put.append(tokens[number] if wanted and number is not None else None)
        return around({token: i for i, token in enumerate(tokens)}, *put)

    def _flag(self, name: str, default: bool) -> bool:
        value = self._metadata.get(PREFIX + name, default)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false", value)
        return value

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


def tokenizer_at(path: Path) -> Tokenizer:
    """The tokenizer of a model's directory, or of a GGUF file; where there is none, the error that says so."""
    if not path.is_file():
        return read_tokenizer(path)
    with open_gguf(path) as file:
        return GGUFVocabulary(path, file.metadata).tokenizer()
