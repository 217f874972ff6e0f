"""Every sentence that a person reads, as data: one folder per language with the same keys, and one glossary.

Keys are dotted: `value.attention.weights` explains that variable of that op, `error.same_size` is a message.
Formulas and the names in them are the same in every language.
"""

from __future__ import annotations

import os
import re
import tomllib
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from ..errors import ArgumentError, QkvError, one_line

LANGUAGES = ("en", "zh")


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in table.items():
        found.update(_flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value})
    return found


@cache
def texts(folder: str) -> dict[str, str]:
    """All texts of a language (`en`, `zh`), or those that belong to none (`any`), by their dotted keys."""
    found: dict[str, str] = {}
    for file in sorted(files(__package__).joinpath(folder).iterdir(), key=lambda f: f.name):
        if file.name.endswith(".toml"):
            new = _flat(tomllib.loads(file.read_text(encoding="utf-8")))
            if double := found.keys() & new.keys():
                raise KeyError(f"words given twice in {folder}: {sorted(double)}")
            found.update(new)
    return found


def say(key: str, lang: str, /, **facts: Any) -> str:
    """The text of a key in a language, with its facts filled in.

    Examples
    --------
    >>> say("table.shape", "zh")
    '形状'
    """
    return texts(lang)[key].format(**facts)


def has(key: str) -> bool:
    """Whether there is a text of that key."""
    return key in texts(LANGUAGES[0])


def message(error: QkvError, lang: str) -> str:
    """What an error says, in a language.

    Examples
    --------
    >>> message(ArgumentError("number", name="scale", expected="a finite number", value=float("nan")), "zh")
    'scale 应为有限的数，实际是 nan'
    """
    if lang == "en":
        return str(error)
    facts = {name: _translated(name, fact, lang) for name, fact in error.facts.items()}
    return one_line(say(f"error.{error.key}", lang, **facts))


def _translated(name: str, fact: Any, lang: str) -> Any:
    """A fact of that name that is an English phrase, in the language; anything else as it came."""
    if isinstance(fact, str):
        for english, text in _phrases(name, lang):
            if found := english.fullmatch(fact):
                return text.format(**found.groupdict())
    return fact


@cache
def _phrases(name: str, lang: str) -> list[tuple[re.Pattern[str], str]]:
    """The English phrases that a fact of that name may be, as patterns, and what they are in the language."""
    prefix = f"fact.{name}."
    found = {key.removeprefix(prefix): text for key, text in texts(lang).items() if key.startswith(prefix)}
    wordiest_first = sorted(found, key=lambda english: -len(re.sub(r"{\w+}", "", english)))
    gaps = {english: re.sub(r"\\{(\w+)\\}", r"(?P<\1>.+)", re.escape(english)) for english in wordiest_first}
    return [(re.compile(gaps[english]), found[english]) for english in wordiest_first]


def formula(op: str, name: str) -> str:
    """The line of a formula that gives a variable of an op; empty for an input.

    Examples
    --------
    >>> formula("attention", "out")
    'weights v'
    """
    return texts("any").get(f"formula.{op}.{name}", "")


def meaning(op: str, name: str, lang: str, sizes: Mapping[str, int]) -> str:
    """What a variable of an op means, given the size of each of its axes; empty where nothing is written of it.

    Examples
    --------
    >>> meaning("block", "resid_post", "en", {})
    'The residual stream after the feed-forward layer: what the next layer reads.'
    """
    return texts(lang).get(f"value.{op}.{name}", "").format(**sizes)


@dataclass(frozen=True)
class Term:
    """A word of the field.

    Attributes
    ----------
    word, meaning : dict of str to str
        By language: what it is called, and what it is in one line.
    avoid : tuple of str
        Other words for it that are not used here.
    """

    word: Mapping[str, str]
    meaning: Mapping[str, str]
    avoid: tuple[str, ...]


@cache
def glossary() -> dict[str, Term]:
    """The words of the field, each in every language.

    Examples
    --------
    >>> glossary()["residual_stream"].word
    {'en': 'residual stream', 'zh': '残差流'}
    """
    found = texts("any")
    return {
        name: Term(
            {lang: found[f"glossary.{name}.{lang}"] for lang in LANGUAGES},
            {lang: found[f"glossary.{name}.meaning_{lang}"] for lang in LANGUAGES},
            tuple(found.get(f"glossary.{name}.avoid", "").split()),
        )
        for name in dict.fromkeys(key.split(".")[1] for key in found if key.startswith("glossary."))
    }


def language(asked: str | None = None, text: str = "", environ: Mapping[str, str] | None = None) -> str:
    """Which language to speak: the one asked for, `QKV_LANG`, the script of the text, the locale, English.

    Examples
    --------
    >>> language(text="远方有颗苹果树", environ={})
    'zh'
    >>> language(text="The cat", environ={"LANG": "zh_CN.UTF-8"})
    'en'
    """
    environ = os.environ if environ is None else environ
    for chosen in (asked, environ.get("QKV_LANG")):
        if chosen:
            short = str(chosen).lower().replace("-", "_").split("_")[0].split(".")[0]
            if short not in LANGUAGES:
                raise ArgumentError("choice", name="lang", choices=", ".join(LANGUAGES), value=chosen)
            return short
    scripts = {_script(character) for character in text if character.isalpha()}
    if scripts:
        return "zh" if scripts <= {"CJK", "LATIN"} and "CJK" in scripts else "en"
    locale = next((environ[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if environ.get(name)), "")
    return "zh" if locale.lower().startswith("zh") else "en"


def _script(character: str) -> str:
    """The first word of a character's Unicode name: CJK, LATIN, HIRAGANA, ..."""
    return unicodedata.name(character, "?").split()[0].split("-")[0]
