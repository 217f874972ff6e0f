"""Beam search in transformers and here, on random models made on the spot: more families and settings than in git.

A batch of transformers goes on until its last prompt is done, so each prompt is asked for by itself there.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qkv.models import load
from qkv.models.generation import beams
from qkv.models.generation.asked import Asked

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from scripts.make_beam_goldens import beams as theirs  # noqa: E402  (needs torch)
from scripts.make_tiny_models import FAMILIES  # noqa: E402
from tests.peers.test_decoders import made  # noqa: E402

SETTINGS: list[dict[str, Any]] = [
    {"n_beams": 4, "length_penalty": 1.0, "early_stopping": False},
    {"n_beams": 7, "length_penalty": 0.3, "early_stopping": "never"},
    {"n_beams": 4, "length_penalty": -0.7, "early_stopping": True},
]


@pytest.mark.parametrize("family", FAMILIES)
def test_all_beams(family: str, tmp_path: Path) -> None:
    peer = made(family, {}, tmp_path).double()
    prompts = [np.random.default_rng(n).integers(0, 67, n).tolist() for n in (5, 11, 13)]
    free = theirs(peer, prompts[0], SETTINGS[0], [])[0]["ids"]
    for ends in ([free[3]], [free[1], free[6]]):
        model = dataclasses.replace(load(tmp_path), end_ids=frozenset(ends))
        for settings in SETTINGS:
            found = beams.search(model, prompts, Asked(max_new_tokens=11, **settings))
            for prompt, row in zip(prompts, found):
                expected = theirs(peer, prompt, settings, ends)
                assert [beam.ids for beam in row] == [beam["ids"] for beam in expected]
                scores = [beam["score"] for beam in expected]
                np.testing.assert_allclose([beam.score for beam in row], scores, rtol=1e-4, atol=1e-4)
