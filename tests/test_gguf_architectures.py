"""Each architecture of llama.cpp: the tiny models written as its converter writes them, against their own files."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from tests.decoder_fixture import LENGTHS, Copy, known
from tests.gguf_fixture import in_pairs, write

from qkv.errors import FileError
from qkv.io.gguf.architectures import ARCHITECTURES
from qkv.io.gguf.file import open_gguf
from qkv.io.gguf.models import read_settings
from qkv.models import load

Tensors = dict[str, np.ndarray]
CLOSE: dict[str, float] = {"rtol": 0, "atol": 1e-5}


def by_map(
    copy: Copy, arch: gguf.MODEL_ARCH, change: Callable[[str, np.ndarray, dict[str, Any]], np.ndarray]
) -> Tensors:
    """Every tensor by llama.cpp's name for it, changed as the converter changes it."""
    config = copy.settings()
    n_layers = config.get("num_hidden_layers") or config.get("n_layer")
    table, found = gguf.get_tensor_name_map(arch, n_layers), {}
    for name, tensor in copy.tensors().items():
        plain = name.removeprefix("transformer.") if arch == gguf.MODEL_ARCH.BLOOM else name
        theirs = table.get_name(plain, try_suffixes=(".weight", ".bias"))
        if theirs is not None:
            found[theirs] = change(name, tensor.astype(np.float32), config)
    return found


def as_is(name: str, tensor: np.ndarray, config: dict[str, Any]) -> np.ndarray:
    return tensor


def norms_of_gemma(name: str, tensor: np.ndarray, config: dict[str, Any]) -> np.ndarray:
    return tensor + 1 if "norm" in name else tensor


def pairs_of_llama(name: str, tensor: np.ndarray, config: dict[str, Any]) -> np.ndarray:
    for part, count in (("q_proj", "num_attention_heads"), ("k_proj", "num_key_value_heads")):
        if f".{part}." in name:
            return in_pairs(tensor, config[count])
    return tensor


def transposed_of_gpt2(name: str, tensor: np.ndarray, config: dict[str, Any]) -> np.ndarray:
    return tensor.T if re.search(r"(c_attn|c_fc|c_proj)\.weight$", name) else tensor


def joined(name: str, tensor: np.ndarray, config: dict[str, Any]) -> np.ndarray:
    """BLOOM and Falcon: queries, keys and values of each head beside each other become all queries, all keys, ..."""
    if "query_key_value" not in name:
        return tensor
    n_heads = config.get("n_head") or config["num_attention_heads"]
    n_kv_heads = config.get("num_kv_heads") or n_heads
    d_k = config["hidden_size"] // n_heads
    groups = tensor.reshape(n_kv_heads, n_heads // n_kv_heads + 2, d_k, *tensor.shape[1:])
    parts = groups[:, :-2], groups[:, -2:-1], groups[:, -1:]
    return np.concatenate([part.reshape(-1, *tensor.shape[1:]) for part in parts])


def with_experts(
    copy: Copy, arch: gguf.MODEL_ARCH, change: Callable[[str, np.ndarray, dict[str, Any]], np.ndarray] = as_is
) -> Tensors:
    """The experts of a layer one above the other."""
    tensors, found = copy.tensors(), by_map(copy, arch, change)
    found = {name: tensor for name, tensor in found.items() if "_exps" not in name}
    parts = {"w1": "gate", "w3": "up", "w2": "down", "gate_proj": "gate", "up_proj": "up", "down_proj": "down"}
    for name, tensor in tensors.items():
        if match := re.fullmatch(r"model\.layers\.(\d+)\.mlp\.(\w+)_proj\.weight", name):  # a layer without experts
            found[f"blk.{match[1]}.ffn_{match[2]}.weight"] = tensor.astype(np.float32)
        if match := re.fullmatch(r"model\.layers\.(\d+)\.(.*)\.experts\.0\.(\w+)\.weight", name):
            layer, part = match[1], match[3]
            one = [tensors[name.replace("experts.0.", f"experts.{i}.")] for i in range(99)
                   if name.replace("experts.0.", f"experts.{i}.") in tensors]  # fmt: skip
            found[f"blk.{layer}.ffn_{parts[part]}_exps.weight"] = np.stack(one).astype(np.float32)
    return found


def gpt_oss(copy: Copy) -> Tensors:
    """Gates and candidates alternate in the columns of one tensor; here they stand in two, (out, in)."""
    found = by_map(copy, gguf.MODEL_ARCH.GPT_OSS, as_is)
    found = {name: tensor for name, tensor in found.items() if "_exps" not in name and "sinks" not in name}
    for name, tensor in copy.tensors().items():
        if not (match := re.match(r"model\.layers\.(\d+)\.(?:mlp\.experts\.(\w+)|self_attn\.sinks)$", name)):
            continue
        layer, tensor = f"blk.{match[1]}", tensor.astype(np.float32)
        if match[2] is None:
            found[f"{layer}.attn_sinks.weight"] = tensor
            continue
        kind = "bias" if match[2].endswith("_bias") else "weight"
        turned = tensor if kind == "bias" else tensor.swapaxes(1, 2)
        if match[2].startswith("gate_up"):
            found[f"{layer}.ffn_gate_exps.{kind}"], found[f"{layer}.ffn_up_exps.{kind}"] = (
                turned[:, ::2],
                turned[:, 1::2],
            )
        else:
            found[f"{layer}.ffn_down_exps.{kind}"] = turned
    return found


def common(config: dict[str, Any]) -> dict[str, Any]:
    """The settings that most have, by llama.cpp's names without the architecture."""
    d_k = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    rope = config["rope_parameters"]
    return {
        "block_count": config["num_hidden_layers"], "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"], "feed_forward_length": config.get("intermediate_size"),
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config.get("num_key_value_heads"),
        "attention.key_length": d_k, "attention.value_length": d_k, "rope.dimension_count": d_k,
        "attention.layer_norm_rms_epsilon": config.get("rms_norm_eps"),
        "rope.freq_base": float(rope.get("rope_theta", 10000.0)), "vocab_size": config["vocab_size"],
    }  # fmt: skip


