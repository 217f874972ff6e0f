"""`qkv explain`, `qkv compare`, `qkv see`: attention on a sentence."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from .. import words
from ..errors import ArgumentError
from ..io.whole import write_whole
from ..views import compare, explain, see
from ..views.screen import Screen, printable, write
from ..views.see_both_text import see_both_text
from ..views.see_text import see_text
from ..views.walk_text import comparison_text, walk_text
from ..walkthrough import EXAMPLES, GENERATORS, KINDS, SeenBoth
from .helping import HelpedCommand
from .loading import load_shown, model_option

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def add(group: click.Group, lang: str) -> None:
    """Add the commands to the command line."""

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
        option("--causal", is_flag=True, default=None), option("--row"),
    )  # fmt: skip
    looks = options(
        option("--lang", type=click.Choice(words.LANGUAGES)),
        option("--color", type=click.Choice(("auto", "always", "never")), default="auto"),
        option("--width", type=click.IntRange(20)), option("--ascii", is_flag=True),
    )  # fmt: skip
    files = options(
        option("--json", "as_json", key="json", is_flag=True),
        option("--markdown", type=click.Path(dir_okay=False, path_type=Path)),
        option("--html", type=click.Path(dir_okay=False, path_type=Path)),
    )

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
        if (as_json or markdown or html) and (code or step):
            raise ArgumentError("together", one="--code" if code else "--step", other="--json, --markdown, --html")
        walk = explain(_text(text), lang=lang, **_given(sizes))
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
        both = compare(text_a, text_b, lang=lang, **_given(sizes))
        screen = Screen.of(sys.stdout, os.environ, color=color, width=width, ascii=ascii)
        if not _saved(both, as_json, markdown, html, screen):
            _show(comparison_text(both, screen), screen)

    @group.command("see", help=say("see"), cls=JsonFile)
    @click.argument("text", nargs=-1, required=True)
    @model_option(lang)
    @option("--layer", type=int)
    @option("--head", type=int, default=0)
    @option("--row")
    @option("--decoder-text")
    @option("--kind", type=click.Choice(KINDS))
    @option("--html", type=click.Path(dir_okay=False, path_type=Path))
    @option("--json", "json_file", key="json_file", type=click.Path(dir_okay=False, path_type=Path),
            is_flag=False, flag_value="-")  # fmt: skip
    @looks
    def see_command(
        text: tuple[str, ...], model: Path | None, row: str | None, json_file: Path | None, html: Path | None,
        lang: str | None, color: Any, width: int | None, ascii: bool, **which: Any,
    ) -> None:  # fmt: skip
        loaded = load_shown(model, words.language(lang))
        seen = see(loaded, _text(text) or "", row=0 if row is None else row, lang=lang, **which)
        screen = Screen.of(sys.stdout, os.environ, color=color, width=width, ascii=ascii)
        for path, make in ((json_file, seen.to_json), (html, seen.to_html)):
            if path is not None:
                _write(path, make(), screen, seen.lang)
        if json_file is None and html is None:
            _show(see_both_text(seen, screen) if isinstance(seen, SeenBoth) else see_text(seen, screen), screen)


class JsonFile(HelpedCommand):
    """Takes `--json [FILE]`: a word behind it is a file only if it ends in .json, else it belongs to the text."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for i, word in enumerate(args):
            if word == "--":
                break
            if word == "--json" and not _is_json(args[i + 1] if i + 1 < len(args) else ""):
                args = [*args[:i], "--json=-", *args[i + 1 :]]
        return super().parse_args(ctx, args)


def _is_json(word: str) -> bool:
    return word == "-" or word.lower().endswith(".json")


def _text(text: tuple[str, ...]) -> str | None:
    """The sentence, in quotes or not; `-` reads it from standard input."""
    if text == ("-",):
        return sys.stdin.read().strip()
    return " ".join(text) if text else None


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """Without what was left to its default."""
    return {name: value for name, value in options.items() if value is not None}


def _show(text: str, screen: Screen) -> None:
    write(sys.stdout, printable(text.rstrip("\n") + "\n", screen))


def _saved(shown: Any, as_json: bool, markdown: Path | None, html: Path | None, screen: Screen) -> bool:
    """Write what was asked for in place of the text; `-` is standard output."""
    wanted = [(Path("-"), shown.to_json)] if as_json else []
    wanted += [(path, make) for path, make in ((markdown, shown.to_markdown), (html, shown.to_html)) if path]
    for path, make in wanted:
        _write(path, make(), screen, shown.lang)
    return bool(wanted)


def _for_console(text: str) -> str:
    """JSON or HTML whose characters the console lacks, in the escapes that those formats have for it."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        if text.startswith("{"):
            return json.dumps(json.loads(text)) + "\n"
        if text.startswith("<"):
            return text.encode(encoding, "xmlcharrefreplace").decode(encoding)
    return text


def _write(path: Path, text: str, screen: Screen, lang: str) -> None:
    """To a file, whole or not at all; `-` is standard output."""
    text = text.rstrip("\n") + "\n"
    if str(path) == "-":
        write(sys.stdout, _for_console(text))
    else:
        write_whole(path, text.encode("utf-8"))
        _show(words.say("cli.written", lang, path=path), screen)
