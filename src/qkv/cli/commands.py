"""The commands of `qkv`. The module of a command is imported when the command is called: help needs words alone."""

from __future__ import annotations

import importlib
from typing import Any

import click

from .. import __version__, words
from .helping import HelpedGroup

MODULES = {
    "explain": "walking", "compare": "walking", "see": "walking", "heads": "looking", "lens": "looking",
    "verify": "verifying",
    "check": "judging", "grade": "grading",
    "practice": "practising", "hint": "practising", "solution": "practising", "progress": "practising",
    "quiz": "quizzing", "generate": "generating", "chat": "chatting", "size": "sizing",
    "fill": "encoding", "classify": "encoding", "embed": "encoding", "bench": "benching", "models": "pulling",
}  # fmt: skip


class Commands(HelpedGroup):
    """The commands by name."""

    group_class = HelpedGroup

    def __init__(self, lang: str, **how: Any) -> None:
        super().__init__(**how)
        self.lang = lang

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in MODULES and cmd_name not in self.commands:
            module: Any = importlib.import_module(f".{MODULES[cmd_name]}", __package__)
            module.add(self, self.lang)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, words.say(f"brief.{name}", self.lang)) for name in sorted(MODULES)])


def qkv(lang: str) -> click.Group:
    """The whole command, with its help in a language."""
    shown = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
    group = Commands(lang, name="qkv", help=words.say("help.qkv", lang), context_settings=shown)
    click.version_option(__version__, message="qkv %(version)s")(group)
    spoken = click.option(
        "--lang", type=click.Choice(words.LANGUAGES), expose_value=False, help=words.say("help.lang", lang)
    )
    spoken(group)
    return group
