"""The forms in which files hold experts: a tensor for each, all in one, or packed in four bits."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.decoder_fixture import CLOSE, Copy

from qkv.errors import FileError
from qkv.io.mxfp4 import unpacked
from qkv.models import Decoder, load

WRONG = 1e-3


def fused(copy: Copy) -> dict[str, np.ndarray]:
    """The tensors as transformers 5 has them in memory, and may write them."""
    tensors, stacks = {}, {}
    for name, value in copy.tensors().items():
        name = name.replace(".block_sparse_moe.", ".mlp.")
        found = re.fullmatch(r"(.*\.experts)\.(\d+)\.(\w+)\.weight", name)
        if found is None:
            tensors[name] = value
        else:
            stacks[found[1], found[3], int(found[2])] = value
    for place in {place for place, _, _ in stacks}:
        n = max(i for where, _, i in stacks if where == place) + 1
        parts = ("w1", "w3", "w2") if (place, "w1", 0) in stacks else ("gate_proj", "up_proj", "down_proj")
        gate, up, down = (np.stack([stacks[place, part, i] for i in range(n)]) for part in parts)
        tensors |= {f"{place}.gate_up_proj": np.concatenate([gate, up], axis=1), f"{place}.down_proj": down}
    return tensors


@pytest.mark.parametrize("family", ["mixtral", "qwen2_moe", "qwen3_moe"])
def test_all_experts_in_one_tensor(family: str, tmp_path: Path) -> None:
    copy = Copy(tmp_path, family)
    copy.write(fused(copy))
    assert copy.difference() < CLOSE["atol"]
    wrong = {name: np.roll(x, 1, axis=0) if name.endswith("down_proj") else x for name, x in fused(copy).items()}
    copy.write(wrong)
    assert copy.difference() > WRONG


def test_experts_of_other_parts_are_in_memory_of_their_own(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "mixtral")
    copy.write(fused(copy))
    part = copy.load().layers[0].feed_forward
    for W in (part.W_gate, part.W_up):
        held = W if W.base is None else W.base
        assert held.nbytes == W.nbytes


@pytest.mark.parametrize("name", ["num_local_experts", "num_experts"])
def test_both_names_of_their_number(name: str, tmp_path: Path) -> None:
    copy = Copy(tmp_path, "qwen3_moe")
    copy.config(num_local_experts=..., num_experts=...)
    copy.config(**{name: 7})
    assert copy.difference() < CLOSE["atol"]
    copy.config(num_local_experts=7, num_experts=6)
    with pytest.raises(FileError, match="'num_experts' must be 7, but it is 6"):
        copy.load()


@pytest.mark.parametrize(
    ("family", "changes", "message"),
    [
        ("mixtral", {"num_local_experts": ...}, "has no 'num_local_experts'"),
        ("mixtral", {"num_local_experts": 0}, "'num_local_experts' must be an integer from 1"),
        ("mixtral", {"num_local_experts": 10**12}, "'num_local_experts' must be an integer from 1"),
        ("mixtral", {"num_local_experts": 65536}, r"has no tensor layers\.0\.mlp\.experts\.5\.w1\.weight, layers\.0"),
        ("mixtral", {"num_local_experts": 4}, r"'.*gate\.weight' must have shape \(4, 20\)|no part of the model uses"),
        ("mixtral", {"num_experts_per_tok": 6}, "'num_experts_per_tok' must be an integer from 1 to 5"),
        ("mixtral", {"num_hidden_layers": 2**31 - 1}, "'num_hidden_layers' must be an integer from 1 to 10000"),
        ("mixtral", {"intermediate_size": 11}, r"w1\.weight' must have shape \(11, 20\)"),
        ("mixtral", {"router_temperature": 2.0}, "'router_temperature' is not a setting"),
        ("qwen2_moe", {"mlp_only_layers": 1}, "'mlp_only_layers' must be a list of layers"),
        ("qwen2_moe", {"mlp_only_layers": [0]}, r"has no tensor layers\.0\.mlp\.gate_proj\.weight"),
        ("qwen2_moe", {"decoder_sparse_step": 0}, "'decoder_sparse_step' must be an integer from 1"),
        ("qwen2_moe", {"norm_topk_prob": "no"}, "'norm_topk_prob' must be true or false"),
        ("qwen2_moe", {"shared_expert_intermediate_size": ...}, "has no 'shared_expert_intermediate_size'"),
        ("gpt_oss", {"hidden_act": "gelu"}, "'hidden_act' must be 'silu'"),
        ("gpt_oss", {"experts_per_token": 3}, "'experts_per_token' must be 2"),
        ("gpt_oss", {"swiglu_limit": 0}, "'swiglu_limit' must be a number from"),
        ("gpt_oss", {"quantization_config": {"quant_method": "gptq"}}, "'quantization_config' must be of the method"),
        ("gpt_oss", {"quantization_config": [1]}, "'quantization_config' must be of the method mxfp4"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_one_line(family: str, changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    copy = Copy(tmp_path, family)
    copy.config(**changes)
    with pytest.raises(FileError, match=message) as caught:
        copy.load()
    assert "\n" not in str(caught.value)


def test_a_missing_a_misshapen_and_a_foreign_expert(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "mixtral")
    tensors, name = copy.tensors(), "model.layers.1.block_sparse_moe.experts.3.w2.weight"
    copy.write({n: x for n, x in tensors.items() if n != name})
    with pytest.raises(FileError, match=r"has no tensor layers\.1\.mlp\.experts\.3\.w2\.weight$"):
        copy.load()
    copy.write(tensors | {name: tensors[name][:-1]})
    with pytest.raises(FileError, match=rf"{name}' must have shape \(20, 13\), but its shape is \(19, 13\)"):
        copy.load()
    copy.write(tensors | {name.replace("3", "5"): tensors[name]})
    with pytest.raises(FileError, match=r"no part of the model uses: .*experts\.5\.w2\.weight$"):
        copy.load()


# packed in four bits


def number(code: int) -> float:
    """A number of four bits, by the definition of E2M1: a sign, two bits of exponent of bias 1, one of fraction."""
    sign, exponent, fraction = code >> 3, code >> 1 & 3, code & 1
    size = fraction / 2 if exponent == 0 else 2 ** (exponent - 1) * (1 + fraction / 2)
    return -size if sign else size


def by_hand(blocks: np.ndarray, scales: np.ndarray) -> np.ndarray:
    out = np.empty((*scales.shape, 32))
    for place in np.ndindex(scales.shape):
        for i, byte in enumerate(blocks[place].tolist()):
            for j, code in enumerate((byte & 15, byte >> 4)):
                out[(*place, 2 * i + j)] = number(code) * 2.0 ** (int(scales[place]) - 127)
    return out.reshape(*scales.shape[:-1], -1)


def test_unpacking_by_hand() -> None:
    random = np.random.default_rng(3)
    blocks = random.integers(0, 256, (2, 3, 5, 16), np.uint8)
    scales = random.integers(0, 252, (2, 3, 5), np.uint8)
    scales[0, 0] = [0, 1, 126, 127, 251]  # the smallest, and the largest that float32 holds with all numbers
    found = unpacked(blocks, scales)
    assert (found.dtype, found.shape) == (np.float32, (2, 3, 160))
    np.testing.assert_array_equal(found, by_hand(blocks, scales))
    every = np.arange(256, dtype=np.uint8).reshape(16, 16)
    np.testing.assert_array_equal(unpacked(every, np.full(16, 127, np.uint8)), by_hand(every, np.full(16, 127)))


def test_scales_that_float32_does_not_hold() -> None:
    blocks = np.full((1, 16), 0x77, np.uint8)  # 6 everywhere
    assert np.isinf(unpacked(blocks, np.array([254], np.uint8))).all()
    assert np.isnan(unpacked(blocks, np.array([255], np.uint8))).all()


CONFIG = {
    "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_size": 64, "intermediate_size": 32,
    "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 6, "vocab_size": 37,
    "num_local_experts": 5, "num_experts_per_tok": 2, "experts_per_token": 2, "max_position_embeddings": 53,
    "sliding_window": 7, "layer_types": ["sliding_attention", "full_attention"], "rope_theta": 150000,
    "initial_context_length": 13, "swiglu_limit": 7.0, "router_aux_loss_coef": 0.9, "attention_bias": True,
    "quantization_config": {"modules_to_not_convert": ["lm_head"], "quant_method": "mxfp4"},
    "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 4.0, "original_max_position_embeddings": 13,
                     "rope_type": "yarn", "truncate": False},
}  # fmt: skip


def packed_model(directory: Path, seed: int = 5) -> dict[str, np.ndarray]:
    """Write a model as gpt-oss is published: experts packed, settings flat."""
    random, E, D, F = np.random.default_rng(seed), 5, 64, 32
    normal = lambda *shape: random.normal(0, 0.3, shape).astype(np.float32)  # noqa: E731
    tensors = {"model.embed_tokens.weight": normal(37, D), "lm_head.weight": normal(37, D),
               "model.norm.weight": 1 + normal(D)}  # fmt: skip
    for i in range(2):
        layer, mlp = f"model.layers.{i}", f"model.layers.{i}.mlp"
        for name, d_in, d_out in (("q", D, 18), ("k", D, 6), ("v", D, 6), ("o", 18, D)):
            tensors[f"{layer}.self_attn.{name}_proj.weight"] = normal(d_out, d_in)
            tensors[f"{layer}.self_attn.{name}_proj.bias"] = normal(d_out)
        tensors[f"{layer}.self_attn.sinks"] = normal(3)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{layer}.{name}.weight"] = 1 + normal(D)
        tensors |= {f"{mlp}.router.weight": normal(E, D), f"{mlp}.router.bias": normal(E)}
        for name, d_in, d_out in (("gate_up", D, 2 * F), ("down", F, D)):
            stem = f"{mlp}.experts.{name}_proj"
            tensors[f"{stem}_bias"] = normal(E, d_out)
            tensors[f"{stem}_blocks"] = random.integers(0, 256, (E, d_out, d_in // 32, 16), np.uint8)
            tensors[f"{stem}_scales"] = random.integers(122, 126, (E, d_out, d_in // 32), np.uint8)
    write(directory, tensors)
    return tensors


def write(directory: Path, tensors: dict[str, np.ndarray], **changes: Any) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    values = {name: value for name, value in (CONFIG | changes).items() if value is not ...}
    (directory / "config.json").write_text(json.dumps(values))
    save_file(tensors, directory / "model.safetensors")


def test_experts_packed_in_mxfp4(tmp_path: Path) -> None:
    """The same model with its experts unpacked by hand, as (in, out), gives the same."""
    tensors = packed_model(tmp_path / "packed")
    plain = {name: x for name, x in tensors.items() if not name.endswith(("_blocks", "_scales"))}
    for name in tensors:
        if name.endswith("_blocks"):
            stem = name.removesuffix("_blocks")
            matrices = by_hand(tensors[name], tensors[f"{stem}_scales"]).swapaxes(1, 2)
            plain[stem] = np.ascontiguousarray(matrices, np.float32)
    write(tmp_path / "plain", plain, quantization_config=...)
    packed, other, ids = load(tmp_path / "packed"), load(tmp_path / "plain"), np.arange(19) * 7 % 37
    np.testing.assert_allclose(packed.logits(ids), other.logits(ids), rtol=0, atol=1e-5)
    part, same = packed.layers[1].feed_forward, other.layers[1].feed_forward
    for name in ("W_gate", "W_up", "W_down"):
        np.testing.assert_array_equal(getattr(part, name), getattr(same, name))
        assert part.W_gate.dtype == np.float32
    assert math.isclose(packed.layers[0].attention.rotary.scaling.factor, 4.0)


def test_packed_experts_kept_in_16_bits(tmp_path: Path) -> None:
    """Four bits and a power of two that is not extreme: float16 holds them exactly."""
    packed_model(tmp_path)
    wide, narrow = load(tmp_path), load(tmp_path, dtype="float16")
    for name in ("W_gate", "W_up", "W_down"):
        W = getattr(narrow.layers[0].feed_forward, name)
        assert W.dtype == np.float16
        np.testing.assert_array_equal(W, getattr(wide.layers[0].feed_forward, name))


def test_the_progress_of_packed_experts_ends_where_it_should(tmp_path: Path) -> None:
    packed_model(tmp_path)
    told: list[tuple[int, int]] = []
    load(tmp_path, progress=lambda *counts: told.append(counts))
    assert told[-1][0] == told[-1][1]
    assert told[-1][1] > sum(x.nbytes for name, x in packed_model(tmp_path).items() if name.endswith("_blocks"))


def swap_halves(tensors: dict[str, np.ndarray], stem: str) -> None:
    blocks = tensors[f"{stem}_blocks"]
    tensors[f"{stem}_blocks"] = blocks >> 4 | blocks << 4


def shift_scales(tensors: dict[str, np.ndarray], stem: str) -> None:
    tensors[f"{stem}_scales"] = tensors[f"{stem}_scales"] + np.uint8(1)


@pytest.mark.parametrize("part", ["gate_up", "down"])
@pytest.mark.parametrize("fault", [swap_halves, shift_scales])
def test_a_fault_in_what_is_packed_shows(fault: Callable[..., None], part: str, tmp_path: Path) -> None:
    tensors, ids = packed_model(tmp_path), np.arange(19) * 7 % 37
    expected = load(tmp_path).logits(ids)
    fault(tensors, f"model.layers.1.mlp.experts.{part}_proj")
    write(tmp_path, tensors)
    assert np.abs(load(tmp_path).logits(ids) - expected).max() > WRONG


STEM = "model.layers.1.mlp.experts.down_proj"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({f"{STEM}_scales": None}, r"has no tensor layers\.1\.mlp\.experts\.down_proj_scales"),
        ({f"{STEM}_scales": np.zeros((5, 64, 2), np.uint8)}, r"_scales' must have shape \(5, 64, 1\)"),
        ({f"{STEM}_blocks": np.zeros((5, 64, 1, 15), np.uint8)}, r"_blocks' must have shape \(5, 64, 1, 16\)"),
        ({f"{STEM}_blocks": np.zeros((5, 64, 1, 16), np.int8)}, "_blocks' holds no bytes"),
        ({f"{STEM}_scales": np.zeros((5, 64, 1), np.float32)}, "_scales' holds no bytes"),
        ({f"{STEM}_scales": np.full((5, 64, 1), 255, np.uint8)}, "_blocks' holds NaN"),
        ({f"{STEM}_scales": np.full((5, 64, 1), 254, np.uint8)}, "_blocks' holds inf"),
        ({STEM: np.zeros((5, 32, 64), np.float32)}, "no part of the model uses: .*down_proj$"),
    ],
)
def test_what_is_packed_wrongly_is_one_line(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    tensors = packed_model(tmp_path) | changes
    write(tmp_path, {name: x for name, x in tensors.items() if x is not None})
    with pytest.raises(FileError, match=message) as caught:
        load(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_model_of_bytes_is_still_no_model(tmp_path: Path) -> None:
    tensors = packed_model(tmp_path)
    write(tmp_path, tensors | {"model.norm.weight": np.ones(64, np.uint8)})
    with pytest.raises(FileError, match=r"model\.norm\.weight' must hold floating-point numbers, but its dtype is U8"):
        load(tmp_path)


def test_chunks_and_batches_of_a_packed_model(tmp_path: Path) -> None:
    packed_model(tmp_path)
    model: Decoder = load(tmp_path)
    ids = np.arange(23) * 5 % 37
    caches = model.new_caches()
    parts = [model.logits(part, caches) for part in np.split(ids, [1, 4, 15])]
    np.testing.assert_allclose(np.concatenate(parts), model.logits(ids), **CLOSE)
    prompts = [ids, ids[:5], ids[:1]]
    assert model.generate(prompts, max_new_tokens=7) == [model.generate(p, max_new_tokens=7) for p in prompts]
