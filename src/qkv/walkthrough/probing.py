"""Sequences to look at heads with, and what a tokenizer puts around every text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..ops.precision import Array
from ..ops.valid import integer

PROBES = ("repeated",)
LENGTH = 24


def repeated(model: Any, length: int | None = None, seed: int = 0) -> Array:
    """Random tokens, each once, and the same once more, between what the tokenizer puts around every text."""
    before, after, used = _frame(model)
    room = model.settings.n_positions
    taken = set(used) | set(getattr(model, "end_ids", ()))
    vocabulary = np.setdiff1d(np.arange(model.settings.vocab_size), list(taken))
    if model.tokenizer is not None:
        vocabulary = np.array([i for i in vocabulary.tolist() if model.tokenizer.knows(i)])
    most = len(vocabulary) if room is None else min(len(vocabulary), (room - len(before) - len(after)) // 2)
    length = integer("length", min(LENGTH, most) if length is None else length, 2)
    if length > most:
        raise ArgumentError("number", name="length", expected=f"an integer from 2 to {most}", value=length)
    drawn = np.random.default_rng(seed).choice(vocabulary, length, replace=False)
    return np.concatenate([before, drawn, drawn, after]).astype(np.intp)


def around_text(model: Any) -> tuple[int, int]:
    """How many tokens the tokenizer puts before and after a text."""
    before, after, _ = _frame(model)
    return len(before), len(after)


def _frame(model: Any) -> tuple[list[int], list[int], list[int]]:
    """The tokens before and after a text, and both together."""
    if model.tokenizer is None:
        return [], [], []
    encode: Callable[..., Sequence[int]] = model.tokenizer.encode
    whole, own = list(encode("a")), list(encode("a", special_tokens=False))
    start = next((s for s in range(len(whole)) if whole[s : s + len(own)] == own), 0)
    before, after = whole[:start], whole[start + len(own) :]
    return before, after, before + after
