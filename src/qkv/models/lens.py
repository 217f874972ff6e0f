"""The logit lens: what a model would say if it stopped after a layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..ops import softmax
from ..ops.precision import Array
from ..ops.valid import integer

if TYPE_CHECKING:
    from .decoder import Decoder


@dataclass(frozen=True, eq=False)
class Lens:
    """The residual stream at several places, each read off as if it were the last.

    Attributes
    ----------
    places : tuple of str
        Paths as a trace has them, from the embeddings to the last layer.
    ids : (T,) ndarray of int
    tokens : (n_places, T, top) ndarray of int
        The likeliest tokens to follow, the likeliest first.
    probabilities : (n_places, T, top) ndarray
    final : (T,) ndarray of int
        The token that the model ends up with: the likeliest after the last layer.
    rank : (n_places, T) ndarray of int
        How many tokens are likelier than that one.
    probability : (n_places, T) ndarray
        Its probability.

    Notes
    -----
    nostalgebraist, "interpreting GPT: the logit lens", 2020: the last norm and the head, applied to what stands in the
    residual stream after each layer. What they were trained to read is the last place alone; the others are an
    approximation.
    """

    places: tuple[str, ...]
    ids: Array
    tokens: Array
    probabilities: Array
    final: Array
    rank: Array
    probability: Array


def lens(model: Decoder, ids: Array, top: int) -> Lens:
    """As `Decoder.lens`, of one sequence."""
    streams: dict[str, Array] = {}
    model.forward(ids, streams=streams)
    return read_off(model.read_stream, ids, streams, top)


def read_off(read: Callable[[Array], Array], ids: Array, streams: Mapping[str, Array], top: int) -> Lens:
    """Read each stream (T, d_model), in order, as logits (T, vocab_size), and keep the likeliest tokens.

    Examples
    --------
    >>> streams = {"a": np.array([[0.0, 1.0, 2.0]]), "b": np.array([[3.0, 0.0, 0.0]])}
    >>> lens = read_off(lambda x: x, np.array([0]), streams, top=2)
    >>> lens.tokens.tolist(), lens.final.tolist(), lens.rank.tolist()
    ([[[2, 1]], [[0, 1]]], [0], [[2], [0]])
    """
    integer("top", top, 1)
    last = read(list(streams.values())[-1])
    final = last.argmax(axis=-1)
    tokens, probabilities, rank, probability = [], [], [], []
    for stream in streams.values():
        p = softmax(read(stream))
        best = np.array([_largest(row, top) for row in p])
        own = np.take_along_axis(p, final[:, None], axis=-1)
        tokens.append(best)
        probabilities.append(np.take_along_axis(p, best, axis=-1))
        rank.append((p > own).sum(axis=-1))
        probability.append(own[:, 0])
    told = {"tokens": tokens, "probabilities": probabilities, "rank": rank, "probability": probability}
    return Lens(tuple(streams), ids, final=final, **{name: np.array(parts) for name, parts in told.items()})


def _largest(row: Array, n: int) -> Array:
    """The places of the `n` largest, largest first, of equals the first; the many others are not sorted.

    Examples
    --------
    >>> _largest(np.array([0.1, 0.4, 0.4, 0.0]), 1).tolist()
    [1]
    """
    n = min(n, len(row))
    places = np.flatnonzero(~(row < np.partition(row, -n)[-n]))
    return places[np.argsort(-row[places], kind="stable")[:n]]
