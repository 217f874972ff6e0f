"""SentencePiece's model files: the few fields that a tokenizer needs, out of their protocol buffer."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import FileError
from ..files import read_bytes
from .charsmap import is_whole

# The kinds of a piece, by SentencePiece's own numbers.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
UNIGRAM, BPE, CHAR = 1, 2, 4  # how a text is cut; 3 takes whole words and is not read
# The numbers of the fields that are read, in sentencepiece_model.proto.
PIECES, TRAINER, NORMALIZER, DENORMALIZER = 1, 2, 3, 5
VARINT, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5  # how a field is written
MOST_PIECES, LONGEST_PIECE = 2_000_000, 512  # every place in a piece is tried as the seam of a merge


@dataclass
class Pieces:
    """A vocabulary of SentencePiece, and how a text is made ready for it.

    Attributes
    ----------
    texts : list of str
    scores : list of float
    kinds : list of int
    model : int
        UNIGRAM, BPE or CHAR.
    byte_fallback : bool
        A character that is no piece is spelled in bytes.
    charsmap : bytes
        What is replaced beforehand, as SentencePiece compiles it; empty for nothing.
    add_prefix : bool
        A space is put before the text.
    remove_spaces : bool
        Spaces at the ends, and all but one of several, are taken away.
    """

    texts: list[str] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    model: int = UNIGRAM
    byte_fallback: bool = False
    charsmap: bytes = b""
    add_prefix: bool = True
    remove_spaces: bool = True

    def of_kind(self, *kinds: int) -> list[int]:
        """The numbers of the pieces of these kinds."""
        return [i for i, kind in enumerate(self.kinds) if kind in kinds]

    def reason(self) -> str | None:
        """What makes the vocabulary unusable, or None."""
        if not self.texts:
            return "it has no pieces"
        if len(set(self.texts)) < len(self.texts):
            twice, _ = Counter(self.texts).most_common(1)[0]
            return f"{twice!r} stands in it twice"
        if not all(map(math.isfinite, self.scores)):
            return f"the score of {self.texts[[math.isfinite(s) for s in self.scores].index(False)]!r} is no number"
        if "" in self.texts:
            return "an empty piece stands in it"
        if max(map(len, self.texts)) > LONGEST_PIECE:
            return f"a piece of more than {LONGEST_PIECE} characters stands in it"
        return None if len(self.of_kind(UNKNOWN)) == 1 else "it must have one piece for what is unknown"


class SPMFile:
    """A `.model` file of SentencePiece.

    Raises
    ------
    FileError
        damaged, config_value for what is not read, and what `read_bytes` raises.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Pieces:
        """The vocabulary in the file."""
        found = Pieces()
        for number, value in self._fields(read_bytes(self._path)):
            if number == PIECES:
                self._piece(found, self._message(value))
            elif number == TRAINER:
                self._trainer(found, dict(self._fields(self._message(value))))
            elif number == NORMALIZER:
                self._normalizer(found, dict(self._fields(self._message(value))))
            elif number == DENORMALIZER and dict(self._fields(self._message(value))).get(2):
                raise self._value("denormalizer_spec", "left out", "...")
        if reason := found.reason():
            raise self._damaged(reason)
        return found

    def _piece(self, found: Pieces, data: bytes) -> None:
        fields = dict(self._fields(data))
        text, score, kind = fields.get(1, b""), fields.get(2, 0.0), fields.get(3, NORMAL)
        if not isinstance(text, bytes) or not isinstance(score, float) or kind not in range(NORMAL, BYTE + 1):
            raise self._damaged(f"piece {len(found.texts)} is none")
        if len(found.texts) >= MOST_PIECES:
            raise self._damaged(f"it has more than {MOST_PIECES} pieces")
        found.texts.append(self._text(text))
        found.scores.append(score)
        found.kinds.append(kind)

    def _trainer(self, found: Pieces, fields: dict[int, Any]) -> None:
        found.model, found.byte_fallback = fields.get(3, UNIGRAM), bool(fields.get(35, 0))
        if found.model not in (UNIGRAM, BPE, CHAR):
            choices = f"{UNIGRAM}, {BPE}, {CHAR}"
            raise self._value("model_type", f"one of {choices}", found.model)
        if fields.get(24, 0):
            raise self._value("treat_whitespace_as_suffix", "false", True)

    def _normalizer(self, found: Pieces, fields: dict[int, Any]) -> None:
        found.charsmap = self._message(fields.get(2, b""))
        if found.charsmap and not is_whole(found.charsmap):
            raise self._damaged("its table of replacements is broken")
        found.add_prefix, found.remove_spaces = bool(fields.get(3, 1)), bool(fields.get(4, 1))
        if not fields.get(5, 1):
            raise self._value("escape_whitespaces", "true", False)

    def _fields(self, data: bytes) -> Iterator[tuple[int, Any]]:
        """The numbers of the fields of a message, and what stands in each."""
        at = 0
        while at < len(data):
            tag, at = self._varint(data, at)
            number, how = tag >> 3, tag & 7
            if how == VARINT:
                value, at = self._varint(data, at)
                yield number, value
                continue
            size = {FIXED_64: 8, FIXED_32: 4}.get(how)
            if how == BYTES:
                size, at = self._varint(data, at)
            if size is None:
                raise self._damaged(f"no protocol buffer at byte {at}")
            if size > len(data) - at:
                raise self._damaged(f"it ends before {size} things that it announces")
            taken, at = data[at : at + size], at + size
            yield number, taken if how == BYTES else struct.unpack("<f" if size == 4 else "<d", taken)[0]

    def _varint(self, data: bytes, at: int) -> tuple[int, int]:
        value = shift = 0
        while at < len(data) and shift < 64:
            value |= (data[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 128:
                return value, at
        raise self._damaged("it ends within a number")

    def _message(self, value: Any) -> bytes:
        if not isinstance(value, bytes):
            raise self._damaged("a number stands where a message should")
        return value

    def _text(self, data: bytes) -> str:
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._damaged(f"no UTF-8 at byte {error.start} of a piece") from None

    def _damaged(self, reason: str) -> FileError:
        return FileError("damaged", path=self._path, reason=reason)

    def _value(self, name: str, expected: str, value: Any) -> FileError:
        return FileError("config_value", path=self._path, name=name, expected=expected, value=value)
