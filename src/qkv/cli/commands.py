"""The commands of `qkv`. The module of a command is imported when the command is called: help needs words alone."""

from __future__ import annotations

import importlib
from typing import Any

import click

from .. import __version__, words

MODULES = {
    "explain": "walking", "compare": "walking", "see": "walking", "heads": "looking", "lens": "looking",
    "verify": "verifying",
    "check": "judging", "grade": "grading",
    "practice": "practising", "hint": "practising", "solution": "practising", "progress": "practising",
    "quiz": "quizzing", "generate": "generating", "chat": "chatting", "size": "sizing",
    "fill": "encoding", "classify": "encoding", "embed": "encoding", "bench": "benching", "models": "pulling",
}  # fmt: skip


class Commands(click.Group):
    """The commands by name."""

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
        room = formatter.width - 6 - max(map(len, MODULES))
        helps = [click.Command(name, help=words.say(f"help.{name}", self.lang)) for name in sorted(MODULES)]
        with formatter.section("Commands"):
            formatter.write_dl([(str(one.name), one.get_short_help_str(room)) for one in helps])


def qkv(lang: str) -> click.Group:
    """The whole command, with its help in a language."""
    shown = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
    group = Commands(lang, name="qkv", help=words.say("help.qkv", lang), context_settings=shown)
    click.version_option(__version__, message="qkv %(version)s")(group)
    return group
