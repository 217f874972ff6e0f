"""`qkv heads`, `qkv lens`: what the heads of a real model do, and what its layers know already."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from .. import words
from ..views import heads_of, lens_of
from ..views.heads_text import heads_text
from ..views.lens_text import reading_text
from ..views.screen import Screen, printable, write
from ..walkthrough.patterns import PATTERNS
from ..walkthrough.probing import PROBES
from .loading import load_shown, model_option

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def add(group: click.Group, lang: str) -> None:
    """Add the commands to the command line."""

    def option(table: str, *names: str, **how: Any) -> Decorator:
        key = names[0].lstrip("-").replace("-", "_")
        return click.option(*names, help=words.say(f"help.{table}.{key}", lang), **how)

    def looks(function: Callable[..., Any]) -> Callable[..., Any]:
        for decorate in (
            option("option", "--width", type=click.IntRange(20)),
            option("option", "--lang", type=click.Choice(words.LANGUAGES)),
            option("option", "--json", "as_json", is_flag=True),
        ):
            function = decorate(function)
        return function

    @group.command("heads", help=words.say("help.heads", lang))
    @click.argument("text", nargs=-1)
    @model_option(lang)
    @option("heads_option", "--probe", type=click.Choice(PROBES))
    @option("heads_option", "--length", type=click.IntRange(2))
    @option("heads_option", "--seed", type=click.IntRange(0), default=0)
    @option("heads_option", "--top", type=click.IntRange(1))
    @option("heads_option", "--by", type=click.Choice(PATTERNS))
    @option("heads_option", "--within", is_flag=True)
    @looks
    def heads_command(
        text: tuple[str, ...], model: Path | None, as_json: bool, lang: str | None, width: int | None, **how: Any
    ) -> None:
        loaded = load_shown(model, words.language(lang))
        heads = heads_of(loaded, _text(text), lang=lang, **how)
        screen = Screen.of(sys.stdout, os.environ, width=width)
        _show(heads.to_json() if as_json else heads_text(heads, screen), screen)

    @group.command("lens", help=words.say("help.lens", lang))
    @click.argument("text", nargs=-1, required=True)
    @model_option(lang)
    @option("lens_option", "--position", type=int, default=-1)
    @option("lens_option", "--top", type=click.IntRange(1), default=3)
    @option("lens_option", "--after-attention", is_flag=True)
    @looks
    def lens_command(
        text: tuple[str, ...], model: Path | None, as_json: bool, lang: str | None, width: int | None, **how: Any
    ) -> None:
        loaded = load_shown(model, words.language(lang))
        found = lens_of(loaded, _text(text) or "", lang=lang, **how)
        screen = Screen.of(sys.stdout, os.environ, width=width)
        _show(found.to_json() if as_json else reading_text(found, screen), screen)


def _text(text: tuple[str, ...]) -> str | None:
    """The sentence, in quotes or not; `-` reads it from standard input."""
    if text == ("-",):
        return sys.stdin.read().strip()
    return " ".join(text) or None


def _show(text: str, screen: Screen) -> None:
    write(sys.stdout, printable(text.rstrip("\n") + "\n", screen))
