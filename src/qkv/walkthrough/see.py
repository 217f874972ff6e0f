"""Looking into a real model: what every head does with a text, and one head in full."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from .. import words
from ..errors import ArgumentError
from ..io.tokenizer import read_tokenizer
from ..ops.precision import Array
from ..trace import Trace, record
from . import steps
from .heads import entropy_ratio, strongest_link
from .parts import Line, Step, Table, word
from .run import Run
from .setup import Setup
from .showing import Shown
from .tokens import find_token

# The scores from their first form to what the softmax gets, as far as an attention has them.
STAGES = ("scores", "capped", "biased", "masked")


class Model(Protocol):
    """What is asked of a model that is looked into."""

    tokenizer: Any
    settings: Any
    directory: Path | None

    def __call__(self, given: Any) -> Any: ...


@dataclass(frozen=True, eq=False)
class Seen(Shown):
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
    model: Model, text: str, *, layer: int | None = None, head: int = 0, row: str | int = 0, lang: str | None = None
) -> Seen:
    """Run a model on a text and look at its attention.

    Parameters
    ----------
    model : Encoder or Decoder
        As `qkv.load` gives it, with a tokenizer.
    text : str
    layer : int, optional
        Show the heads of this layer alone; one head of it is shown in full (of layer 0 by default).
    head : int
    row : str or int
        The token whose row is shown in full.
    lang : {"en", "zh"}, optional

    Returns
    -------
    Seen

    Raises
    ------
    ArgumentError
        For a layer, head or token that is not there.
    FileError
        When the model has no tokenizer.
    """
    tokenizer = model.tokenizer or read_tokenizer(model.directory or Path())
    ids = list(tokenizer.encode(text))
    tokens = list(tokenizer.tokens(ids))
    with record("layers.*.attention.*") as trace:
        model(ids)
    paths = [path for path in trace if path.endswith(".weights")]
    weights = [np.asarray(trace[path]) for path in paths]
    shown = 0 if layer is None else _within("layer", layer, len(weights))
    _within("head", head, len(weights[shown]))
    place = find_token(tokens, row)
    where = paths[shown].removesuffix(".weights")
    run = _run(model, trace, where, head, tokens, place)
    listed = range(len(weights)) if layer is None else (shown,)
    seen = [_seen(trace, path.removesuffix(".weights")) for path in paths]
    overview = (Line("see.heads"), _table(tokens, weights, seen, listed, _own_tokens(tokenizer, text, ids)))
    facts = {"text": text, "n": len(tokens), "layers": len(weights), "heads": len(weights[0])}
    return Seen(
        tokens, weights, shown, head, overview, steps.one_head(run), trace, Line("see.title", facts),
        words.language(lang, text),
    )  # fmt: skip


def _within(name: str, number: int, size: int) -> int:
    if not 0 <= number < size:
        raise ArgumentError("number", name=name, expected=f"from 0 to {size - 1}", value=number)
    return number


def _run(model: Model, trace: Trace, where: str, head: int, tokens: list[str], row: int) -> Run:
    """One head of one layer as the steps of a walk want it; a key head may serve several query heads."""
    q, k, v, weights, out = (trace[f"{where}.{name}"] for name in ("q", "k", "v", "weights", "out"))
    q, k = trace.get(f"{where}.q_rot", q), trace.get(f"{where}.k_rot", k)
    group = head // (len(q) // len(k))
    Q, K, V = q[head], k[group], v[group]
    kept = [(name, trace[path][head]) for name in STAGES if (path := f"{where}.{name}") in trace]
    values = {
        "Q": Q, "K": K, "V": V, "scores": Q @ K.T, "scaled": kept[-1][1], "weights": weights[head],
        "output": out[head],
    }  # fmt: skip
    setup = Setup("", d_model=model.settings.d_model, d_k=Q.shape[-1], d_v=V.shape[-1])
    visible = _seen(trace, where)
    stages = [("scores", values["scores"]), ("scaled", kept[0][1]), *kept[1:]]
    stages = [(name, array) for name, array in stages if name != "masked"]
    usual = len(stages) == 2 and np.allclose(values["scores"] / np.sqrt(setup.d_k), kept[0][1], atol=1e-5)
    return Run(
        setup, tuple(tokens), values, [weights[head]], None, None, row,
        None if visible is None else visible[head], () if usual else tuple(stages),
    )  # fmt: skip


def _seen(trace: Trace, where: str) -> Array | None:
    """(H, n, n), which keys each query of each head may look at; None: all of them."""
    masked = trace.get(f"{where}.masked")
    return None if masked is None else ~np.isneginf(masked)


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
