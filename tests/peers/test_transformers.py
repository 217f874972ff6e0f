"""The same random models in transformers and here, made on the spot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qkv
from qkv.models import load

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu"])
@pytest.mark.parametrize("heads", [1, 5])
def test_random_berts(activation: str, heads: int, tmp_path: Path) -> None:
    torch.manual_seed(heads)
    config = transformers.BertConfig(
        vocab_size=89, hidden_size=35, num_hidden_layers=3, num_attention_heads=heads, intermediate_size=47,
        max_position_embeddings=23, hidden_act=activation, attn_implementation="eager",
    )  # fmt: skip
    peer = randomised(transformers.BertModel(config))
    peer.save_pretrained(tmp_path)
    model = load(tmp_path)
    ids = np.random.default_rng(heads).integers(0, 89, (3, 23))
    lengths = [23, 1, 13]
    mask = torch.tensor([[i < length for i in range(23)] for length in lengths]).long()
    with torch.no_grad():
        expected = peer(torch.tensor(ids), attention_mask=mask, output_attentions=True)
    with qkv.record() as trace:
        hidden = model([row[:length] for row, length in zip(ids, lengths)])
    for b, length in enumerate(lengths):
        np.testing.assert_allclose(hidden[b], expected.last_hidden_state[b, :length], rtol=0, atol=1e-5)
        for layer in range(3):
            weights = trace[f"layers.{layer}.attention.weights"][b, :, :length]
            np.testing.assert_allclose(weights, expected.attentions[layer][b, :, :length], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["BertForMaskedLM", "BertForSequenceClassification", "BertForPreTraining"])
def test_models_with_a_head(name: str, tmp_path: Path) -> None:
    config = transformers.BertConfig(
        vocab_size=89, hidden_size=35, num_hidden_layers=2, num_attention_heads=5, intermediate_size=47
    )
    peer = randomised(getattr(transformers, name)(config))
    peer.save_pretrained(tmp_path)
    ids = np.arange(2, 19)
    with torch.no_grad():
        expected = peer.bert(torch.tensor(ids)[None]).last_hidden_state[0]
    np.testing.assert_allclose(load(tmp_path)(ids), expected, rtol=0, atol=1e-5)


def randomised(peer: Any) -> Any:
    """Every weight random, the biases and norms too."""
    with torch.no_grad():
        for name, weight in peer.named_parameters():
            weight.normal_(1.0 if name.endswith("LayerNorm.weight") else 0.0, 0.3)
    return peer.eval()