def older(config: dict[str, Any]) -> dict[str, Any]:
    """GPT-2, BLOOM, Falcon."""
    return {
        "block_count": config.get("n_layer") or config.get("num_hidden_layers"),
        "context_length": config.get("n_positions") or config.get("max_position_embeddings") or 2048,
        "embedding_length": config.get("n_embd") or config.get("hidden_size"),
        "feed_forward_length": config.get("n_inner") or config.get("ffn_hidden_size") or 4 * config["hidden_size"],
        "attention.head_count": config.get("n_head") or config.get("num_attention_heads"),
        "attention.layer_norm_epsilon": config["layer_norm_epsilon"], "vocab_size": config["vocab_size"],
    }  # fmt: skip


def experts(config: dict[str, Any], **more: int) -> dict[str, Any]:
    count = config.get("num_local_experts") or config.get("num_experts")
    return common(config) | {"expert_count": count, "expert_used_count": config["num_experts_per_tok"]} | more


def gemma3_files(copy: Copy) -> tuple[dict[str, Any], Tensors]:
    config = copy.settings()
    rope = config["rope_parameters"]
    own = common(config) | {
        "rope.freq_base": rope["full_attention"]["rope_theta"], "rope.scaling.type": "linear",
        "rope.freq_base_swa": rope["sliding_attention"]["rope_theta"],
        "rope.scaling.factor": rope["full_attention"]["factor"], "attention.sliding_window": config["sliding_window"],
    }  # fmt: skip
    return own, by_map(copy, gguf.MODEL_ARCH.GEMMA3, norms_of_gemma)


def phi3_files(copy: Copy) -> tuple[dict[str, Any], Tensors]:
    config = copy.settings()
    rope = config["rope_parameters"]
    factors = {f"rope_factors_{n}.weight": np.array(rope[f"{n}_factor"], np.float32) for n in ("long", "short")}
    own = {"attention.sliding_window": config["sliding_window"],
           "rope.scaling.original_context_length": rope["original_max_position_embeddings"]}  # fmt: skip
    return common(config) | own, by_map(copy, gguf.MODEL_ARCH.PHI3, as_is) | factors


def falcon_files(copy: Copy) -> tuple[dict[str, Any], Tensors]:
    config = copy.settings()
    own = {"attention.head_count_kv": config["num_kv_heads"], "tensor_data_layout": "jploski"}
    return older(config) | own, by_map(copy, gguf.MODEL_ARCH.FALCON, joined)


def gpt_oss_files(copy: Copy) -> tuple[dict[str, Any], Tensors]:
    config = copy.settings()
    rope = config["rope_parameters"]
    own = experts(config, expert_feed_forward_length=config["intermediate_size"]) | {
        "attention.sliding_window": config["sliding_window"], "rope.scaling.type": "yarn",
        "rope.scaling.factor": rope["factor"], "rope.scaling.yarn_beta_fast": rope["beta_fast"],
        "rope.scaling.yarn_beta_slow": rope["beta_slow"],
        "rope.scaling.original_context_length": rope["original_max_position_embeddings"],
    }  # fmt: skip
    return own, gpt_oss(copy)


