"""What a decoder says of a whole text: its labels, read off the last token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..contract import op
from ..errors import ArgumentError, FileError
from ..layers.linear import linear
from ..ops.precision import Array
from .heads import labelled
from .inputs import Given, is_pair

if TYPE_CHECKING:
    from .decoder import Decoder


@dataclass(eq=False)
class LastTokenClassifier:
    """From the vector of a text's last token, which has seen all others, to a number for each label.

    Attributes
    ----------
    W : (d_model, n_labels) ndarray
    """

    W: Array

    @op(name="last_token_classifier", path="classifier", last="*B d_model", logits="*B n_labels")
    def __call__(self, last: Array) -> Array:
        logits = linear(last, self.W)
        return logits


def classify(model: Decoder, given: Given) -> Any:
    """As `Decoder.classify`."""
    settings, head = model.settings.classifier, model.classifier
    if head is None or settings is None:
        raise FileError("no_labels", path=model.directory)
    if is_pair(given):
        expected = "one text, token ids, or a list of either"
        raise ArgumentError("model_input", name="the input", expected=expected, what="a pair of texts")
    sequences, single = model.read(given)
    last = [_last_place(ids, model.settings.padding_id) for ids in sequences]

    def read_off(batch: list[int]) -> list[Array]:
        return [rows[last[i]] for i, rows in zip(batch, model.hidden([sequences[i] for i in batch]))]

    found = labelled(sequences, read_off, head, settings)
    return found[0] if single else found


def _last_place(ids: Array, padding_id: int | None) -> int:
    """Where the last token stands that is no padding; 0 if there is none.

    Examples
    --------
    >>> _last_place(np.array([5, 7, 0, 0]), 0)
    1
    """
    places = np.flatnonzero(ids != padding_id) if padding_id is not None else np.arange(len(ids))
    return int(places[-1]) if len(places) else 0
