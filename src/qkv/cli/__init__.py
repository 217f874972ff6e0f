"""The door from the command line: parse, call, show."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from .. import words
from ..errors import QkvError
from ..views.screen import Screen, printable, write

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

        code = qkv(lang).main(args, prog_name="qkv", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except QkvError as error:
        _complain(words.message(error, lang), lang)
    except click.UsageError as error:
        _complain(error.format_message(), lang)
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


def _complain(message: str, lang: str) -> None:
    screen = Screen.of(sys.stderr, os.environ, color="never")
    write(sys.stderr, printable(f"{words.say('cli.error', lang)}{message}\n", screen))
