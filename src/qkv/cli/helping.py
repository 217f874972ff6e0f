"""The help of a command in a person's language: what click says in English by itself, and lines cut by cells."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import click
from rich.cells import cell_len

from .. import words

# A word of Latin letters or a single other character, with the marks that may not stand apart from it.
PIECE = re.compile(r"[（“《]*(?:[!-~]+|.)[，。；：、？！…）”》]* ?", re.DOTALL)
BY_CLICK = {"Show this message and exit.": "cli.by_click.help", "Show the version and exit.": "cli.by_click.version"}
HEADINGS = {"Options": "cli.by_click.options", "Commands": "cli.by_click.commands"}


class Helped(click.Context):
    """A call whose help speaks the language of the whole command."""

    def make_formatter(self) -> click.HelpFormatter:
        return Help(_lang(self), width=self.terminal_width, max_width=self.max_content_width)


class HelpedCommand(click.Command):
    """A command with such a help."""

    context_class = Helped


class HelpedGroup(click.Group):
    """A group of such commands."""

    context_class = Helped
    command_class = HelpedCommand

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or ["--help"])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:  # fmt: skip
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            ctx.fail(words.say("cli.no_command", _lang(ctx), name=args[0], group=ctx.command_path))
        return super().resolve_command(ctx, args)


def _lang(ctx: click.Context) -> str:
    return str(getattr(ctx.find_root().command, "lang", words.LANGUAGES[0]))


class Help(click.HelpFormatter):
    """The text of a help; a full-width character takes two cells of a line."""

    def __init__(self, lang: str, **sizes: Any) -> None:
        super().__init__(**sizes)
        self.lang = lang

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        said = words.say("cli.by_click.usage", self.lang) if prefix is None else prefix
        super().write_usage(prog, args, said)

    def write_heading(self, heading: str) -> None:
        said = words.say(HEADINGS[heading], self.lang) if heading in HEADINGS else f"{heading}:"
        self.write(" " * self.current_indent + said + "\n")

    def write_text(self, text: str) -> None:
        indent = " " * self.current_indent
        paragraphs = [wrapped(paragraph, self.width - self.current_indent) for paragraph in text.split("\n\n")]
        self.write("\n\n".join("\n".join(indent + line for line in lines) for lines in paragraphs) + "\n")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        rows, indent = list(rows), " " * self.current_indent
        first = min(max(cell_len(name) for name, _ in rows), col_max) + col_spacing
        required = words.say("cli.by_click.required", self.lang)
        for name, text in rows:
            said = words.say(BY_CLICK[text], self.lang) if text in BY_CLICK else text
            lines = wrapped(said.replace("[required]", required), max(self.width - first - 2, 10))
            beside = cell_len(name) <= first - col_spacing
            start = name + " " * (first - cell_len(name)) if beside else name + "\n" + indent + " " * first
            self.write(indent + (start + ("\n" + indent + " " * first).join(lines)).rstrip() + "\n")


def wrapped(text: str, width: int) -> list[str]:
    """A paragraph in lines of at most so many cells.

    Examples
    --------
    >>> wrapped("模型：一个 GGUF 文件。", 12)
    ['模型：一个', 'GGUF 文件。']
    """
    lines = [""]
    for piece in PIECE.findall(" ".join(text.split())):
        if lines[-1] and cell_len(lines[-1] + piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.strip() for line in lines]
