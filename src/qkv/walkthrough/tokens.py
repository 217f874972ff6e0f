"""A sentence as tokens, the way a reader sees it: one per Chinese character, one per word otherwise."""

from __future__ import annotations

import unicodedata

from rich.cells import split_graphemes

from ..errors import ArgumentError
from ..ops.valid import is_integer


def split_tokens(text: str) -> list[str]:
    """The tokens of a sentence.

    Parameters
    ----------
    text : str
        Any text. Words are what stands between spaces; every character that is two cells wide (Chinese, Japanese,
        emoji, full-width punctuation) is a token of its own, except in Korean, which has words.

    Returns
    -------
    list of str
        At least one. What belongs together on the screen stays together: an accent with its letter, an emoji with
        what joins it.

    Raises
    ------
    ArgumentError
        When it is no text, or there is no token in it.

    Examples
    --------
    >>> split_tokens("远方有颗苹果树")
    ['远', '方', '有', '颗', '苹', '果', '树']
    >>> split_tokens("The café 很好 👩‍👩‍👧!")
    ['The', 'café', '很', '好', '👩‍👩‍👧', '!']
    """
    if not isinstance(text, str):
        raise ArgumentError("number", name="text", expected="a string", value=text)
    tokens: list[str] = []
    for piece in text.split():
        word = ""
        for start, end, width in split_graphemes(piece)[0]:
            grapheme = piece[start:end]
            if width == 2 and not unicodedata.name(grapheme[0], "").startswith("HANGUL"):
                tokens += [word, grapheme]
                word = ""
            else:
                word += grapheme
        tokens.append(word)
    tokens = [token for token in tokens if token]
    if not tokens:
        raise ArgumentError("empty_text")
    return tokens


def find_token(tokens: list[str], wanted: str | int) -> int:
    """The place of a token: by its text (the first such), or by its number from 0.

    Raises
    ------
    ArgumentError
        When there is no such token; it names them all.
    """
    if isinstance(wanted, str) and wanted in tokens:
        return tokens.index(wanted)
    try:
        if isinstance(wanted, str) or is_integer(wanted):
            place = int(wanted)
            if 0 <= place < len(tokens):
                return place
    except ValueError:
        pass
    raise ArgumentError("no_token", token=wanted, tokens=" ".join(tokens))
