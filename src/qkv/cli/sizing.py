"""`qkv size`: how large a model is and what it costs to run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from .. import words
from ..models.size import CACHES, size
from ..views.size_text import size_json, size_text
from .loading import model_path
from .saying import screen, show


def add(group: click.Group, lang: str) -> None:
    """Add the command to the command line."""

    def option(*names: str, **how: Any) -> Callable[[Any], Any]:
        return click.option(*names, help=words.say(f"help.size_option.{names[0].lstrip('-')}", lang), **how)

    @group.command("size", help=words.say("help.size", lang))
    @click.argument("path", type=click.Path(path_type=Path))
    @option("--length", type=int)
    @option("--batch", type=int, default=1)
    @option("--dtype", type=click.Choice(tuple(CACHES)), default="float16")
    @option("--json", "as_json", is_flag=True)
    @option("--lang", type=click.Choice(words.LANGUAGES), expose_value=False)
    def size_command(path: Path, as_json: bool, **how: Any) -> None:
        found = size(model_path(path), **how)
        show(size_json(found) if as_json else size_text(found, lang, screen()))
