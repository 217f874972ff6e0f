"""From the vectors of a text's tokens to one of the text."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..io.sentence import SentenceSettings
from ..ops.precision import Array

POOL: dict[str, Callable[[Array], Array]] = {
    "cls": lambda hidden: hidden[0],
    "max": lambda hidden: hidden.max(axis=0),
    "mean": lambda hidden: hidden.mean(axis=0),
    "mean_sqrt_len": lambda hidden: hidden.sum(axis=0) / np.sqrt(len(hidden), dtype=hidden.dtype),
}


def sentence_vector(hidden: Array, rule: SentenceSettings) -> Array:
    """The vectors (T, d_model) of a text's tokens as one (d,), special tokens included.

    Examples
    --------
    >>> sentence_vector(np.array([[1.0, 6.0], [5.0, 2.0]]), SentenceSettings(("mean",), normalized=True))
    array([0.6, 0.8])
    """
    vector = np.concatenate([POOL[name](hidden) for name in rule.poolings])
    if rule.normalized:
        vector = vector / max(float(np.linalg.norm(vector)), 1e-12)  # as torch.nn.functional.normalize
    return vector
