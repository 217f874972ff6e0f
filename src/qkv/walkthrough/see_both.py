"""Looking into an encoder-decoder: the source looks at itself, the answer at itself, and the answer at the source."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import words
from ..errors import ArgumentError
from ..models.inputs import tokenizer_of
from ..models.seq2seq import EncoderDecoder
from ..models.source import Source
from ..ops.precision import Array
from ..trace import Trace, record
from . import steps
from .one_head import run_of, seen_in, within
from .parts import Line, Step, Table, word
from .patterns import entropy_ratio, strongest_link
from .showing import ShownAsPage
from .tokens import find_token

LONGEST = 32  # tokens that the model writes at most, where no answer was given
SIDES = {
    "encoder": "encoder.layers.{layer}.attention",
    "decoder": "decoder.layers.{layer}.self_attention",
    "cross": "decoder.layers.{layer}.cross_attention",
}
KINDS = tuple(SIDES)
PER_SECOND = 50  # positions of a speech encoder


@dataclass(frozen=True, eq=False)
class SeenBoth(ShownAsPage):
    """What the heads of an encoder-decoder did with a source and an answer to it.

    Attributes
    ----------
    source_tokens, decoder_tokens : list of str
        As the tokenizer writes them; of sound, the second at which each position begins.
    weights : dict of str to list of ndarray
        For each kind ("encoder", "decoder", "cross") one array (H, queries, keys) per layer.
    kind : str
    layer, head : int
        The head that is shown in full.
    tables : dict of str to Table
        Every head of each kind that has the layer, where one is asked for.
    steps : list of Step
        The numeric walk through that head.
    trace : Trace
    title : Line
    written : Line or None
        That the model wrote the answer itself.
    lang : {"en", "zh"}
    """

    source_tokens: list[str]
    decoder_tokens: list[str]
    weights: dict[str, list[Array]]
    kind: str
    layer: int
    head: int
    tables: dict[str, Table]
    steps: list[Step]
    trace: Trace
    title: Line
    written: Line | None
    lang: str

    def tokens(self, kind: str) -> tuple[list[str], list[str]]:
        """Those that look, and those that are looked at."""
        queries = self.source_tokens if kind == "encoder" else self.decoder_tokens
        return queries, self.decoder_tokens if kind == "decoder" else self.source_tokens


def see_both(
    model: EncoderDecoder, text: str, decoder_text: str | None, kind: str, layer: int | None, head: int,
    row: str | int, lang: str | None,
) -> SeenBoth:  # fmt: skip
    """As `see`, for an encoder-decoder."""
    if kind not in SIDES:
        raise ArgumentError("choice", name="kind", choices=", ".join(KINDS), value=kind)
    tokenizer = tokenizer_of(model)
    source = model.encode_source(text)
    written = _answer(model, source) if decoder_text is None else tokenizer.encode(decoder_text, special_tokens=False)
    ids = [*model.target.start, *written]
    with record("encoder.layers.*.attention.weights", _all_of(kind, layer), "decoder.layers.*_attention.*") as trace:
        model(text, decoder_ids=ids)
    source_tokens, decoder_tokens = _source_tokens(model, source), list(tokenizer.readable(ids))
    counts = {"encoder": len(model.encoder.layers), "decoder": len(model.decoder.layers)}
    paths = {
        name: [path.format(layer=i) for i in range(counts.get(name, counts["decoder"]))] for name, path in SIDES.items()
    }
    weights = {name: [np.asarray(trace[f"{path}.weights"]) for path in found] for name, found in paths.items()}
    shown = within("layer", 0 if layer is None else layer, len(weights[kind]))
    within("head", head, len(weights[kind][shown]))
    queries = source_tokens if kind == "encoder" else decoder_tokens
    run = run_of(
        model, trace, paths[kind][shown], head, queries, find_token(queries, row),
        source_tokens if kind == "cross" else None,
    )  # fmt: skip
    answer = tokenizer.decode(written)
    facts = {
        "text": text, "answer": answer, "n_source": len(source_tokens), "n_target": len(ids),
        "layers": f"{counts['encoder']} + {counts['decoder']}",
    }  # fmt: skip
    tables = {
        name: _table(found, trace, paths[name], queries, keys, layer)
        for (name, found), (queries, keys) in zip(weights.items(), _pairs(source_tokens, decoder_tokens))
        if layer is None or layer < len(found)
    }
    return SeenBoth(
        source_tokens, decoder_tokens, weights, kind, shown, head, tables, steps.one_head(run), trace,
        Line("see.both_title", facts), Line("see.written") if decoder_text is None else None,
        words.language(lang, "" if source.ids is None else text),
    )  # fmt: skip


def _all_of(kind: str, layer: int | None) -> str:
    """What else of the encoder's attention is kept: of a long sound, all of every layer would be too much."""
    return f"{SIDES[kind].format(layer=layer or 0)}.*"


def _answer(model: EncoderDecoder, source: Source) -> list[int]:
    """What the model itself writes, as ids."""
    limit = model.settings.n_target
    room = LONGEST if limit is None else min(LONGEST, limit - len(model.target.start))
    found: list[int] = model.generate(replace(source, as_text=False), max_new_tokens=room)
    return found


def _source_tokens(model: EncoderDecoder, source: Source) -> list[str]:
    if source.ids is None:
        return [f"{i / PER_SECOND:.2f}s" for i in range(len(source.hidden))]
    return list(tokenizer_of(model).readable(source.ids[0].tolist()))


def _pairs(source: list[str], target: list[str]) -> list[tuple[list[str], list[str]]]:
    return [(source, source), (target, target), (target, source)]


def _table(
    weights: list[Array], trace: Trace, paths: list[str], queries: list[str], keys: list[str], only: int | None
) -> Table:
    """Entropy and strongest link of every head of a kind, or of those of one layer."""
    rows: list[tuple[Any, ...]] = []
    for layer, of_layer in enumerate(weights):
        if only is not None and layer != only:
            continue
        seen = seen_in(trace, paths[layer])
        for head, w in enumerate(of_layer):
            visible = None if seen is None else seen[head]
            i, j = strongest_link(w, visible)
            rows.append((layer, head, entropy_ratio(w, visible), f"{i} {queries[i]} → {j} {keys[j]}", float(w[i, j])))
    heads = tuple(word(name) for name in ("layer", "head", "entropy", "strongest_link", "weight"))
    return Table(heads, tuple(rows), digits=(None, None, 3, None, 4), whole=True)
