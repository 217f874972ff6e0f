"""The door from the command line: parse, call, show."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

import click

from .. import words
from ..errors import QkvError

WRONG_CALL = 2
WRONG_CALL_OF = {"check": 64}  # there 2 means an error in the learner's code
INTERRUPTED = 130
NUMBERS = {"integer": "cli.wanted.integer", "float": "cli.wanted.float"}  # what a number must be


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
    except MemoryError:
        _complain(words.message(QkvError("memory"), lang), lang)
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
    size = 2 if args[:1] == ["--lang"] else 1 if args and args[0].startswith("--lang=") else 0
    if not size or size > len(args):
        return args
    rest = args[size:]
    return [*rest[:1], *args[:size], *rest[1:]] if rest else []


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
        return words.say(key, lang, name=name, reason=_wanted(error, lang))
    if isinstance(error, click.BadOptionUsage):
        return words.say("cli.no_value", lang, name=error.option_name)
    if extra := re.fullmatch(r"Got unexpected extra arguments? \((.*)\)", error.message):
        return words.say("cli.extra", lang, what=extra[1])
    return error.format_message()


def _wanted(error: click.BadParameter, lang: str) -> str:
    """What the value must be, by its type."""
    kind: Any = getattr(error.param, "type", None)
    if isinstance(kind, click.Choice):
        return words.say("cli.wanted.choice", lang, choices=", ".join(map(str, kind.choices)))
    if isinstance(kind, click.IntRange) and kind.max is None:
        return words.say("cli.wanted.at_least", lang, least=kind.min)
    key = NUMBERS.get(getattr(kind, "name", ""))
    return words.say(key, lang) if key else error.message


def _complain(message: str, lang: str) -> None:
    from .saying import aside

    aside(f"{words.say('cli.error', lang)}{message}")
