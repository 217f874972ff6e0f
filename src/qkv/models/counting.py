"""Counting a model's numbers over the rows of its family: exactly the tensors that loading it would ask for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..io.weights import Row

PARTS = ("embeddings", "attention", "cross_attention", "feed_forward", "experts", "norms", "heads")
TABLES = ("W_word", "W_position", "W_type", "W_relative")  # a token takes a row of them: nothing is multiplied
ROUTER = ("W_router", "b_router", "correction")
TWICE = ("convolution_1",)  # runs over twice as many frames as there are tokens: the second one steps by two
# What stands on top, by where its matrices are used: once for each sequence, or for each token.
ONCE = ("head", "pooler", "classifier", "image_projection", "text_projection")


@dataclass
class Count:
    """How many numbers a model has, by part; and how many of them a token is multiplied with, by stack.

    Attributes
    ----------
    total, active : Counter of str
        By the names of `PARTS`; active are those that one token goes through.
    each : Counter of str
        By stack: numbers of the matrices that each token goes through.
    once : Counter of str
        By stack: those used once for each sequence, or each token that is written.
    of_source : Counter of str
        By stack: those that the tokens of the other sequence go through.
    """

    total: Counter[str] = field(default_factory=Counter)
    active: Counter[str] = field(default_factory=Counter)
    each: Counter[str] = field(default_factory=Counter)
    once: Counter[str] = field(default_factory=Counter)
    of_source: Counter[str] = field(default_factory=Counter)


def count(rows: Iterable[Row], settings: Any, stacks: tuple[str, ...]) -> Count:
    """What the tensors of these rows hold; one that several rows read is counted once.

    Parameters
    ----------
    rows : iterable of Row
    settings : settings of the family
    stacks : tuple of str
        The names of the stacks; the last one is that which a head stands on.
    """
    rows, found = list(rows), Count()
    routed = tuple({f"{row.ours.removesuffix('.W_router')}." for row in rows if row.ours.endswith(".W_router")})
    seen: set[str] = set()
    for row in rows:
        if row.foreign in seen:
            continue
        seen.add(row.foreign)
        part = _part(row.ours, routed)
        numbers = math.prod(row.shape(settings))
        if row.stacked is not None:
            numbers *= getattr(settings, row.stacked)
        active = numbers
        if part == "experts" and _is_of_each_expert(row):
            active = numbers // settings.n_experts * settings.routing.n_active
        found.total[part] += numbers
        found.active[part] += active
        _multiplied(found, row.ours, active, settings, stacks)
    _tied(found, rows, settings, stacks[-1])
    return found


def _part(ours: str, routed: tuple[str, ...]) -> str:
    names = ours.split(".")
    if any(name == "norm" or name.startswith("norm_") or name.endswith("_norm") for name in names):
        return "norms"
    if "cross_attention" in names:
        return "cross_attention"
    if any("attention" in name for name in names) or names[-1] == "W_relative":
        return "attention"
    if "feed_forward" in names:
        return "experts" if ours.startswith(routed) else "feed_forward"
    return "embeddings" if "embeddings" in names else "heads"


def _is_of_each_expert(row: Row) -> bool:
    leaf = row.ours.rpartition(".")[2]
    return row.stacked == "n_experts" or (row.axes.startswith("n_experts") and leaf not in ROUTER)


def _multiplied(found: Count, ours: str, numbers: int, settings: Any, stacks: tuple[str, ...]) -> None:
    """Add a matrix where it is multiplied with."""
    *names, leaf = ours.split(".")
    if not leaf.startswith("W") or leaf in TABLES:
        return
    top = names[0]
    stack = top if top in stacks else top.removesuffix("_projection")
    stack = stack if stack in stacks else stacks[-1]
    if "cross_attention" in names and leaf in ("W_K", "W_V"):
        found.of_source[stack] += numbers
    elif leaf == "W_patch":  # of all tokens but the one that stands for the whole image
        found.once[stack] += numbers * (getattr(settings, stack, settings).n_positions - 1)
    elif top in ONCE:
        found.once[stack] += numbers
    else:
        found.each[stack] += numbers * (2 if any(name in TWICE for name in names) else 1)


def _tied(found: Count, rows: list[Row], settings: Any, stack: str) -> None:
    """A head that is the table of tokens has no tensor of its own, and multiplies all the same."""
    own = {row.ours for row in rows}
    tied = getattr(settings, "tied", False)
    if tied and "head.W" not in own and getattr(settings, "has_head", not getattr(settings, "headless", True)):
        found.once[stack] += settings.vocab_size * settings.d_model
    if tied and "masked_lm.W_dense" in own and "masked_lm.W" not in own:
        found.each[stack] += settings.vocab_size * settings.d_embedding
