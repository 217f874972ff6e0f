"""A chat with a model: what was said, and the answer to what is said next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError
from .generation.prefix import PrefixCache

if TYPE_CHECKING:
    from .decoder import Decoder

Message = dict[str, str]


@dataclass(eq=False)
class Conversation:
    """What was said, and what the model has read of it.

    Attributes
    ----------
    model : Decoder
    how : dict
        The settings of `model.generate`. Of max_new_tokens only as many as there is room for.
    plain : bool
        Without a chat template: the model goes on with the text of all lines and answers.
    messages : list of dict
        Each with `role` and `content`.
    cache : PrefixCache
        Each answer reads only what is new.
    n_prompt : int
        How many tokens stood before the last answer.
    is_cut : bool
        Whether the last answer ended because the model's positions did.
    """

    model: Decoder
    how: dict[str, Any] = field(default_factory=dict)
    plain: bool = False
    messages: list[Message] = field(default_factory=list)
    n_prompt: int = 0
    is_cut: bool = False
    cache: PrefixCache = field(init=False)

    def __post_init__(self) -> None:
        self.how = dict(self.how)
        self.cache = PrefixCache(self.model, self.how.pop("kv_dtype", None))

    def reset(self) -> None:
        """Forget all that was said but the system's words."""
        self.messages = [message for message in self.messages if message["role"] == "system"]
        self.n_prompt = 0

    def instruct(self, text: str) -> None:
        """Begin anew under other words of the system; none for an empty text."""
        self.messages = [{"role": "system", "content": text}] if text else []
        self.n_prompt = 0

    def prompt(self, text: str = "") -> str:
        """All that was said, and `text`, as the model reads it."""
        messages = [*self.messages, {"role": "user", "content": text}]
        if not self.plain:
            return self.model.chat_prompt(messages)
        return "".join(m["content"] + ("" if m["role"] == "user" else "\n") for m in messages)

    def answer(self, text: str) -> Iterator[str]:
        """The answer, piece by piece. What has come of it counts as said, also if it is broken off.

        Raises
        ------
        ArgumentError
            full, when there is no room for an answer; then nothing counts as said.
        """
        prompt = self.prompt(text)
        n_prompt, n_new = self._room(prompt)
        pieces = self.model.stream(prompt, **self.how | {"max_new_tokens": n_new}, cache=self.cache)
        return self._said(text, n_prompt, n_new, pieces)

    def _room(self, prompt: str) -> tuple[int, int]:
        """How many tokens a prompt has, and how many may come."""
        slide, limit = self.how.get("slide", False), self.model.settings.n_positions
        (ids,), _ = self.model.read(prompt, slide=True)
        n_new = self.how.get("max_new_tokens", 512)
        if limit is None or slide:
            return len(ids), n_new
        if len(ids) >= limit:
            raise ArgumentError("full", size=len(ids), limit=limit)
        return len(ids), min(n_new, limit - len(ids))

    def _said(self, text: str, n_prompt: int, n_new: int, pieces: Iterator[str]) -> Iterator[str]:
        said: list[str] = []
        try:
            for piece in pieces:
                said.append(piece)
                yield piece
        finally:
            self.messages += [{"role": "user", "content": text}, {"role": "assistant", "content": "".join(said)}]
            self.n_prompt = n_prompt
            read = len(self.cache.ids)
            self.is_cut = n_new < self.how.get("max_new_tokens", 512) and read >= n_prompt + n_new - 1
