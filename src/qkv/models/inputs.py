"""What a model is called with, as lists of token ids: checked once, before anything is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from ..errors import ArgumentError, DtypeError
from ..io.gguf.tokenizer import tokenizer_at
from ..io.tokens.tokenizer import Tokenizer
from ..ops.precision import Array

Given = str | Sequence[str] | ArrayLike | Sequence[ArrayLike]
EXPECTED = "text, token ids, or a list of either"


class Reader(Protocol):
    """What reads text: a model, with its tokenizer or where one may be found."""

    tokenizer: Tokenizer | None
    directory: Path | None


def tokenizer_of(model: Reader) -> Tokenizer:
    """The model's tokenizer; where it came without one, what is missing is said."""
    return model.tokenizer or tokenizer_at(model.directory or Path())


def read_ids(
    model: Reader, given: Given, vocab_size: int, n_positions: int | None, *,
    special_tokens: bool = True, lower_case: bool = False, max_tokens: int | None = None,
) -> tuple[list[Array], bool]:  # fmt: skip
    """Token ids, checked, and whether it was a single sequence, not a list; the keywords are about text alone.

    Raises
    ------
    ArgumentError, DtypeError, FileError, MissingExtraError
        As `read_given`, `check_ids` and `tokenizer_of`.
    """
    n_special = 0

    def encode(text: str) -> list[int]:
        nonlocal n_special
        tokenizer = tokenizer_of(model)
        n_special = tokenizer.n_special_tokens if special_tokens else 0
        text = text.lower() if lower_case else text
        return tokenizer.encode(text, special_tokens=special_tokens, max_tokens=max_tokens)

    sequences, single = read_given(given, encode)
    check_ids(sequences, vocab_size, n_positions, n_special)
    return sequences, single


def read_given(given: Given, encode: Callable[[str], Sequence[int]]) -> tuple[list[Array], bool]:
    """Token ids of each sequence, and whether it was a single one, not a list.

    Parameters
    ----------
    given : str, list of str, (T,) array_like of int, or a list of such
    encode : callable (str) -> list of int

    Raises
    ------
    ArgumentError, DtypeError
        For anything else.

    Examples
    --------
    >>> read_given([[7, 8, 9], [5]], encode=list)
    ([array([7, 8, 9]), array([5])], False)
    """
    if isinstance(given, np.ndarray) and given.dtype.kind in "OUT":
        given = given.tolist()
    if isinstance(given, str):
        return [np.array(encode(given), dtype=np.intp)], True
    if not isinstance(given, list | tuple | np.ndarray):
        raise ArgumentError("model_input", name="the input", expected=EXPECTED, what=type(given).__name__)
    if len(given) == 0:
        raise ArgumentError("empty_text")
    n_texts = sum(isinstance(item, str) for item in given)
    if n_texts == len(given):
        return [np.array(encode(str(text)), dtype=np.intp) for text in given], False
    if n_texts:
        raise ArgumentError("model_input", name="the input", expected=EXPECTED, what="a mixture of them")
    if not isinstance(given[0], list | tuple | np.ndarray):
        return [_ids(given)], True
    return [_ids(item) for item in given], False


def only(read: tuple[list[Array], bool], name: str = "the input") -> Array:
    """The one sequence of what `read_given` gives, where a list will not do."""
    sequences, single = read
    if not single:
        raise ArgumentError("model_input", name=name, expected="one sequence", what="a list")
    return sequences[0]


def is_pair(given: Any) -> bool:
    """Whether it is a pair of texts."""
    return isinstance(given, tuple) and len(given) == 2 and all(isinstance(text, str) for text in given)


def is_text(given: Given) -> bool:
    """Whether it is text, or a list of texts, that was given."""
    return isinstance(given, str) or (len(given) > 0 and isinstance(given[0], str))  # type: ignore[arg-type, index]


def _ids(given: Any) -> Array:
    try:
        ids = np.asarray(given)
    except ValueError:  # rows of different lengths, one level too deep
        raise ArgumentError("model_input", name="the input", expected=EXPECTED, what="a nested list") from None
    if ids.ndim != 1:
        raise ArgumentError("model_input", name="the input", expected=EXPECTED, what=f"shape {ids.shape}")
    if ids.size and ids.dtype.kind not in "iu":
        raise DtypeError("dtype", name="ids", expected="integer", dtype=ids.dtype)
    return ids.astype(np.intp)


def check_ids(sequences: Sequence[Array], vocab_size: int, n_positions: int | None, n_special: int = 0) -> None:
    """Each sequence has a token of its own beside the special ones, fits into the model, and knows only its vocabulary.

    Raises
    ------
    ArgumentError
        empty_text, too_long or token_id.
    """
    for index, ids in enumerate(sequences):
        if len(ids) <= n_special:
            raise ArgumentError("empty_text" if len(sequences) == 1 else "empty_text_at", index=index)
        if n_positions is not None and len(ids) > n_positions:
            raise ArgumentError("too_long", size=len(ids), limit=n_positions)
        wrong = ids[(ids < 0) | (ids >= vocab_size)]
        if wrong.size:
            raise ArgumentError("token_id", last=vocab_size - 1, value=int(wrong[0]))


def padded(sequences: Sequence[Array]) -> tuple[Array, Array]:
    """The sequences as rows (B, T) of one array, filled up with 0, and their lengths (B,).

    Examples
    --------
    >>> ids, lengths = padded([np.array([7, 8, 9]), np.array([5])])
    >>> ids.tolist(), lengths.tolist()
    ([[7, 8, 9], [5, 0, 0]], [3, 1])
    """
    lengths = np.array([len(ids) for ids in sequences])
    rows = np.zeros((len(sequences), lengths.max(initial=0)), np.intp)
    for row, ids in zip(rows, sequences):
        row[: len(ids)] = ids
    return rows, lengths


def left_padded(sequences: Sequence[Array]) -> tuple[Array, Array]:
    """The sequences as rows (B, T) that end together, filled up with 0 on the left, and where each starts (B,).

    Examples
    --------
    >>> ids, starts = left_padded([np.array([7, 8, 9]), np.array([5])])
    >>> ids.tolist(), starts.tolist()
    ([[7, 8, 9], [0, 0, 5]], [0, 2])
    """
    longest = max((len(ids) for ids in sequences), default=0)
    rows = np.zeros((len(sequences), longest), np.intp)
    for row, ids in zip(rows, sequences):
        row[longest - len(ids) :] = ids
    return rows, np.array([longest - len(ids) for ids in sequences], np.intp)


def batches(sequences: Sequence[Array], batch_size: int) -> Iterator[list[int]]:
    """Which sequences to compute together, longest first: of nearly one length, so that little is padding.

    Examples
    --------
    >>> list(batches([np.ones(n) for n in (3, 40, 4, 50)], batch_size=3))
    [[3, 1], [2, 0]]
    """
    batch: list[int] = []
    for index in sorted(range(len(sequences)), key=lambda index: -len(sequences[index])):
        if batch and (len(batch) == batch_size or 2 * len(sequences[index]) < len(sequences[batch[0]])):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
