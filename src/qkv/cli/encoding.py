"""`qkv fill`, `qkv classify`, `qkv embed`: what an encoder makes of texts."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

from .. import words
from ..errors import ArgumentError
from ..io.sentence import POOLINGS
from ..models import Decoder, Encoder, ImageEncoder
from ..views.encoder_text import encoder_json, fill_text, labels_text, similarity_text, vectors_text
from ..views.screen import Screen, printable, write
from .loading import load_shown

Decorator = Callable[[Any], Any]


def add(group: click.Group, lang: str) -> None:
    """Add the commands to the command line."""

    def option(*names: str, **how: Any) -> Decorator:
        key = names[0].lstrip("-").replace("-", "_")
        return click.option(*names, help=words.say(f"help.encode_option.{key}", lang), **how)

    def command(name: str) -> Decorator:
        """A command on texts with a model, which can give JSON."""
        decorators = (
            group.command(name, help=words.say(f"help.{name}", lang)),
            click.argument("text", nargs=-1, required=True),
            option("--model", type=click.Path(path_type=Path), required=True),
            option("--json", "as_json", is_flag=True),
            option("--lang", type=click.Choice(words.LANGUAGES), expose_value=False),
        )

        def apply(function: Any) -> Any:
            for decorate in reversed(decorators):
                function = decorate(function)
            return function

        return apply

    @command("fill")
    @option("--top", type=int, default=5)
    def fill_command(text: tuple[str, ...], model: Path, as_json: bool, top: int) -> None:
        given = sys.stdin.read().strip() if text == ("-",) else " ".join(text)
        found = _of_kind(model, lang, "not_an_encoder", Encoder).fill(given, top)
        screen = Screen.of(sys.stdout, os.environ)
        _show(encoder_json(text=given, masks=found) if as_json else fill_text(found, screen, lang), screen)

    @command("classify")
    @option("--pair", is_flag=True)
    @option("--labels", type=click.IntRange(1))
    def classify_command(
        text: tuple[str, ...], model: Path, as_json: bool, pair: bool, labels: int | None
    ) -> None:  # fmt: skip
        texts = _texts(text)
        if pair and len(texts) != 2:
            raise ArgumentError("model_input", name="--pair", expected="two texts", what=len(texts))
        loaded = _of_kind(model, lang, "not_a_classifier", Encoder, ImageEncoder, Decoder)
        found = loaded.classify([tuple(texts)] if pair else texts)
        found = [dict(sorted(each.items(), key=lambda label: -label[1])[:labels]) for each in found]
        screen = Screen.of(sys.stdout, os.environ)
        _show(encoder_json(texts=texts, labels=found) if as_json else labels_text(texts, found, screen), screen)

    @command("embed")
    @option("--similarity", is_flag=True)
    @option("--pooling", type=click.Choice(list(POOLINGS)))
    def embed_command(text: tuple[str, ...], model: Path, as_json: bool, similarity: bool, pooling: str | None) -> None:
        texts, screen = _texts(text), Screen.of(sys.stdout, os.environ)
        vectors = _of_kind(model, lang, "not_an_encoder", Encoder).encode(texts, pooling=pooling)
        if similarity:
            lengths = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float32).tiny)
            alike = (vectors / lengths) @ (vectors / lengths).T
            shown = encoder_json(texts=texts, similarity=alike) if as_json else ""
            _show(shown or similarity_text(texts, alike, screen, lang), screen)
        else:
            _show(encoder_json(texts=texts, vectors=vectors) if as_json else vectors_text(vectors), screen)


def _of_kind(path: Path, lang: str, otherwise: str, *kinds: type) -> Any:
    """The model at `path` if it is of a kind that will do; whoever watches sees how far it is."""
    loaded = load_shown(path, lang)
    if not isinstance(loaded, kinds):
        raise ArgumentError(otherwise, path=path)
    return loaded


def _texts(given: tuple[str, ...]) -> list[str]:
    """Each argument is a text of its own; `-` alone reads one a line from standard input."""
    if given != ("-",):
        return list(given)
    lines = [line.rstrip("\r") for line in sys.stdin.read().split("\n")]
    lines = lines[:-1] if lines[-1] == "" else lines
    if not lines:
        raise ArgumentError("empty_text")
    return lines


def _show(text: str, screen: Screen) -> None:
    """Text, or JSON, whose characters have escapes where the screen lacks them."""
    shown = printable(text, screen)
    if shown != text and text.startswith("{"):
        shown = json.dumps(json.loads(text))
    write(sys.stdout, shown.rstrip("\n") + "\n")
