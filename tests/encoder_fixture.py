"""Encoders for tests: the tiny random ones in git, with heads, held to transformers."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
from tests.models_fixture import DATA, ModelCopy, goldens

import qkv
from qkv.models import Encoder, load
from qkv.models.pooling import POOL

TINY = DATA / "tiny_encoders"
NAMES = sorted(path.name for path in TINY.iterdir())
LENGTHS = (7, 41)
# float32 here against float64 there; the scores of random weights are large.
CLOSE: dict[str, float] = {"rtol": 0, "atol": 1e-4}
WRONG = 1e-3  # a fault must show by far more than the tolerance


@functools.cache
def tiny(name: str) -> Encoder:
    return load(TINY / name)


@functools.cache
def known(name: str) -> dict[str, np.ndarray]:
    return goldens(TINY / name / "goldens.npz")


def head_logits(model: Encoder, ids: Any, types: Any = None) -> np.ndarray:
    """What the one head of a tiny model says, as transformers gives it."""
    hidden = model.forward(np.asarray(ids), None if types is None else np.asarray(types))
    if model.masked_lm is not None:
        return model.masked_lm(hidden)
    if model.detector is not None:
        return model.detector(hidden)[:, 0]
    assert model.classifier is not None
    assert model.settings.classifier is not None
    return model.classifier(POOL[model.settings.classifier.pooling](hidden))


def all_hidden(model: Encoder, ids: Any) -> list[np.ndarray]:
    """The embeddings and what each layer gives; the last is after the model's own norm."""
    with qkv.record() as trace:
        last = model(ids)
    return [trace["embeddings.out"], *(trace[f"layers.{i}.resid_post"] for i in range(len(model.layers) - 1)), last]


def difference(model: Encoder, name: str) -> float:
    """How far the logits are from those of transformers."""
    arrays = known(name)
    return max(float(np.abs(head_logits(model, arrays[f"{n}.ids"]) - arrays[f"{n}.logits"]).max()) for n in LENGTHS)


class Copy(ModelCopy):
    """A copy of a tiny model in which one thing can be changed."""

    def __init__(self, directory: Path, name: str) -> None:
        super().__init__(TINY / name, directory)
        self.name = name

    def renamed(self, *pairs: tuple[str, str]) -> None:
        """The tensors under other names."""
        tensors = {}
        for name, value in self.tensors().items():
            for old, new in pairs:
                name = name.replace(old, new)
            tensors[name] = value
        self.write(tensors)

    def difference(self) -> float:
        return difference(self.load(), self.name)
