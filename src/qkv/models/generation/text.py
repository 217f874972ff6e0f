"""Ids to text while they come, never half a character; and where a text is to stop."""

from __future__ import annotations

from collections.abc import Sequence

from ...io.tokens.tokenizer import Tokenizer

UNFINISHED = "\N{REPLACEMENT CHARACTER}"
CONTEXT = 6  # ids of the prompt that are decoded along, for what a decoder does at the start of a text


class Writer:
    """The text that ids add to a prompt.

    Parameters
    ----------
    tokenizer : Tokenizer
    prompt : sequence of int
    stop : sequence of str
        Texts at which to stop; none of them is given out.

    Attributes
    ----------
    stopped : bool
        Whether one of them has come.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int], stop: Sequence[str] = ()) -> None:
        self._tokenizer, self._stop = tokenizer, stop
        self._ids = [int(i) for i in prompt[-CONTEXT:] if tokenizer.knows(int(i))]
        self._before, self._read = 0, len(self._ids)
        self._held = ""
        self.stopped = False

    def add(self, token: int) -> str:
        """The text that is certain now, after one more id; empty while a character is not complete."""
        if not self._tokenizer.knows(token):  # a row of the model's table that only fills it up
            return ""
        self._ids.append(token)
        text = self._unread()
        if text.endswith(UNFINISHED):
            return ""
        self._before, self._read = self._read, len(self._ids)
        return self._until_stop(text)

    def finish(self) -> str:
        """The text that was held back, without a character that never became complete."""
        rest = "" if self.stopped else self._until_stop(self._unread().rstrip(UNFINISHED))
        held, self._held = self._held, ""
        return rest if self.stopped else rest + held

    def _unread(self) -> str:
        """What the newest ids add to those before them: decoded together, for neighbours change each other."""
        known = self._tokenizer.decode(self._ids[self._before : self._read])
        return self._tokenizer.decode(self._ids[self._before :])[len(known) :]

    def _until_stop(self, text: str) -> str:
        text = self._held + text
        found = [place for place in (text.find(word) for word in self._stop) if place >= 0]
        if found:
            self.stopped, self._held = True, ""
            return text[: min(found)]
        held = max((_begun(text, word) for word in self._stop), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]


def _begun(text: str, word: str) -> int:
    """How many characters at the end of a text may be the beginning of a word.

    Examples
    --------
    >>> _begun("Hello\\nUs", "\\nUser:")
    3
    """
    return next((n for n in range(min(len(word) - 1, len(text)), 0, -1) if text.endswith(word[:n])), 0)
