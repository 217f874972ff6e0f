"""What stands on top of an encoder: a small network for one task, and what its numbers mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..contract import op
from ..io.families.classifier import ClassifierSettings
from ..layers.linear import linear
from ..layers.parts import ACTIVATIONS, Norm
from ..ops import softmax
from ..ops.activations import sigmoid
from ..ops.precision import Array
from .inputs import batches

BATCH = 32  # texts that are classified together: it changes the speed alone
BENDS: dict[str, Callable[[Array], Array]] = {**ACTIVATIONS, "tanh": np.tanh}
CHANCES: dict[str, Callable[[Array], Array]] = {
    "single_label_classification": softmax,
    "multi_label_classification": sigmoid,
    "regression": lambda logits: logits,
}


@dataclass(eq=False)
class Pooler:
    """The first token's vector once more through a matrix: what BERT was trained to classify pairs of sentences by.

    Attributes
    ----------
    W : (d_model, d_model) ndarray
    b : (d_model,) ndarray
    """

    W: Array
    b: Array

    @op(name="pooler", first="*B d_model", out="*B d_model")
    def __call__(self, hidden: Array) -> Array:
        first = hidden[..., 0, :]
        out = np.tanh(linear(first, self.W, self.b))
        return out


@dataclass(eq=False)
class TaskHead:
    """A matrix and a bend, a norm in some, and a matrix onto the answers: words, labels, or a single number.

    One form serves all: the head that fills in masks and the one that finds replaced words are given the vector of
    each token, the one that classifies a text is given the text's.

    Attributes
    ----------
    W_dense, b_dense : (d_model, d_head), (d_head,) ndarray; the bias may be None
    W, b : (d_head, n_answers), (n_answers,) ndarray; the bias may be None
    activation : str
        One of `qkv.layers.parts.ACTIVATIONS`, or tanh.
    norm : LayerNorm or None

    Notes
    -----
    logits = norm(activation(hidden W_dense + b_dense)) W + b. For masked words: Devlin et al., arXiv 1810.04805,
    section 3.1, where W is the table of words, and the norm stands in the code alone.
    """

    W_dense: Array
    W: Array
    b_dense: Array | None = None
    b: Array | None = None
    activation: str = "gelu"
    norm: Norm | None = None

    @op(name="task_head", path="head", hidden="*B d_model", bent="*B d_head", logits="*B n_answers")
    def __call__(self, hidden: Array) -> Array:
        bent = BENDS[self.activation](linear(hidden, self.W_dense, self.b_dense))
        logits = linear(bent if self.norm is None else self.norm(bent), self.W, self.b)
        return logits


def labelled(
    sequences: Sequence[Array], vectors: Callable[[list[int]], Iterable[Array]],
    head: Callable[[Array], Array], settings: ClassifierSettings,
) -> list[dict[str, float]]:  # fmt: skip
    """The labels of each text; `vectors` gives those of the texts at some places, computed together."""
    found: dict[int, Array] = {}
    for batch in batches(sequences, BATCH):
        found |= zip(batch, vectors(batch))
    return chances(head(np.stack([found[i] for i in range(len(sequences))])), settings)


def chances(logits: Array, settings: ClassifierSettings) -> list[dict[str, float]]:
    """Logits (n, n_labels) by label, for each of n texts.

    Examples
    --------
    >>> chances(np.log([[3.0, 1.0]]), ClassifierSettings(("good", "bad"), "single_label_classification"))
    [{'good': 0.75, 'bad': 0.25}]
    """
    rows = CHANCES[settings.problem](logits)
    return [{label: float(number) for label, number in zip(settings.labels, row)} for row in rows]