def small_experts(arch: gguf.MODEL_ARCH) -> Callable[[Copy], tuple[dict[str, Any], Tensors]]:
    def files(copy: Copy) -> tuple[dict[str, Any], Tensors]:
        config = copy.settings()
        own = experts(config, expert_feed_forward_length=config["moe_intermediate_size"])
        if "shared_expert_intermediate_size" in config:
            own["expert_shared_feed_forward_length"] = config["shared_expert_intermediate_size"]
        found = with_experts(copy, arch)
        return own, {n: t.ravel() if n.endswith("ffn_gate_inp_shexp.weight") else t for n, t in found.items()}

    return files


# The file of each, and what of the tiny model's settings llama.cpp does not store and has otherwise.
A = gguf.MODEL_ARCH
NO_ROPE = {"no_rope_layers": [1, 1, 1, 0, 1], "use_sliding_window": False, "layer_types": ..., "sliding_window": None}
FILES: dict[str, tuple[str, dict[str, Any], Callable[[Copy], tuple[dict[str, Any], Tensors]]]] = {
    "gemma": ("gemma", {}, lambda copy: (common(copy.settings()), by_map(copy, A.GEMMA, norms_of_gemma))),
    "gemma3": ("gemma3", {"layer_types": ["sliding_attention"] * 3, "query_pre_attn_scalar": 6}, gemma3_files),
    "phi3": ("phi3", {}, phi3_files),
    "olmo2": ("olmo2", {}, lambda copy: (common(copy.settings()), by_map(copy, A.OLMO2, as_is))),
    "smollm3": ("smollm3", NO_ROPE, lambda copy: (common(copy.settings()), by_map(copy, A.SMOLLM3, pairs_of_llama))),
    "gpt2": ("gpt2", {}, lambda copy: (older(copy.settings()), by_map(copy, A.GPT2, transposed_of_gpt2))),
    "bloom": ("bloom", {}, lambda copy: (older(copy.settings()), by_map(copy, A.BLOOM, joined))),
    "falcon": ("falcon", {"bias": False}, falcon_files),
    "mixtral": ("llama", {}, lambda copy: (experts(copy.settings()), with_experts(copy, A.LLAMA, pairs_of_llama))),
    "qwen2_moe": ("qwen2moe", {}, small_experts(A.QWEN2MOE)),
    "qwen3_moe": ("qwen3moe", {}, small_experts(A.QWEN3MOE)),
    "gpt_oss": ("gpt-oss", {"swiglu_limit": 7.0}, gpt_oss_files),
}  # fmt: skip


def both(tmp_path: Path, family: str, **changes: Any) -> tuple[Path, Copy]:
    """A file, and the directory that it is made of."""
    name, differs, files = FILES[family]
    copy = Copy(tmp_path, family)
    copy.config(**differs)
    if family == "falcon":
        copy.write({n: t for n, t in copy.tensors().items() if not re.search(r"(dense\w*|value)\.bias$", n)})
    own, tensors = files(copy)
    own |= {key.replace("__", "."): value for key, value in changes.items()}
    metadata = {f"{name}.{key}": value for key, value in own.items() if value is not None and value is not ...}
    return write(tmp_path / "model.gguf", {"general.architecture": name} | metadata, tensors), copy


@pytest.mark.parametrize("family", FILES)
def test_the_same_from_both_formats(tmp_path: Path, family: str) -> None:
    path, copy = both(tmp_path, family)
    model, other = load(path), copy.load()
    for n in LENGTHS:
        ids = known(family)[f"{n}.ids"]
        np.testing.assert_allclose(model.logits(ids), other.logits(ids), **CLOSE)
    assert model.generate(ids, max_new_tokens=11) == other.generate(ids, max_new_tokens=11)


def test_every_architecture_is_tested() -> None:
    written = {name for name, _, _ in FILES.values()} | {"qwen2", "qwen3", "gemma2"}
    assert written == set(ARCHITECTURES)


@pytest.mark.parametrize("family", FILES)
def test_a_setting_that_is_not_known_is_refused(tmp_path: Path, family: str) -> None:
    name = FILES[family][0]
    for setting in ("my_own", "attention.clamp_kqv", "expert_gating_func", "rope.scaling.yarn_log_multiplier"):
        path, _ = both(tmp_path / setting, family, **{setting.replace(".", "__"): 2})
        with pytest.raises(FileError, match=f"'{name}.{setting}' is not a setting that is understood"):
            load(path)


