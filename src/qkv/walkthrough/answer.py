"""What the tokens of an answer looked at: the prompt and what they had said before."""

from __future__ import annotations

import numpy as np

from ..errors import ArgumentError
from ..models import Decoder, PrefixCache
from ..ops.precision import Array
from ..trace import record
from .one_head import seen_in, within
from .parts import Line, Part, Table, word
from .patterns import entropy_ratio

MOST = 32  # tokens of an answer that are looked at: their rows of every head are in memory together
N_LINKS = 3


def attended(
    model: Decoder, cache: PrefixCache, n_prompt: int, layer: int | None = None, head: int | None = None
) -> list[Part]:
    """For each token of an answer what it looked at most; and for each head how the answer's tokens looked.

    Parameters
    ----------
    model : Decoder
        With a tokenizer.
    cache : PrefixCache
        Holds the prompt and the answer. The answer is read once more, to be seen; it holds the same afterwards.
    n_prompt : int
        How many tokens stand before the answer.
    layer, head : int, optional
        Of this layer, or of one head of it, alone. By default the mean over all.

    Raises
    ------
    ArgumentError
        no_answer, when there is none; number, for a layer or head that is not there.
    """
    ids = cache.ids
    n_answer = min(len(ids) - n_prompt, MOST)
    if n_prompt < 1 or n_answer < 1:
        raise ArgumentError("no_answer")
    if layer is not None:
        within("layer", layer, len(model.layers))
    weights, visible = _looked(cache, ids, n_prompt, n_answer, layer)
    if head is not None:
        within("head", head, weights.shape[1])
        weights, visible = weights[:, head : head + 1], visible[:, head : head + 1]
    assert model.tokenizer is not None
    tokens = [one[0] if model.tokenizer.knows(i) and (one := model.tokenizer.readable([i])) else str(i) for i in ids]
    facts = {"shown": n_answer, "total": len(ids) - n_prompt}
    which = "all" if layer is None else "layer" if head is None else "head"
    first = Line(f"attended.{which}", {"layer": layer, "head": head, **facts})
    heads = _heads(weights, visible, n_prompt, layer or 0, head or 0)
    return [first, _tokens(tokens, weights.mean(axis=(0, 1)), n_prompt), Line("attended.heads"), heads]


def _looked(cache: PrefixCache, ids: list[int], n_prompt: int, n_answer: int, layer: int | None) -> tuple[Array, Array]:
    """The weights (L, H, n_answer, n) of the answer's tokens, and which keys each of them sees."""
    where = f"layers.{'*' if layer is None else layer}.attention"
    n = n_prompt + n_answer
    with record(f"{where}.weights", f"{where}.masked") as trace:
        cache.begin().logits(ids[:n], n_answer)
    cache.begin().logits(ids)
    places = [path.removesuffix(".weights") for path in trace if path.endswith(".weights")]
    weights = np.stack([trace[f"{place}.weights"] for place in places])
    seen = [seen_in(trace, place) for place in places]
    return weights, np.stack([np.ones(weights.shape[1:], bool) if one is None else one for one in seen])


def _tokens(tokens: list[str], weights: Array, n_prompt: int) -> Table:
    """For each token of the answer the first token's share, and the others that it looked at most."""
    rows = []
    for i, row in enumerate(weights):
        others = row[1 : n_prompt + i + 1]
        largest = 1 + np.argsort(-others, kind="stable")[:N_LINKS]
        links = [f"{j} {tokens[j]} {row[j]:.2f}" for j in largest.tolist()]
        rows.append((n_prompt + i, tokens[n_prompt + i], float(row[0]), *links, *[""] * (N_LINKS - len(links))))
    heads = ("", word("key"), word("first_token"), word("strongest"), *[""] * (N_LINKS - 1))
    return Table(heads, tuple(rows), digits=(None, None, 2, *[None] * N_LINKS), whole=True)


def _heads(weights: Array, visible: Array, n_prompt: int, layer: int, head: int) -> Table:
    """For each head: entropy, and what went to the first token, to the rest of the prompt, and to the answer itself."""
    rows = []
    for i, of_layer in enumerate(weights):
        for j, w in enumerate(of_layer):
            parts = (w[:, :1], w[:, 1:n_prompt], w[:, n_prompt:])
            shares = tuple(float(part.sum(axis=-1).mean()) for part in parts)
            rows.append((layer + i, head + j, entropy_ratio(w, visible[i, j]), *shares))
    names = ("layer", "head", "entropy", "first_token", "prompt", "answer")
    return Table(tuple(map(word, names)), tuple(rows), digits=(None, None, 3, 3, 3, 3), whole=len(weights) == 1)
