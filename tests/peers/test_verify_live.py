"""The script that saves a reference trace, run on the spot: every tiny model is what transformers says it is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from tests.models_fixture import DATA

from qkv.models import Decoder, Encoder, load
from qkv.trace.reference import script
from qkv.trace.verify import verify

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

TINY = sorted((*(DATA / "tiny").iterdir(), *(DATA / "tiny_encoders").glob("*"), DATA / "tiny_bert"))
# Whose eager form adds ALiBi twice.
OTHER_FORM = {"falcon_alibi"}


def saved(directory: Path, out: Path, ids: str = "3,1,4,1,5,9,2") -> Path:
    """What the script's own `main` writes, without another process for each."""
    program: dict[str, Any] = {"__name__": "save_trace"}
    exec(compile(script(), "save_trace.py", "exec"), program)
    form = ["--attention", "sdpa"] if directory.name in OTHER_FORM else []
    with mock.patch.object(sys, "argv", ["save_trace.py", str(directory), "--ids", ids, "--out", str(out), *form]):
        program["main"]()
    return out


@pytest.mark.parametrize("directory", TINY, ids=lambda directory: directory.name)
def test_a_tiny_model_is_what_transformers_says(directory: Path, tmp_path: Path) -> None:
    model = load(directory)
    if not isinstance(model, Encoder | Decoder):
        pytest.skip("neither an encoder nor a decoder")
    found = verify(model, saved(directory, tmp_path / "trace.safetensors"))
    assert found.first is None, str(found)
    assert len(found.steps) > 8 * len(model.layers)
    assert max(step.error / step.allowed for step in found.steps) < 0.8
    weights = [step for step in found.steps if step.path.endswith("attention.weights")]
    assert len(weights) == (0 if directory.name in OTHER_FORM else len(model.layers))


def test_as_many_heads_as_tokens_and_one_token_alone(tmp_path: Path) -> None:
    """No axis is taken for another."""
    for ids in ("3,1,4,1", "3"):
        trace = saved(DATA / "tiny" / "qwen3", tmp_path / "trace.safetensors", ids)
        found = verify(load(DATA / "tiny" / "qwen3"), trace)
        assert found.first is None, str(found)
        assert len(found.ids) == len(ids.split(","))
        assert np.isfinite([step.error for step in found.steps]).all()
