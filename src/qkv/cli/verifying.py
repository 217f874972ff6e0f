"""`qkv verify`: is a model what another implementation says it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from .. import words
from ..errors import ArgumentError
from ..io.whole import write_whole
from ..trace.checks import self_checks
from ..trace.reference import script
from ..trace.verify import verify
from ..views.screen import Screen, printable, write
from ..views.verify_text import checks_json, checks_text, verified_json, verified_text
from .loading import load_shown

SAME, DIFFERENT = 0, 1
FILE = click.Path(path_type=Path)


def add(group: click.Group, lang: str) -> None:
    """Add the command to the command line."""

    def option(table: str, *names: str, **how: Any) -> Callable[[Any], Any]:
        key = names[0].lstrip("-").replace("-", "_")
        return click.option(*names, help=words.say(f"help.{table}.{key}", lang), **how)

    @group.command("verify", help=words.say("help.verify", lang))
    @click.argument("model", type=FILE, required=False)
    @option("verify_option", "--against", type=FILE)
    @option("verify_option", "--text")
    @option("verify_option", "--ids")
    @option("verify_option", "--rtol", type=float)
    @option("verify_option", "--script", "script_file", type=FILE, is_flag=False, flag_value=Path("-"))
    @option("option", "--json", "as_json", is_flag=True)
    @option("option", "--lang", type=click.Choice(words.LANGUAGES), expose_value=False)
    @option("option", "--width", type=click.IntRange(20))
    def verify_command(
        model: Path | None, against: Path | None, text: str | None, ids: str | None, rtol: float | None,
        script_file: Path | None, as_json: bool, width: int | None,
    ) -> int:  # fmt: skip
        screen = Screen.of(sys.stdout, os.environ, width=width)
        if script_file is not None:
            return _write_script(script_file, lang, screen)
        if model is None:
            raise click.UsageError(words.say("cli.missing", lang, name="MODEL"))
        _not_together({"--text": text, "--ids": ids, "--against": against})
        loaded = load_shown(model, lang)
        if against is not None:
            found = verify(loaded, against, rtol=rtol)
            _show(verified_json(found) if as_json else verified_text(found, lang, screen), screen)
            return SAME if found.equal else DIFFERENT
        checks = self_checks(loaded, text if ids is None else _numbers(ids))
        _show(checks_json(checks) if as_json else checks_text(checks, lang, screen), screen)
        return SAME if all(check.holds for check in checks) else DIFFERENT


def _write_script(path: Path, lang: str, screen: Screen) -> int:
    if str(path) == "-":
        _show(script(), screen)
    else:
        write_whole(path, script().encode("utf-8"))
        _show(words.say("cli.written", lang, path=path), screen)
    return SAME


def _not_together(given: dict[str, Any]) -> None:
    """What is run is said once: a reference holds its own ids."""
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise ArgumentError("together", one=names[0], other=names[1])


def _numbers(ids: str) -> list[int]:
    try:
        return [int(number) for number in ids.split(",")]
    except ValueError:
        expected = "token ids with commas between them"
        raise ArgumentError("model_input", name="--ids", expected=expected, what=repr(ids)) from None


def _show(text: str, screen: Screen) -> None:
    write(sys.stdout, printable(text.rstrip("\n") + "\n", screen))
