"""One prompt continued in several ways, as a table and the texts below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import words
from ..models import Continued
from ..walkthrough import Line, Table
from ..walkthrough.parts import word
from .cells import safe, wrap
from .screen import Screen, printable
from .walk_text import part_text

HEADS = ("strategy", "tokens", "log_p", "p_token", "distinct_1", "distinct_2", "distinct_3", "settings")


def strategies_text(found: Sequence[Continued], screen: Screen | None = None, lang: str | None = None) -> str:
    """What `compare_strategies` found: numbers in a table, then each text under its name."""
    screen, lang = screen or Screen(), words.language(lang)
    rows = [
        (one.name, len(one.ids), one.total, one.per_token, *map(one.distinct, (1, 2, 3)), _settings(one.settings))
        for one in found
    ]
    table = Table(tuple(map(word, HEADS)), tuple(rows), digits=(None, None, 2, 3, 2, 2, 2, None), whole=True)
    blocks = [part_text(Line("strategies.title"), screen, lang), part_text(table, screen, lang)]
    blocks += [f"[{one.name}]\n{_text(one, screen, lang)}" for one in found]
    return "\n\n".join(blocks)


def _settings(settings: Any) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def _text(one: Continued, screen: Screen, lang: str) -> str:
    if not one.ids:
        return printable(words.say("strategies.nothing", lang), screen)
    text = " ".join(map(str, one.ids)) if one.text is None else one.text
    return "\n".join(part for line in text.split("\n") for part in wrap(safe(line, screen), screen.width, screen))
