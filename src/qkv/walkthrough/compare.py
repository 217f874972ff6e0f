"""The same layer on two sentences: what changes, and what stays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import words
from ..ops.precision import Array
from .parts import Heat, Line, Part, Table, word
from .setup import Drawn, Setup, check_sizes, draw, read_setup
from .showing import ShownOnPages
from .tokens import find_token, split_tokens
from .walk import Walkthrough, walk_of


@dataclass(frozen=True, eq=False)
class Comparison(ShownOnPages):
    """Two walks with the same weights.

    Attributes
    ----------
    a, b : Walkthrough
    difference : (n, n) ndarray
        Weights of b minus weights of a, first head, where both have tokens: n is the shorter length.
    distances : list of float
        For each head the share of a row's weight that lies elsewhere, mean over those n rows.
    parts : tuple of Part
        What is shown.
    lang : {"en", "zh"}
    """

    a: Walkthrough
    b: Walkthrough
    difference: Array
    distances: list[float]
    parts: tuple[Part, ...]
    lang: str


def compare(text_a: str, text_b: str, *, lang: str | None = None, **options: Any) -> Comparison:
    """Run two sentences through the same layer.

    Parameters
    ----------
    text_a, text_b : str
    lang : {"en", "zh"}, optional
    **options
        As for `explain`: example, d_model, d_k, d_v, heads, seed, rng, causal, row.

    Returns
    -------
    Comparison

    Raises
    ------
    ArgumentError

    Notes
    -----
    Run `a` is what `explain` gives for the first sentence. The second one meets the same weight matrices. A token that
    both share gets the same embedding, as from a table; new ones are drawn from a stream of their own.

    Examples
    --------
    >>> import qkv
    >>> both = qkv.compare("the cat sat", "the dog sat")
    >>> [bool((both.a.values[name] == both.b.values[name]).all()) for name in ("W_Q", "W_K", "W_V")]
    [True, True, True]
    >>> bool((both.a.values["Q"][0] == both.b.values["Q"][0]).all())
    True
    """
    row = options.pop("row", 0)
    setup_a = read_setup(text_a, options.pop("example", None), **options)
    setup_b = replace(setup_a, text=text_b)
    tokens_a, tokens_b = split_tokens(text_a), split_tokens(text_b)
    check_sizes(setup_b, len(tokens_b))
    drawn = draw(setup_a, len(tokens_a))
    spoken = words.language(lang, text_a + text_b)
    a = walk_of(setup_a, tokens_a, drawn, find_token(tokens_a, row), spoken)
    row_b = min(find_token(tokens_a, row), len(tokens_b) - 1)
    b = walk_of(setup_b, tokens_b, _second(setup_b, drawn, tokens_a, tokens_b), row_b, spoken)
    n = min(len(tokens_a), len(tokens_b))
    difference = b.heads[0][:n, :n] - a.heads[0][:n, :n]
    distances = [float(_row_distances(x, y).mean()) for x, y in zip(a.heads, b.heads)]
    return Comparison(a, b, difference, distances, _lay_out(a, b, difference, distances), spoken)


def _second(setup: Setup, first: Drawn, tokens_a: list[str], tokens_b: list[str]) -> Drawn:
    """The second sentence's embeddings beside the first one's weights: the k-th 'the' of both is the same row."""
    places: dict[str, list[int]] = {}
    for place, token in enumerate(tokens_a):
        places.setdefault(token, []).append(place)
    new = np.random.default_rng([setup.seed, 1]).standard_normal((len(tokens_b), setup.d_model))
    rows = [first.X[places[t].pop(0)] if places.get(t) else new[i] for i, t in enumerate(tokens_b)]
    return Drawn(np.array(rows), first.heads, first.W_O)


def _row_distances(x: Array, y: Array) -> Array:
    """For each row the share of weight that lies elsewhere (total variation), where one row is longer too."""
    n, width = min(len(x), len(y)), max(len(x), len(y))
    x, y = (np.pad(w[:n], ((0, 0), (0, width - w.shape[1]))) for w in (x, y))
    return np.abs(x - y).sum(axis=-1) / 2


def _lay_out(a: Walkthrough, b: Walkthrough, difference: Array, distances: list[float]) -> tuple[Part, ...]:
    n = len(difference)
    shared = sum(bool((x == y).all()) for x, y in zip(a.values["X"], b.values["X"]))
    stays = tuple(
        (name, _same(a.values[name], b.values[name])) for name in a.values
    )  # fmt: skip
    labels = tuple(x if x == y else f"{x}/{y}" for x, y in zip(a.tokens, b.tokens))
    moved = _row_distances(a.heads[0], b.heads[0])
    rows = tuple((a.tokens[i], b.tokens[i], moved[i]) for i in range(n))
    per_head = tuple((h, distance) for h, distance in enumerate(distances))
    causal = (Line("compare.causal"),) if a.setup.causal else ()
    return (
        Line("compare.weights_shared", {"shared": shared, "n": n}),
        Table((word("value"), word("same")), stays),
        Heat(f"weights: {a.setup.text}", a.heads[0], tuple(a.tokens), tuple(a.tokens), _visible(a)),
        Heat(f"weights: {b.setup.text}", b.heads[0], tuple(b.tokens), tuple(b.tokens), _visible(b)),
        Line("compare.difference"),
        Heat("b - a", difference, labels, labels, signed=True),
        Line("compare.distance"),
        Table(("a", "b", word("moved")), rows, digits=(None, None, 4)),
        Table((word("head"), word("moved")), per_head, digits=(None, 4)),
        *causal,
        Line("compare.why"),
    )


def _same(x: Array, y: Array) -> str:
    return word("yes") if x.shape == y.shape and bool((x == y).all()) else word("no")


def _visible(walk: Walkthrough) -> Array | None:
    return np.tri(len(walk.tokens), dtype=bool) if walk.setup.causal else None
