"""Activation patching as a map of layers by positions."""

from __future__ import annotations

import json
from dataclasses import replace

from .. import words
from ..walkthrough import Line, Patching
from .cells import wrap
from .heatmap import heatmap
from .screen import Screen
from .walk_json import numbers
from .walk_text import heatmap_words, said


def patching_text(patching: Patching, screen: Screen | None = None) -> str:
    """The effect of each layer and position."""
    screen, lang = screen or Screen(), patching.lang
    facts = {"path": patching.path, "clean": patching.clean, "corrupted": patching.corrupted}
    title = "\n".join(wrap(said(Line("patch.title", facts), lang, screen), screen.width, screen))
    drawn = heatmap(
        patching.effects, [f"L{layer}" for layer in patching.layers], patching.tokens, screen, scale="signed",
        row_title=words.say("patch.layers", lang), column_title=words.say("patch.tokens", lang),
        words=replace(heatmap_words(lang), signed=words.say("patch.effect", lang)),
    )  # fmt: skip
    return f"{title}\n{drawn}"


def patching_json(patching: Patching) -> str:
    """Effects and values as [layer][position]."""
    found = {
        "path": patching.path, "layers": patching.layers, "tokens": patching.tokens, "clean": patching.clean,
        "corrupted": patching.corrupted, "effects": numbers(patching.effects), "values": numbers(patching.values),
    }  # fmt: skip
    return json.dumps(found, ensure_ascii=False)
