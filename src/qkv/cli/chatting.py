"""`qkv chat`: talk with a model, and look at what its answers looked at."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from .. import words
from ..errors import ArgumentError, FileError, QkvError
from ..io.whole import write_whole
from ..layers.cached_rows import PACKINGS
from ..models import Decoder
from ..models.conversation import Conversation
from ..views.progress_text import paragraph
from ..views.screen import write
from ..views.walk_text import part_text
from ..walkthrough.answer import attended
from .loading import load_shown, model_option, model_path
from .saying import aside, screen, show, utter

PROMPT = "> "


def add(group: click.Group, lang: str) -> None:
    """Add the command to the command line."""

    def option(*names: str, **how: Any) -> Callable[[Any], Any]:
        key = names[0].lstrip("-").replace("-", "_")
        return click.option(*names, help=words.say(f"help.chat_option.{key}", lang), **how)

    @group.command("chat", help=words.say("help.chat", lang))
    @model_option(lang)
    @option("--system")
    @option("--plain", is_flag=True)
    @option("--max-new-tokens", type=int, default=512)
    @option("--temperature", type=float, default=0.0)
    @option("--top-k", type=int)
    @option("--top-p", type=float)
    @option("--min-p", type=float)
    @option("--repetition-penalty", type=float, default=1.0)
    @option("--seed", type=int)
    @option("--slide", is_flag=True)
    @option("--kv-dtype", type=click.Choice(PACKINGS))
    @option("--lang", type=click.Choice(words.LANGUAGES), expose_value=False)
    def chat_command(model: Path | None, system: str | None, plain: bool, **how: Any) -> None:
        loaded = load_shown(model, lang)
        if not isinstance(loaded, Decoder):
            raise ArgumentError("no_partner", path=model_path(model))
        if loaded.chat_template is None and not plain:
            raise FileError("no_chat", path=model_path(model))
        chat = Conversation(loaded, how, plain)
        if system:
            chat.instruct(system)
        _Talk(chat, lang).run()


class _Talk:
    """Lines in, answers out, until the lines end."""

    def __init__(self, chat: Conversation, lang: str) -> None:
        self.chat, self.lang = chat, lang
        self.terminal = sys.stdin.isatty()
        self.reading = True
        self.saved: set[str] = set()
        self.commands: dict[str, Callable[[str], None]] = {
            "/attention": self.attention, "/help": self.help, "/quit": self.quit, "/reset": self.reset,
            "/save": self.save, "/system": self.system,
        }  # fmt: skip

    def run(self) -> None:
        """Read and answer; what cannot be done is said, and the talk goes on."""
        if self.terminal:
            with contextlib.suppress(ImportError):  # not everywhere: lines that can be edited, wide characters too
                import readline  # noqa: F401
            self.say("welcome")
        while self.reading and (line := self._line()) is not None:
            try:
                self._do(line)
            except QkvError as error:
                aside(words.message(error, self.lang))
            except KeyboardInterrupt:
                self.say("stopped")

    def _line(self) -> str | None:
        """The next line that says something; None at their end. Ctrl-C drops a line that was begun."""
        while True:
            try:
                if self.terminal:
                    line = input(PROMPT)
                elif not (line := sys.stdin.readline()):
                    return None
            except EOFError:
                write(sys.stdout, "\n")
                return None
            except KeyboardInterrupt:
                write(sys.stdout, "\n")
                continue
            except UnicodeDecodeError:
                raise ArgumentError("no_text") from None
            if line.strip():
                return line.strip("\r\n")

    def _do(self, line: str) -> None:
        if not line.startswith("/"):
            self.answer(line)
            return
        name, _, rest = line.partition(" ")
        if name not in self.commands:
            raise ArgumentError("choice", name="the command", choices=", ".join(self.commands), value=name)
        self.commands[name](rest.strip())

    def answer(self, line: str) -> None:
        """Stream it; whoever reads no more ends the talk."""
        with contextlib.closing(self.chat.answer(line)) as pieces:  # type: ignore[type-var]
            try:
                self.reading = all(utter(piece) for piece in pieces)
            finally:
                self.reading = write(sys.stdout, "\n") and self.reading
        if self.chat.is_cut:
            self.say("cut", limit=self.chat.model.settings.n_positions)

    def attention(self, rest: str) -> None:
        """`/attention [layer] [head]`."""
        if not all(number.isdecimal() and len(number) < 9 for number in rest.split()) or len(rest.split()) > 2:
            raise ArgumentError("model_input", name="/attention", expected="a layer and a head, as numbers", what=rest)
        parts = attended(self.chat.model, self.chat.cache, self.chat.n_prompt, *map(int, rest.split()))
        show("\n\n".join(part_text(part, screen(), self.lang) for part in parts))

    def reset(self, rest: str) -> None:
        self.chat.reset()
        self.say("reset")

    def system(self, rest: str) -> None:
        self.chat.instruct(rest)
        self.say("system" if rest else "no_system")

    def save(self, rest: str) -> None:
        """All that was said, as JSON; over what it was saved to before, over nothing else."""
        if not rest:
            raise ArgumentError("model_input", name="/save", expected="the name of a file", what="nothing")
        if rest not in self.saved and os.path.isfile(rest):
            raise FileError("exists", path=rest)
        text = json.dumps(self.chat.messages, ensure_ascii=False, indent=1) + "\n"
        write_whole(rest, text.encode("utf-8", "surrogateescape"))
        self.saved.add(rest)
        aside(words.say("cli.written", self.lang, path=rest))

    def help(self, rest: str) -> None:
        self.say("help")

    def quit(self, rest: str) -> None:
        self.reading = False

    def say(self, key: str, **facts: Any) -> None:
        """Aside, so that a pipe holds the answers alone."""
        lines = words.say(f"chat.{key}", self.lang, **facts).split("\n")
        aside("\n".join(paragraph(line, screen()) for line in lines))
