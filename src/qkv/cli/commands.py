"""The commands of `qkv`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from .. import __version__, words
from ..io.whole import write_whole
from ..models import load
from ..views import compare, explain, see
from ..views.screen import Screen, printable, write
from ..views.see_text import see_text
from ..views.walk_text import comparison_text, walk_text
from ..walkthrough import EXAMPLES, GENERATORS
from . import generating, grading, judging, practising, quizzing

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def qkv(lang: str) -> click.Group:
    """The whole command, with its help in a language."""

    def say(key: str) -> str:
        return words.say(f"help.{key}", lang)

    def option(*names: str, key: str = "", **how: Any) -> Decorator:
        return click.option(*names, help=say(f"option.{key or names[0].lstrip('-').replace('-', '_')}"), **how)

    def options(*decorators: Decorator) -> Decorator:
        def apply(function: Callable[..., Any]) -> Callable[..., Any]:
            for decorate in reversed(decorators):
                function = decorate(function)
            return function

        return apply

    sizes = options(
        option("--example", type=click.Choice(list(EXAMPLES))),
        option("--d-model", type=int), option("--d-k", type=int), option("--d-v", type=int),
        option("--heads", type=int), option("--seed", type=int), option("--rng", type=click.Choice(GENERATORS)),
        option("--causal", is_flag=True, default=None), option("--row", default="0"),
    )  # fmt: skip
    looks = options(
        option("--lang", type=click.Choice(words.LANGUAGES)),
        option("--color", type=click.Choice(("auto", "always", "never")), default="auto"),
        option("--width", type=int), option("--ascii", is_flag=True),
    )  # fmt: skip
    files = options(
        option("--json", "as_json", key="json", is_flag=True),
        option("--markdown", type=click.Path(dir_okay=False, path_type=Path)),
        option("--html", type=click.Path(dir_okay=False, path_type=Path)),
    )

    @click.group(help=say("qkv"), context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
    @click.version_option(__version__, message="qkv %(version)s")
    def group() -> None:
        pass

    @group.command("explain", help=say("explain"))
    @click.argument("text", nargs=-1)
    @sizes
    @option("--step")
    @option("--code", is_flag=True)
    @files
    @looks
    def explain_command(
        text: tuple[str, ...], step: str | None, code: bool, as_json: bool, markdown: Path | None, html: Path | None,
        lang: str | None, color: Any, width: int | None, ascii: bool, **sizes: Any,
    ) -> None:  # fmt: skip
        walk = explain(_text(text), lang=lang, **sizes)
        screen = Screen.of(sys.stdout, os.environ, color=color, width=width, ascii=ascii)
        if code:
            _show(walk.code(), screen)
        elif not _saved(walk, as_json, markdown, html, screen):
            _show(walk_text(walk, screen, step), screen)

    @group.command("compare", help=say("compare"))
    @click.argument("text_a")
    @click.argument("text_b")
    @sizes
    @files
    @looks
    def compare_command(
        text_a: str, text_b: str, as_json: bool, markdown: Path | None, html: Path | None,
        lang: str | None, color: Any, width: int | None, ascii: bool, **sizes: Any,
    ) -> None:  # fmt: skip
        both = compare(text_a, text_b, lang=lang, **sizes)
        screen = Screen.of(sys.stdout, os.environ, color=color, width=width, ascii=ascii)
        if not _saved(both, as_json, markdown, html, screen):
            _show(comparison_text(both, screen), screen)

    @group.command("see", help=say("see"))
    @click.argument("text", nargs=-1, required=True)
    @option("--model", type=click.Path(path_type=Path), required=True)
    @option("--layer", type=int)
    @option("--head", type=int, default=0)
    @option("--row", default="0")
    @option("--json", "json_file", key="json_file", type=click.Path(dir_okay=False, path_type=Path),
            is_flag=False, flag_value="-")  # fmt: skip
    @looks
    def see_command(
        text: tuple[str, ...], model: Path, layer: int | None, head: int, row: str, json_file: Path | None,
        lang: str | None, color: Any, width: int | None, ascii: bool,
    ) -> None:  # fmt: skip
        seen = see(load(model), _text(text) or "", layer=layer, head=head, row=row, lang=lang)
        screen = Screen.of(sys.stdout, os.environ, color=color, width=width, ascii=ascii)
        if json_file is None:
            _show(see_text(seen, screen), screen)
        else:
            _write(json_file, seen.to_json(), screen, seen.lang)

    for room in (judging, practising, quizzing, grading, generating):
        room.add(group, lang)
    return group


def _text(text: tuple[str, ...]) -> str | None:
    """The sentence, in quotes or not; `-` reads it from standard input."""
    if text == ("-",):
        return sys.stdin.read().strip()
    return " ".join(text) if text else None


def _show(text: str, screen: Screen) -> None:
    write(sys.stdout, printable(text.rstrip("\n") + "\n", screen))


def _saved(shown: Any, as_json: bool, markdown: Path | None, html: Path | None, screen: Screen) -> bool:
    """Write what was asked for in place of the text; `-` is standard output."""
    wanted = [(Path("-"), shown.to_json)] if as_json else []
    wanted += [(path, make) for path, make in ((markdown, shown.to_markdown), (html, shown.to_html)) if path]
    for path, make in wanted:
        _write(path, make(), screen, shown.lang)
    return bool(wanted)


def _write(path: Path, text: str, screen: Screen, lang: str) -> None:
    """To a file, whole or not at all; `-` is standard output."""
    text = text.rstrip("\n") + "\n"
    if str(path) == "-":
        write(sys.stdout, text)
    else:
        write_whole(path, text.encode("utf-8"))
        _show(words.say("cli.written", lang, path=path), screen)
