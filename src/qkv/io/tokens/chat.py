"""A chat as the text that a model was taught to read, by its own template, in Jinja2's sandbox (extra `models`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import ArgumentError, FileError, MissingExtraError
from ..files import read_json, read_text
from .sandbox import rendered
from .special_tokens import SETTINGS, token_text

EXPECTED = "a list of messages, each with role and content"


class ChatTemplate:
    """The template that came with a model. Nothing of it is compiled before it is used.

    Parameters
    ----------
    path : Path
        Where it is from, for messages.
    source : str
    **tokens : str
        What it may call by name: bos_token, eos_token.
    """

    def __init__(self, path: Path, source: str, **tokens: str) -> None:
        self.path, self.source, self.tokens = path, source, tokens

    def render(self, messages: Sequence[Mapping[str, Any]], answer: bool = True) -> str:
        """The chat as one text.

        Parameters
        ----------
        messages : sequence of dict
            Each with `role` and `content`.
        answer : bool
            End with the beginning of the model's answer.

        Raises
        ------
        ArgumentError
            For what is no list of messages.
        FileError
            chat, when the template is no template, refuses the chat, or does what the sandbox forbids.
        MissingExtraError
            When Jinja2 is not installed.
        """
        listed = isinstance(messages, list | tuple) and all(isinstance(m, Mapping) for m in messages)
        if not listed or not messages or not all({"role", "content"} <= set(m) for m in messages):
            raise ArgumentError("model_input", name="messages", expected=EXPECTED, what=repr(messages)[:80])
        try:
            return rendered(self.source, {"messages": list(messages), "add_generation_prompt": answer, **self.tokens})
        except MissingExtraError:
            raise
        except Exception as error:  # whatever a template may do: it is a program
            reason = " ".join(str(error).split()) or type(error).__name__
            raise FileError("chat", path=self.path, reason=reason) from None


def read_chat_template(directory: Path) -> ChatTemplate | None:
    """The template in a model's directory: a file of its own, or a setting of the tokenizer; None where there is none.

    Raises
    ------
    FileError
        config_value for one that is no text.
    """
    path, own = directory / SETTINGS, directory / "chat_template.jinja"
    values = read_json(path) if path.exists() else {}
    source = read_text(own) if own.exists() else values.get("chat_template")
    if isinstance(source, list):  # several under names
        named = {one.get("name"): one.get("template") for one in source if isinstance(one, dict)}
        source = named.get("default")
    if source is None:
        return None
    if not isinstance(source, str):
        raise FileError("config_value", path=path, name="chat_template", expected="a string", value=source)
    tokens = {name: _text(values.get(name)) for name in ("bos_token", "eos_token")}
    return ChatTemplate(own if own.exists() else path, source, **tokens)


def _text(token: Any) -> str:
    text = token_text(token)
    return text if isinstance(text, str) else ""
