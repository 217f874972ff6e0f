"""Looking into a real model: what every head does with a text, and one head in full."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import words
from ..errors import ArgumentError
from ..models.inputs import tokenizer_of
from ..models.seq2seq import EncoderDecoder
from ..ops.precision import Array
from ..trace import Trace, record
from . import steps
from .one_head import Model, run_of, seen_in, within
from .parts import Line, Step, Table, word
from .patterns import entropy_ratio, strongest_link
from .see_both import SeenBoth, see_both
from .showing import ShownAsPage
from .tokens import find_token


@dataclass(frozen=True, eq=False)
class Seen(ShownAsPage):
    """What a model's heads did with a text.

    Attributes
    ----------
    tokens : list of str
        As the tokenizer writes them.
    weights : list of (H, n, n) ndarray
        One array per layer.
    layer, head : int
        The head that is shown in full.
    overview : tuple of Line or Table
    steps : list of Step
        The numeric walk through that head.
    trace : Trace
    title : Line
    lang : {"en", "zh"}
    """

    tokens: list[str]
    weights: list[Array]
    layer: int
    head: int
    overview: tuple[Line | Table, ...]
    steps: list[Step]
    trace: Trace
    title: Line
    lang: str


def see(
    model: Model | EncoderDecoder, text: str, *, decoder_text: str | None = None, kind: str | None = None,
    layer: int | None = None, head: int = 0, row: str | int = 0, lang: str | None = None,
) -> Seen | SeenBoth:  # fmt: skip
    """Run a model on a text and look at its attention.

    Parameters
    ----------
    model : Encoder or Decoder, EncoderDecoder, ImageEncoder or CLIP
        As `qkv.load` gives it, with a tokenizer.
    text : str
        Where the model looks at images: the path of one; its patches are called `r0c1` by their row and column.
        Where it hears: the path of a WAV file.
    decoder_text : str, optional
        Of an encoder-decoder, the answer; by default the model writes one, at most 32 tokens, always the likeliest.
    kind : {"cross", "encoder", "decoder"}, optional
        Of an encoder-decoder, which attention `layer`, `head` and `row` are about; by default cross attention.
    layer : int, optional
        Show the heads of this layer alone; one head of it is shown in full (of layer 0 by default).
    head : int
    row : str or int
        The token whose row is shown in full.
    lang : {"en", "zh"}, optional

    Returns
    -------
    Seen, or SeenBoth of an encoder-decoder

    Raises
    ------
    ArgumentError
        For a layer, head or token that is not there.
    FileError
        When the model has no tokenizer.
    """
    if isinstance(model, EncoderDecoder):
        return see_both(model, text, decoder_text, kind or "cross", layer, head, row, lang)
    for name, value in (("decoder_text", decoder_text), ("kind", kind)):
        if value is not None:
            raise ArgumentError("unused", name=name, reason="the model is no encoder-decoder")
    model, given, tokens, own = _input(model, text)
    with record("layers.*.attention.*") as trace:
        model(given)
    paths = [path for path in trace if path.endswith(".weights")]
    weights = [np.asarray(trace[path]) for path in paths]
    shown = 0 if layer is None else within("layer", layer, len(weights))
    within("head", head, len(weights[shown]))
    place = find_token(tokens, row)
    where = paths[shown].removesuffix(".weights")
    run = run_of(model, trace, where, head, tokens, place)
    listed = range(len(weights)) if layer is None else (shown,)
    seen = [seen_in(trace, path.removesuffix(".weights")) for path in paths]
    overview = (Line("see.heads"), _table(tokens, weights, seen, listed, own))
    facts = {"text": text, "n": len(tokens), "layers": len(weights), "heads": len(weights[0])}
    return Seen(
        tokens, weights, shown, head, overview, steps.one_head(run), trace, Line("see.title", facts),
        words.language(lang, "" if given == text else text),
    )  # fmt: skip


def _input(model: Model, text: str) -> tuple[Model, Any, list[str], slice]:
    """What looks, what it is given, its tokens, and where the text's or the image's own stand among them."""
    looking = getattr(model, "image", model)  # of CLIP's two towers, that for images
    if hasattr(looking, "tokens"):
        return looking, text, looking.tokens, slice(1, None)
    tokenizer = tokenizer_of(model)
    ids = list(tokenizer.encode(text))
    return model, ids, list(tokenizer.readable(ids)), _own_tokens(tokenizer, text, ids)


def _table(
    tokens: list[str], weights: list[Array], seen: list[Array | None], layers: Iterable[int], text: slice
) -> Table:
    """Entropy and strongest link of every head, that within the text beside that of all tokens."""
    own = tokens[text]
    rows: list[tuple[Any, ...]] = []
    for layer in layers:
        for head, w in enumerate(weights[layer]):
            visible = None if (of_layer := seen[layer]) is None else of_layer[head]
            i, j = strongest_link(w, visible)
            row = (layer, head, entropy_ratio(w, visible), _link(tokens, i, j), float(w[i, j]))
            inside = None if visible is None else visible[text, text]
            a, b = strongest_link(w[text, text], inside) if own else (0, 0)
            between = (_link(tokens, text.start + a, text.start + b), float(w[text, text][a, b])) if own else ()
            rows.append((*row, *between) if len(own) < len(tokens) else row)
    heads = [
        word("layer"),
        word("head"),
        word("entropy"),
        word("strongest_link"),
        word("weight"),
    ]
    heads += [word("within_text"), word("weight")] if 0 < len(own) < len(tokens) else []
    return Table(tuple(heads), tuple(rows), digits=(None, None, 3, None, 4, None, 4)[: len(heads)], whole=True)


def _link(tokens: list[str], i: int, j: int) -> str:
    """With their numbers, for a token may stand in a text twice."""
    return f"{i} {tokens[i]} → {j} {tokens[j]}"


def _own_tokens(tokenizer: Any, text: str, ids: list[int]) -> slice:
    """Where the text's own tokens stand among those that the tokenizer puts around it."""
    own = list(tokenizer.encode(text, special_tokens=False))
    starts = (s for s in range(len(ids) - len(own) + 1) if ids[s : s + len(own)] == own)
    start = next(starts, 0)
    return slice(start, start + len(own))
