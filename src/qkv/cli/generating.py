"""`qkv generate`: continue a text, shown as it comes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from .. import words
from ..errors import ArgumentError
from ..models import Decoder
from ..views.screen import Screen, printable, write
from .loading import load_shown


def add(group: click.Group, lang: str) -> None:
    """Add the command to the command line."""

    def option(*names: str, **how: Any) -> Callable[[Any], Any]:
        key = names[0].lstrip("-").replace("-", "_")
        return click.option(*names, help=words.say(f"help.generate_option.{key}", lang), **how)

    @group.command("generate", help=words.say("help.generate", lang))
    @click.argument("prompt", nargs=-1, required=True)
    @option("--model", type=click.Path(path_type=Path), required=True)
    @option("--max-new-tokens", type=int, default=128)
    @option("--temperature", type=float, default=0.0)
    @option("--top-k", type=int)
    @option("--top-p", type=float)
    @option("--min-p", type=float)
    @option("--repetition-penalty", type=float, default=1.0)
    @option("--stop", multiple=True)
    @option("--seed", type=int)
    @option("--slide", is_flag=True)
    @option("--lang", type=click.Choice(words.LANGUAGES), expose_value=False)
    def generate_command(prompt: tuple[str, ...], model: Path, **how: Any) -> None:
        text = sys.stdin.read().strip() if prompt == ("-",) else " ".join(prompt)
        loaded = load_shown(model, lang)
        if not isinstance(loaded, Decoder):
            raise ArgumentError("cannot_generate", path=model)
        screen = Screen.of(sys.stdout, os.environ)
        for piece in loaded.stream(text, **how):
            if not write(sys.stdout, printable(piece, screen)):
                return
        write(sys.stdout, "\n")
