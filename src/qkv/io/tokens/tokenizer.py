"""Text to token ids and back, as `tokenizer.json` says, through the `tokenizers` library (extra `models`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...errors import ArgumentError, FileError, MissingExtraError, QkvError
from ..files import read_text
from .growth import grows_too_much
from .readable import readable
from .special_tokens import SpecialTokens
from .spm_tokenizer import BEGINNING
from .vocabularies import byte_pairs, sentencepiece, wordpiece

WHOLE, PAIRS, WORDS = "tokenizer.json", "vocab.json", "vocab.txt"
PIECES = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model")


class Tokenizer:
    """What `tokenizer.json` describes, without its truncation and padding: no text is cut unless it is asked for.

    Parameters
    ----------
    path : Path
        A `tokenizer.json`.
    text : str, optional
        What would stand in it, for a tokenizer that another file describes.
    prefix : str, optional
        What is put before every text that does not begin with a special token.

    Raises
    ------
    MissingExtraError
        When the `tokenizers` library is not installed.
    FileError
        When the file is missing or damaged.
    """

    def __init__(self, path: Path, text: str | None = None, prefix: str = "") -> None:
        try:
            import tokenizers
        except ImportError:
            raise MissingExtraError("extra", package="tokenizers", extra="models") from None
        text, self._path = read_text(path) if text is None else text, path
        with self._refused():
            self._inner: Any = tokenizers.Tokenizer.from_str(text)
            if grows_too_much(self._inner):
                raise FileError("damaged", path=path, reason="its steps would make a text thousands of times as long")
        self._inner.no_truncation()
        self._inner.no_padding()
        self._prefix = prefix
        added = self._inner.get_added_tokens_decoder()
        self._added = frozenset(added)
        self._special = tuple(token.content for token in added.values() if prefix and token.special)
        self._of_bytes = "ByteLevel" in repr(self._inner.decoder)

    @property
    def vocab_size(self) -> int:
        """How many ids stand for a token."""
        size: int = self._inner.get_vocab_size()
        return size

    @property
    def n_words(self) -> int:
        """As `vocab_size`, without tokens that were added to the vocabulary."""
        size: int = self._inner.get_vocab_size(with_added_tokens=False)
        return size

    @property
    def n_special_tokens(self) -> int:
        """How many special tokens are put around a text."""
        count: int = self._inner.num_special_tokens_to_add(False)
        return count

    def encode(self, text: str, *, special_tokens: bool = True, max_tokens: int | None = None) -> list[int]:
        """The ids of a text.

        Parameters
        ----------
        text : str
        special_tokens : bool
            Put those around it that the file asks for, such as [CLS] and [SEP].
        max_tokens : int, optional
            Cut the text, never the special tokens, so that no more ids than these come out.

        Raises
        ------
        ArgumentError
            For what is no text, or holds half of a surrogate pair.
        """
        if not isinstance(text, str):
            raise ArgumentError("model_input", name="text", expected="a string", what=type(text).__name__)
        if self._prefix and text and not text.startswith(self._special):
            text = self._prefix + text
        with self._refused():
            try:
                encoding = self._inner.encode(text, add_special_tokens=False)
            except TypeError:
                raise ArgumentError("model_input", name="text", expected="valid Unicode", what=ascii(text)) from None
            if max_tokens is not None:
                around = self.n_special_tokens if special_tokens else 0
                encoding.truncate(max(0, max_tokens - around))
            ids: list[int] = self._inner.post_process(encoding, None, special_tokens).ids
        return ids

    def encode_pair(self, first: str, second: str) -> tuple[list[int], list[int]]:
        """The ids of two texts as one sequence, special tokens included, and the segment of each, as the file says.

        Raises
        ------
        ArgumentError
            As `encode`.
        """
        for text in (first, second):
            self.encode(text, special_tokens=False)  # which refuses what is no text
        with self._refused():
            encoding = self._inner.encode(first, second)
        return encoding.ids, encoding.type_ids

    def decode(self, ids: Iterable[int], *, special_tokens: bool = False) -> str:
        """The text of ids, with or without the special tokens among them."""
        known = self._known(ids)
        with self._refused():
            text: str = self._inner.decode(known, skip_special_tokens=not special_tokens)
        return text

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The tokens of ids as the vocabulary spells them, such as ##ing or [CLS]."""
        return [self._inner.id_to_token(i) for i in self._known(ids)]

    def readable(self, ids: Iterable[int]) -> list[str]:
        """As `tokens`, but a token of bytes as the text that it stands for; Ġ still is a space, Ċ a new line."""
        known = self._known(ids)
        spelled = self.tokens(known)
        if not self._of_bytes:
            return spelled
        return [text if i in self._added else readable(text) for i, text in zip(known, spelled, strict=True)]

    def knows(self, token: int) -> bool:
        """Whether an id stands for a token; models often have more rows than that."""
        return self._inner.id_to_token(token) is not None

    def id_of(self, token: str) -> int | None:
        """The id of a token as the vocabulary spells it; None where there is no such token."""
        number: int | None = self._inner.token_to_id(token)
        return number

    @contextmanager
    def _refused(self) -> Iterator[None]:
        """Whatever the library says of its file in one line; a panic of it is no `Exception`."""
        try:
            yield
        except (KeyboardInterrupt, SystemExit, MemoryError, QkvError):
            raise
        except BaseException as error:
            reason = " ".join(str(error).split())
            raise FileError("damaged", path=self._path, reason=reason) from None

    def _known(self, ids: Iterable[int]) -> list[int]:
        known = [int(i) for i in ids]
        for i in known:
            if not 0 <= i < 2**32 or self._inner.id_to_token(i) is None:
                raise ArgumentError("token_id", last=self.vocab_size - 1, value=i)
        return known


def read_tokenizer(directory: Path) -> Tokenizer:
    """The tokenizer of a model's directory, in the newest form that is there.

    Raises
    ------
    FileError
        no_tokenizer where there is none, damaged, or config_value and its like for one that is not understood.
    """
    path = tokenizer_file(directory)
    if path is None:
        raise FileError("no_tokenizer", path=directory)
    if path.name == WHOLE:
        return Tokenizer(path)
    special = SpecialTokens(directory)
    if path.name in PIECES:
        described, prefixed = sentencepiece(path, special)
        return Tokenizer(path, json.dumps(described), BEGINNING if prefixed else "")
    return Tokenizer(path, json.dumps((wordpiece if path.name == WORDS else byte_pairs)(path, special)))


def tokenizer_file(directory: Path) -> Path | None:
    """The file that `read_tokenizer` begins with; None where there is none."""
    return next((directory / name for name in (WHOLE, PAIRS, *PIECES, WORDS) if (directory / name).exists()), None)