@pytest.mark.parametrize("family", FILES)
def test_a_tensor_less_or_more_is_named(tmp_path: Path, family: str) -> None:
    path, copy = both(tmp_path, family)
    name, _, files = FILES[family]
    own, tensors = files(copy)
    metadata = {"general.architecture": name} | {f"{name}.{key}": v for key, v in own.items() if v is not None}
    first = next(n for n in tensors if n.startswith("blk.1.") and "ffn_gate_inp" not in n)
    write(path, metadata, {n: t for n, t in tensors.items() if n != first})
    with pytest.raises(FileError) as caught:
        load(path)
    assert caught.value.key == "tensor_missing"
    assert first in str(caught.value)
    write(path, metadata, tensors | {"blk.1.more.weight": np.ones(3, np.float32)})
    with pytest.raises(FileError, match=re.escape("blk.1.more.weight")):
        load(path)


def test_gemma3_looks_far_in_every_sixth_layer(tmp_path: Path) -> None:
    path, _ = both(tmp_path, "gemma3", block_count=12)
    with open_gguf(path) as file:
        settings = read_settings(file)
    assert [window is None for window in settings.windows] == ([False] * 5 + [True]) * 2
    assert [rotary.base for rotary in settings.rotary[4:6]] == [100.0, 5000.0]
    assert [rotary.scaling is None for rotary in settings.rotary[4:6]] == [True, False]


@pytest.mark.parametrize(("family", "n_layers"), [("gemma3", 62)])
def test_the_largest_gemma_scales_by_another_width(tmp_path: Path, family: str, n_layers: int) -> None:
    path, _ = both(tmp_path, family, block_count=n_layers)
    with open_gguf(path) as file:
        assert read_settings(file).scale == (20 / 4) ** -0.5


def test_phi3_turns_a_part_of_each_head(tmp_path: Path) -> None:
    path, _ = both(tmp_path, "phi3", rope__dimension_count=2)
    with open_gguf(path) as file:
        assert read_settings(file).rotary[0].rotary_dim == 2


def test_a_larger_factor_of_longrope(tmp_path: Path) -> None:
    path, _ = both(tmp_path, "phi3", rope__scaling__attn_factor=1.25)
    with open_gguf(path) as file:
        scaling = read_settings(file).rotary[0].scaling
    assert scaling.attention_factor == 1.25
    assert scaling.long_factor == (2.0, 7.0)


def test_falcon_with_one_key_head_has_one_norm(tmp_path: Path) -> None:
    path, _ = both(tmp_path, "falcon", attention__head_count_kv=1)
    with open_gguf(path) as file:
        file.shapes = {name: shape for name, shape in file.shapes.items() if "attn_norm_2" not in name}
        settings = read_settings(file)
    assert (settings.n_kv_heads, settings.parallel) == (1, True)


def test_a_router_says_how_many(tmp_path: Path) -> None:
    path, _ = both(tmp_path, "mixtral", expert_used_count=9)
    with pytest.raises(FileError, match=r"'llama\.expert_used_count' must be an integer from 1 to 5, but it is 9"):
        load(path)
    path, _ = both(tmp_path / "more", "mixtral", expert_count=6)
    with pytest.raises(FileError, match=r"'blk\.0\.ffn_gate_inp\.weight' must have shape \(6, 20\)"):
        load(path)


def test_mxfp4_against_its_definition(tmp_path: Path) -> None:
    """Blocks of 17 bytes: a power of two, then 32 numbers of a sign, two bits of exponent and one of fraction.

    Unpacked here one number at a time from the definition; in GGUF a byte holds the numbers i and i + 16.
    """
    rows, blocks = 3, 5
    random = np.random.default_rng(11)
    data = random.integers(0, 256, (rows, blocks, 17), dtype=np.uint8)
    data[..., 0] = random.integers(100, 140, (rows, blocks))
    expected = np.zeros((rows, blocks, 32))
    for place in np.ndindex(rows, blocks, 32):
        row, block, i = place
        byte = int(data[row, block, 1 + i % 16])
        code = byte & 15 if i < 16 else byte >> 4
        exponent, fraction = code >> 1 & 3, code & 1
        number = fraction * 0.5 if exponent == 0 else (1 + fraction / 2) * 2.0 ** (exponent - 1)
        expected[place] = (-1) ** (code >> 3) * number * 2.0 ** (int(data[row, block, 0]) - 127)
    path = write(tmp_path / "x.gguf", {"general.architecture": "gpt-oss"}, {"x": data.reshape(rows, -1)},
                 x=gguf.GGMLQuantizationType.MXFP4)  # fmt: skip
    with open_gguf(path) as file:
        np.testing.assert_array_equal(file.read("x"), expected.reshape(rows, -1).astype(np.float32))
