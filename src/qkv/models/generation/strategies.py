"""One prompt continued in several ways, beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ArgumentError
from ...ops.precision import Array
from ..inputs import Given, only

if TYPE_CHECKING:
    from ..decoder import Decoder

# What is compared if nothing else is said: always the likeliest, the best of four, and drawn in three ways.
STRATEGIES: Mapping[str, Mapping[str, Any]] = {
    "greedy": {},
    "beams": {"n_beams": 4},
    "temperature": {"temperature": 1.0},
    "top_k": {"temperature": 1.0, "top_k": 50},
    "nucleus": {"temperature": 1.0, "top_p": 0.9},
}


@dataclass(frozen=True)
class Continued:
    """What came of one strategy.

    Attributes
    ----------
    name : str
    settings : mapping
    ids : list of int
    text : str or None
        None for a model without a tokenizer.
    log_probs : (n,) ndarray
        How likely the model itself finds each token, whatever the strategy made of it: see `Decoder.score`.
    """

    name: str
    settings: Mapping[str, Any]
    ids: list[int]
    text: str | None
    log_probs: Array

    @property
    def total(self) -> float:
        """The log-probability of the whole continuation."""
        return float(self.log_probs.sum())

    @property
    def per_token(self) -> float:
        """The geometric mean of the probabilities of the tokens: one over the perplexity. NaN where nothing came."""
        return float(np.exp(self.log_probs.mean())) if self.ids else float("nan")

    def distinct(self, n: int) -> float:
        """The share of its n-grams that differ: see `distinct`."""
        return distinct(self.ids, n)


def distinct(ids: Sequence[int], n: int) -> float:
    """How many different runs of n tokens there are, as a share of all such runs; NaN where there is none.

    After Li et al., arXiv 1510.03055, who divide by the number of tokens.

    Examples
    --------
    >>> distinct([1, 2, 1, 2, 3], 2)
    0.75
    """
    runs = [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]
    return len(set(runs)) / len(runs) if runs else float("nan")


def compare_strategies(
    model: Decoder,
    prompt: Given,
    strategies: Mapping[str, Mapping[str, Any]] = STRATEGIES,
    *,
    max_new_tokens: int = 32,
    seed: int | None = 0,
) -> list[Continued]:
    """Continue one prompt by each strategy, and say how likely the model finds what came.

    Parameters
    ----------
    model : Decoder
    prompt : str or (T,) array_like of int
    strategies : mapping of str to mapping
        For each name the settings of `model.generate`.
    max_new_tokens : int
        For all that do not say it themselves.
    seed : int or None
        For all that draw and do not say it themselves.

    Returns
    -------
    list of Continued
        In the order of `strategies`.

    Examples
    --------
    >>> import qkv
    >>> model = qkv.load("tests/data/tiny/llama")
    >>> ways = {"greedy": {}, "beams": {"n_beams": 3}, "drawn": {"temperature": 1.0}}
    >>> for found in compare_strategies(model, [3, 1, 4, 1, 5], ways, max_new_tokens=5):
    ...     print(found.name, found.ids, round(found.total, 2), found.distinct(1))
    greedy [40, 25, 60, 25, 60] -9.88 0.6
    beams [40, 25, 60, 25, 60] -9.88 0.6
    drawn [40, 18, 3, 3, 46] -20.66 0.8
    """
    if not isinstance(strategies, Mapping) or not all(isinstance(how, Mapping) for how in strategies.values()):
        expected = "a mapping of names to settings"
        raise ArgumentError("model_input", name="strategies", expected=expected, what=type(strategies).__name__)
    ids = only(model.read(prompt), "the prompt")
    found = []
    for name, how in strategies.items():
        drawn = {"seed": seed} if how.get("temperature", 0) else {}
        new = model.generate(ids, **{"max_new_tokens": max_new_tokens, **drawn, **how})
        text = model.tokenizer.decode(new) if model.tokenizer is not None else None
        log_probs = model.score(ids, new) if new else np.empty(0)
        found.append(Continued(name, how, new, text, log_probs))
    return found
