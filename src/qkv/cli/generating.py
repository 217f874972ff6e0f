"""`qkv generate`: continue a text, shown as it comes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from .. import words
from ..errors import ArgumentError
from ..layers.cached_rows import PACKINGS
from ..models import Decoder, EncoderDecoder, compare_strategies
from ..models.generation.asked import Asked
from ..views.screen import write
from ..views.strategies_text import strategies_text
from .loading import load_shown, model_option, model_path
from .saying import screen, show, utter


def add(group: click.Group, lang: str) -> None:
    """Add the command to the command line."""

    def option(*names: str, **how: Any) -> Callable[[Any], Any]:
        key = names[0].lstrip("-").replace("-", "_")
        return click.option(*names, help=words.say(f"help.generate_option.{key}", lang), **how)

    @group.command("generate", help=words.say("help.generate", lang))
    @click.argument("prompt", nargs=-1, required=True)
    @model_option(lang)
    @option("--max-new-tokens", type=int, default=128)
    @option("--temperature", type=float, default=0.0)
    @option("--top-k", type=int)
    @option("--top-p", type=float)
    @option("--min-p", type=float)
    @option("--repetition-penalty", type=float, default=1.0)
    @option("--stop", multiple=True)
    @option("--seed", type=int)
    @option("--slide", is_flag=True)
    @option("--n-beams", type=int, default=1)
    @option("--length-penalty", type=float, default=1.0)
    @option("--draft", type=click.Path(path_type=Path))
    @option("--n-draft", type=int)
    @option("--kv-dtype", type=click.Choice(PACKINGS))
    @option("--compare", is_flag=True)
    @option("--language")
    @option("--task", type=click.Choice(("transcribe", "translate")))
    @option("--lang", type=click.Choice(words.LANGUAGES), expose_value=False)
    def generate_command(
        prompt: tuple[str, ...], model: Path | None, language: str | None, task: str | None, compare: bool, **how: Any
    ) -> None:
        spoken = {"language": language, "task": task}
        text = sys.stdin.read().strip() if prompt == ("-",) else " ".join(prompt)
        loaded = load_shown(model, lang)
        hears = isinstance(loaded, EncoderDecoder) and loaded.hearing is not None
        for name, value in spoken.items():
            if value and not hears:
                raise ArgumentError("unused", name=f"--{name}", reason="the model does not hear")
        if not isinstance(loaded, Decoder | EncoderDecoder):
            raise ArgumentError("cannot_generate", path=model_path(model))
        how |= _means(loaded, lang, **{name: how.pop(name) for name in ("draft", "n_draft", "kv_dtype")})
        if compare:
            _compared(loaded, text, how, lang)
            return
        if isinstance(loaded, EncoderDecoder) and hears:
            pieces = _transcript(loaded, text, spoken, how)
        else:
            pieces = loaded.stream(text, **how)
        for piece in pieces:
            if not utter(piece if isinstance(piece, str) else f"{piece} "):
                return
        write(sys.stdout, "\n")


def _means(model: Any, lang: str, draft: Path | None, n_draft: int | None, kv_dtype: str | None) -> dict[str, Any]:
    """What only a decoder knows of; the draft is loaded."""
    options = {"draft": draft, "n_draft": n_draft, "kv_dtype": kv_dtype}
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if given and not isinstance(model, Decoder):
        raise ArgumentError("unused", name=f"--{next(iter(given))}".replace("_", "-"), reason="the model is no decoder")
    if draft is not None:
        given["draft"] = load_shown(draft, lang)
    return given


def _compared(model: Any, text: str, how: dict[str, Any], lang: str) -> None:
    """The ready strategies beside each other; of the settings only the length and the seed count for all."""
    if not isinstance(model, Decoder):
        raise ArgumentError("unused", name="--compare", reason="the model is no decoder")
    for name, value in how.items():
        if name not in ("max_new_tokens", "seed") and value != getattr(Asked(), name, None):
            raise ArgumentError("together", one=f"--{name}".replace("_", "-"), other="--compare")
    found = compare_strategies(model, text, max_new_tokens=how["max_new_tokens"], seed=how["seed"] or 0)
    show(strategies_text(found, screen(), lang))


def _transcript(model: EncoderDecoder, sound: str, spoken: dict[str, str | None], how: dict[str, Any]) -> Iterator[Any]:
    """What is said in a file."""
    source = model.encode_source(sound)
    begun = model.transcription_prompt(source, spoken["language"], spoken["task"] or "transcribe")
    return model.stream(source, decoder_ids=begun, **how)
