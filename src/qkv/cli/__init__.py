"""The door from the command line: parse, call, show."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from .. import words
from ..errors import QkvError

WRONG_CALL = 2
WRONG_CALL_OF = {"check": 64}  # there 2 means an error in the learner's code
INTERRUPTED = 130


def main(args: Sequence[str] | None = None) -> None:
    """Run `qkv` with these arguments, by default those of the process, and exit."""
    args = list(sys.argv[1:] if args is None else args)
    try:
        sys.exit(_run(args))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _run(args: list[str]) -> int:
    lang = "en"
    try:
        lang = words.language(_asked_language(args))
        from .commands import qkv

        code = qkv(lang).main(_language_last(args), prog_name="qkv", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except QkvError as error:
        _complain(words.message(error, lang), lang)
    except click.UsageError as error:
        _complain(_usage(error, lang), lang)
    except click.exceptions.Abort:
        return INTERRUPTED
    return WRONG_CALL_OF.get(args[0], WRONG_CALL) if args else WRONG_CALL


def _asked_language(args: list[str]) -> str | None:
    """The value of --lang, before anything else is read: even the help speaks it."""
    for i, word in enumerate(args):
        if word == "--":
            break
        if word.startswith("--lang="):
            return word.removeprefix("--lang=")
        if word == "--lang" and i + 1 < len(args):
            return args[i + 1]
    return None


def _language_last(args: list[str]) -> list[str]:
    """`qkv --lang zh explain ...` means what `qkv explain ... --lang zh` means."""
    if args[:1] == ["--lang"] and len(args) > 2:
        return [*args[2:3], *args[:2], *args[3:]]
    if args[:1] and args[0].startswith("--lang=") and len(args) > 1:
        return [args[1], args[0], *args[2:]]
    return args


def _usage(error: click.UsageError, lang: str) -> str:
    """What is wrong with the call; what the parser says in English is said again in another language."""
    if lang == "en":
        return error.format_message()
    if isinstance(error, click.NoSuchOption):
        return words.say("cli.no_option", lang, name=error.option_name)
    if isinstance(error, click.BadParameter):
        known = error.param is not None and error.ctx is not None
        name = error.param.get_error_hint(error.ctx) if known else error.param_hint  # type: ignore[union-attr]
        key = "cli.missing" if isinstance(error, click.MissingParameter) else "cli.bad_value"
        return words.say(key, lang, name=name, reason=error.message)
    return error.format_message()


def _complain(message: str, lang: str) -> None:
    from ..views.screen import Screen, printable, write

    screen = Screen.of(sys.stderr, os.environ, color="never")
    write(sys.stderr, printable(f"{words.say('cli.error', lang)}{message}\n", screen))
