"""Text to token ids and back, as `tokenizer.json` says, through the `tokenizers` library (extra `models`)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import ArgumentError, FileError, MissingExtraError
from .files import read_text


class Tokenizer:
    """What `tokenizer.json` describes, without its truncation and padding: no text is cut unless it is asked for.

    Parameters
    ----------
    path : Path
        A `tokenizer.json`.
    text : str, optional
        What would stand in it, for a tokenizer that another file describes.

    Raises
    ------
    MissingExtraError
        When the `tokenizers` library is not installed.
    FileError
        When the file is missing or damaged.
    """

    def __init__(self, path: Path, text: str | None = None) -> None:
        try:
            import tokenizers
        except ImportError:
            raise MissingExtraError("extra", package="tokenizers", extra="models") from None
        text = read_text(path) if text is None else text
        try:
            self._inner: Any = tokenizers.Tokenizer.from_str(text)
        except BaseException as error:  # a panic of the library is no Exception
            if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
                raise
            reason = " ".join(str(error).split())
            raise FileError("damaged", path=path, reason=reason) from None
        self._inner.no_truncation()
        self._inner.no_padding()

    @property
    def vocab_size(self) -> int:
        """How many ids stand for a token."""
        size: int = self._inner.get_vocab_size()
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
        try:
            encoding = self._inner.encode(text, add_special_tokens=False)
        except TypeError:
            raise ArgumentError("model_input", name="text", expected="valid Unicode", what=ascii(text)) from None
        if max_tokens is not None:
            around = self.n_special_tokens if special_tokens else 0
            encoding.truncate(max(0, max_tokens - around))
        ids: list[int] = self._inner.post_process(encoding, None, special_tokens).ids
        return ids

    def decode(self, ids: Iterable[int], *, special_tokens: bool = False) -> str:
        """The text of ids, with or without the special tokens among them."""
        text: str = self._inner.decode(self._known(ids), skip_special_tokens=not special_tokens)
        return text

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The tokens of ids as the vocabulary spells them, such as ##ing or [CLS]."""
        return [self._inner.id_to_token(i) for i in self._known(ids)]

    def knows(self, token: int) -> bool:
        """Whether an id stands for a token; models often have more rows than that."""
        return self._inner.id_to_token(token) is not None

    def id_of(self, token: str) -> int | None:
        """The id of a token as the vocabulary spells it; None where there is no such token."""
        number: int | None = self._inner.token_to_id(token)
        return number

    def _known(self, ids: Iterable[int]) -> list[int]:
        known = [int(i) for i in ids]
        for i in known:
            if not 0 <= i < 2**32 or self._inner.id_to_token(i) is None:
                raise ArgumentError("token_id", last=self.vocab_size - 1, value=i)
        return known


def read_tokenizer(directory: Path) -> Tokenizer:
    """The tokenizer of a model's directory."""
    path = directory / "tokenizer.json"
    if not path.exists():
        raise FileError("no_tokenizer", path=directory)
    return Tokenizer(path)
