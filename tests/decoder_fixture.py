"""Decoders for tests: the tiny random ones in git, held to transformers, and one that speaks bytes."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
from tests.models_fixture import DATA, ModelCopy, goldens

from qkv.io.families.decoders import DecoderSettings
from qkv.io.tokens.tokenizer import Tokenizer
from qkv.layers import Rotary
from qkv.models import Decoder, load
from qkv.models.build_decoder import decoder_from_weights

TINY = DATA / "tiny"
FAMILIES = sorted(path.name for path in TINY.iterdir())
LENGTHS = (7, 23)
# float32 here against float64 there; the scores of random weights are large.
CLOSE: dict[str, float] = {"rtol": 0, "atol": 1e-4}


@functools.cache
def tiny(family: str) -> Decoder:
    return load(TINY / family)


@functools.cache
def known(family: str) -> dict[str, np.ndarray]:
    return goldens(TINY / family / "goldens.npz")


class Copy(ModelCopy):
    """A copy of a tiny model in which one thing can be changed."""

    def __init__(self, directory: Path, family: str) -> None:
        super().__init__(TINY / family, directory)
        self.family = family

    def write_parts(self, n_parts: int) -> None:
        """The tensors as several files and their index."""
        tensors, index = self.tensors(), {}
        names = sorted(tensors)
        for i in range(n_parts):
            part = f"model-{i + 1:05}-of-{n_parts:05}.safetensors"
            self.write({name: tensors[name] for name in names[i::n_parts]}, part)
            index |= dict.fromkeys(names[i::n_parts], part)
        (self.directory / "model.safetensors").unlink()
        self.write_index(index)

    def write_index(self, index: dict[str, str]) -> None:
        path = self.directory / "model.safetensors.index.json"
        path.write_text(json.dumps({"metadata": {}, "weight_map": index}))

    def difference(self) -> float:
        """How far the logits are from those of transformers."""
        model, arrays = self.load(), known(self.family)
        return max(float(np.abs(model.logits(arrays[f"{n}.ids"]) - arrays[f"{n}.logits"]).max()) for n in LENGTHS)


@functools.cache
def byte_tokenizer(directory: Path) -> Tokenizer:
    """256 bytes, then <end> and <turn>, which are special; no token is put around a text."""
    import tokenizers

    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    byte_order = {char: i for i, char in enumerate(alphabet)}
    inner = tokenizers.Tokenizer(tokenizers.models.BPE(byte_order, []))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    inner.add_special_tokens(["<end>", "<|im_end|>"])
    inner.save(str(directory / "tokenizer.json"))
    return Tokenizer(directory / "tokenizer.json")


def random_decoder(seed: int = 3, **changes: Any) -> Decoder:
    """A decoder of random weights over 258 tokens, in float64: no rounding hides a difference."""
    sizes: dict[str, Any] = {
        "d_model": 20, "d_ff": 23, "n_heads": 6, "n_kv_heads": 2, "d_k": 4, "n_layers": 3, "vocab_size": 258,
        "n_positions": 61, "eps": 1e-6, "activation": "silu", "rotary": (Rotary(100.0),) * 3,
    }  # fmt: skip
    s = DecoderSettings(**sizes | changes)
    random = np.random.default_rng(seed)

    def drawn(*shape: int) -> np.ndarray:
        return random.normal(0, 0.4, shape)

    def norm() -> dict[str, np.ndarray]:
        return {"gamma": 1 + drawn(s.d_model), **({"beta": drawn(s.d_model)} if s.norm == "layer" else {})}

    def layer() -> dict[str, Any]:
        d, q, kv = s.d_model, s.q_width, s.kv_width
        attention = {"W_Q": drawn(d, q), "W_K": drawn(d, kv), "W_V": drawn(d, kv), "W_O": drawn(q, d)}
        fed = {"W_gate": drawn(d, s.d_ff), "W_up": drawn(d, s.d_ff), "W_down": drawn(s.d_ff, d)}
        return {"attention": attention, "feed_forward": fed, "norm_1": norm(), "norm_2": norm()}

    weights = {
        "embeddings": {"W_word": drawn(s.vocab_size, s.d_model)},
        "layers": {str(i): layer() for i in range(s.n_layers)},
        "norm": norm(),
        "head": {"W": drawn(s.d_model, s.vocab_size)},
    }
    return decoder_from_weights(s, weights)
