"""How an encoder-decoder begins to write, and what it never writes, as its files say."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .config import Config


@dataclass(frozen=True)
class Target:
    """The rules of the output.

    Attributes
    ----------
    start : tuple of int
        The tokens that stand before the first that is written; empty where the files do not say.
    first : int or None
        What the first token written must be.
    never, never_first : frozenset of int
        Tokens that are not written, or not as the first.
    languages, tasks : dict of str to int
        The tokens by which a speech model is told what it hears and what to do.
    no_timestamps : int or None
        The token that says: text alone.
    """

    start: tuple[int, ...] = ()
    first: int | None = None
    never: frozenset[int] = frozenset()
    never_first: frozenset[int] = frozenset()
    languages: dict[str, int] = field(default_factory=dict)
    tasks: dict[str, int] = field(default_factory=dict)
    no_timestamps: int | None = None


def read_target(directory: Path, config: Config, vocab_size: int) -> Target:
    """What `generation_config.json` says, and where it says nothing `config.json`.

    Raises
    ------
    FileError
        config_value for what is no token of the vocabulary.
    """
    path = directory / "generation_config.json"
    files = [*([Config(path)] if path.exists() else []), config]
    read = _Reader(files, vocab_size)
    start, bos = read.token("decoder_start_token_id"), read.token("bos_token_id")
    begin = start if start is not None else bos
    return Target(
        start=() if begin is None else (begin, *read.forced("forced_decoder_ids")),
        first=read.token("forced_bos_token_id"),
        never=read.tokens("suppress_tokens") | read.single_tokens("bad_words_ids"),
        never_first=read.tokens("begin_suppress_tokens"),
        languages=read.named("lang_to_id"),
        tasks=read.named("task_to_id"),
        no_timestamps=read.token("no_timestamps_token_id"),
    )


class _Reader:
    def __init__(self, files: list[Config], vocab_size: int) -> None:
        self._files, self._last = files, vocab_size - 1

    def _found(self, name: str) -> tuple[Config, Any]:
        """The value in the first file that has one, and that file."""
        for file in self._files:
            if (value := file.raw(name, None)) is not None:
                return file, value
        return self._files[-1], None

    def _is_token(self, value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= self._last

    def token(self, name: str) -> int | None:
        file, value = self._found(name)
        if value is not None and not self._is_token(value):
            raise file.wrong(name, f"a token id from 0 to {self._last}, or null")
        return None if value is None else int(value)

    def tokens(self, name: str) -> frozenset[int]:
        file, value = self._found(name)
        listed = [] if value is None or value == [-1] else value
        if not isinstance(listed, list) or not all(map(self._is_token, listed)):
            raise file.wrong(name, f"a list of token ids from 0 to {self._last}")
        return frozenset(listed)

    def single_tokens(self, name: str) -> frozenset[int]:
        file, value = self._found(name)
        listed = [] if value is None else value
        if not isinstance(listed, list) or any(
            not isinstance(word, list) or len(word) != 1 or not self._is_token(word[0]) for word in listed
        ):
            raise file.wrong(name, f"a list of lists of one token id each, from 0 to {self._last}")
        return frozenset(word[0] for word in listed)

    def forced(self, name: str) -> tuple[int, ...]:
        """Tokens by their place, from 1 on; where one of them is left open, none is forced."""
        file, value = self._found(name)
        listed = [] if value is None else value
        pairs = isinstance(listed, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in listed)
        if not pairs or any(
            place != expected or not (token is None or self._is_token(token))
            for expected, (place, token) in enumerate(listed, 1)
        ):
            raise file.wrong(name, "a list of [1, id], [2, id], ... in order")
        return () if any(token is None for _, token in listed) else tuple(token for _, token in listed)

    def named(self, name: str) -> dict[str, int]:
        """Tokens by name, without the marks around it: <|en|> is en."""
        file, value = self._found(name)
        if value is not None and not (isinstance(value, dict) and all(map(self._is_token, value.values()))):
            raise file.wrong(name, f"an object of token ids from 0 to {self._last}")
        return {key.removeprefix("<|").removesuffix("|>"): token for key, token in (value or {}).items()}
