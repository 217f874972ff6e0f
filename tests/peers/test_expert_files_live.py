"""Files with experts as transformers itself writes and reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.test_expert_files import packed_model

from qkv.io.mxfp4 import unpacked
from qkv.models import load

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from scripts.make_tiny_models import made  # noqa: E402  # needs both

CLOSE: dict[str, float] = {"rtol": 0, "atol": 1e-4}


@pytest.mark.parametrize("family", ["mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss", "deepseek_v2", "deepseek_v3"])
@pytest.mark.parametrize("as_in_memory", [True, False])
def test_as_transformers_writes_them(family: str, as_in_memory: bool, tmp_path: Path) -> None:
    """By default the newer transformers writes the older names; what it has in memory is one tensor for all experts."""
    peer = made(family)
    peer.float().save_pretrained(tmp_path, save_original_format=not as_in_memory)
    ids = np.random.default_rng(19).integers(0, 67, 19)
    with torch.no_grad():
        expected = peer(torch.tensor(ids)[None]).logits[0].numpy()
    np.testing.assert_allclose(load(tmp_path).logits(ids), expected, **CLOSE)


def test_unpacking_as_transformers_does() -> None:
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    random = np.random.default_rng(7)
    blocks = random.integers(0, 256, (3, 5, 7, 16), np.uint8)
    scales = random.integers(1, 252, (3, 5, 7), np.uint8)
    theirs = convert_moe_packed_tensors(torch.tensor(blocks), torch.tensor(scales), dtype=torch.float32)
    np.testing.assert_array_equal(unpacked(blocks, scales).swapaxes(1, 2), theirs.numpy())


def test_a_packed_model_as_transformers_reads_it(tmp_path: Path) -> None:
    packed_model(tmp_path)
    how: Any = transformers.Mxfp4Config(dequantize=True)
    peer = transformers.GptOssForCausalLM.from_pretrained(
        tmp_path, quantization_config=how, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    ids = np.arange(23) * 5 % 37
    with torch.no_grad():
        expected = peer(torch.tensor(ids)[None]).logits[0].numpy()
    np.testing.assert_allclose(load(tmp_path).logits(ids), expected, **CLOSE)
