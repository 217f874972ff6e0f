"""Each family of decoders held to transformers on a tiny random model, in every form in which its files come."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from tests.decoder_fixture import CLOSE, FAMILIES, LENGTHS, TINY, Copy, known, tiny
from tests.models_fixture import DATA

from qkv.errors import ArgumentError, FileError
from qkv.io.config import Config
from qkv.io.fp8 import read_block
from qkv.layers import Experts, LayerNorm, Rotary
from qkv.layers.experts import ClampedSwiGLU
from qkv.models import Decoder, load
from qkv.models.families import DECODERS
from qkv.ops import biases

N_NEW = 11
WRONG = 1e-3  # a fault must show by far more than the tolerance


def test_every_family_is_held_to_transformers() -> None:
    configs = [json.loads((TINY / family / "config.json").read_text()) for family in FAMILIES]
    assert {config["model_type"] for config in configs} == {family.model_type for family in DECODERS}


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("family", FAMILIES)
def test_equals_transformers(family: str, length: int) -> None:
    model, arrays = tiny(family), known(family)
    ids = arrays[f"{length}.ids"]
    logits = model.logits(ids)
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits, arrays[f"{length}.logits"], **CLOSE)
    np.testing.assert_allclose(model(ids), arrays[f"{length}.hidden"], **CLOSE)
    assert model.generate(ids, max_new_tokens=N_NEW) == arrays[f"{length}.greedy"].tolist()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_equals_single_runs(family: str) -> None:
    model, arrays = tiny(family), known(family)
    prompts = [arrays["7.ids"], arrays["23.ids"], arrays["23.ids"][:1]]
    for logits, prompt in zip(model.logits(prompts), prompts):
        np.testing.assert_allclose(logits, model.logits(prompt), **CLOSE)
    expected = [model.generate(prompt, max_new_tokens=N_NEW) for prompt in prompts]
    assert model.generate(prompts, max_new_tokens=N_NEW) == expected


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "phi3"])
def test_chunks_equal_one_pass(family: str) -> None:
    model, ids = tiny(family), known(family)["23.ids"]
    for cuts in ([1, 2, 9, 10], list(range(1, 23)), [22]):
        caches = model.new_caches()
        parts = [model.logits(part, caches) for part in np.split(ids, cuts)]
        np.testing.assert_allclose(np.concatenate(parts), model.logits(ids), **CLOSE)


FP8 = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [8, 16]}
PUBLISHED = json.loads((DATA / "published_decoders.json").read_text())


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_size_of_published_models(name: str, tmp_path: Path) -> None:
    """Their settings are understood, and the tensors that are asked for hold as many numbers as is known of them."""
    config = Config(tmp_path / "config.json", PUBLISHED[name]["config"])
    family = next(family for family in DECODERS if family.model_type == config.raw("model_type"))
    read_block(config)
    settings = family.settings(config)
    sizes = {name: row.shape(settings) for row in family.rows(settings, ()) for name in row.names(settings)}
    assert sum(math.prod(shape) for shape in sizes.values()) == PUBLISHED[name]["parameters"]


# planted faults: each must show


def rotate_otherwise(model: Decoder) -> None:
    for layer in model.layers:
        layer.attention.rotary = replace(layer.attention.rotary, layout="interleaved")


def rotate_later(model: Decoder) -> None:
    for layer in model.layers:
        layer.attention.rotary = replace(layer.attention.rotary, base=layer.attention.rotary.base * 2)


def forget_scaling(model: Decoder) -> None:
    for layer in model.layers:
        layer.attention.rotary = replace(layer.attention.rotary, scaling=None)


def turn_all(model: Decoder) -> None:
    for layer in model.layers:
        layer.attention.rotary = replace(model.layers[0].attention.rotary, rotary_dim=None)


def shift_window(by: int) -> Callable[[Decoder], None]:
    def shift(model: Decoder) -> None:
        for layer in model.layers:
            if "window" in layer.attention.rules:
                layer.attention.rules["window"] += by

    return shift


def slide_everywhere(model: Decoder) -> None:
    for layer in model.layers:
        layer.attention.rules["window"] = 5


def take_out(rule: str) -> Callable[[Decoder], None]:
    return lambda model: [layer.attention.rules.pop(rule) for layer in model.layers]  # type: ignore[return-value]


def drop(*fields: str) -> Callable[[Decoder], None]:
    def dropped(model: Decoder) -> None:
        part: Any = model.layers[1]
        for name in fields[:-1]:
            part = getattr(part, name)
        setattr(part, fields[-1], None)

    return dropped


def plain_alibi(model: Decoder) -> None:
    for layer in model.layers:
        layer.attention.rules["bias"] = biases.alibi(model.settings.n_heads)


def rotate_halves(model: Decoder) -> None:
    for layer in model.layers:
        layer.attention.rotary = replace(layer.attention.rotary, layout="half")


def forget_magnitude(model: Decoder) -> None:
    for layer in model.layers:
        layer.attention.rules["scale"] = (model.settings.d_k + model.settings.d_rope) ** -0.5


def halve_the_unfolding(model: Decoder) -> None:
    """As if all keys stood before all values, not each head's before its own."""
    attention = model.layers[1].attention
    n_heads, n_keys, d_latent = attention.n_heads, attention.W_UK.shape[1], attention.W_UK.shape[0]
    parts = (W.reshape(d_latent, n_heads, -1) for W in (attention.W_UK, attention.W_UV))
    joined = np.concatenate(list(parts), axis=-1).reshape(d_latent, -1)
    attention.W_UK, attention.W_UV = joined[:, :n_keys], joined[:, n_keys:]


def drop_last_norm(model: Decoder) -> None:
    model.norm = None


def swap_heads(model: Decoder) -> None:
    attention = model.layers[1].attention
    d_k = attention.W_Q.shape[1] // attention.n_heads
    attention.W_Q = np.roll(attention.W_Q, d_k, axis=1)


def tile_heads(model: Decoder) -> None:
    """Query heads in the order 0, 2, 1, 3: as if keys were tiled, not repeated."""
    attention = model.layers[1].attention
    heads = attention.W_Q.reshape(len(attention.W_Q), 2, -1, attention.W_Q.shape[1] // attention.n_heads)
    attention.W_Q = heads.swapaxes(1, 2).reshape(attention.W_Q.shape)


def tie(model: Decoder) -> None:
    model.head.W = model.embeddings.W_word.T


def in_sequence(model: Decoder) -> None:
    model.layers[1].parallel = False


def other_gelu(model: Decoder) -> None:
    for layer in model.layers:
        layer.feed_forward.activation = "gelu" if layer.feed_forward.activation == "gelu_tanh" else "gelu_tanh"


def other_norm_eps(model: Decoder) -> None:
    for layer in model.layers:
        layer.norm_1.eps = 1e-2


def not_centred(model: Decoder) -> None:
    model.embeddings.norm = LayerNorm(model.embeddings.norm.gamma, None)


def turn(**changes: Any) -> Callable[[Decoder], None]:
    def turned(model: Decoder) -> None:
        for layer in model.layers:
            scaling = replace(layer.attention.rotary.scaling, **changes)
            layer.attention.rotary = replace(layer.attention.rotary, scaling=scaling)

    return turned


def experts(change: Callable[[Experts], None]) -> Callable[[Decoder], None]:
    def changed(model: Decoder) -> None:
        for layer in model.layers:
            if isinstance(layer.feed_forward, Experts):
                change(layer.feed_forward)

    return changed


def route(**changes: Any) -> Callable[[Decoder], None]:
    return experts(lambda part: setattr(part, "routing", replace(part.routing, **changes)))


def of_experts(field: str, value: Any = None) -> Callable[[Decoder], None]:
    return experts(lambda part: setattr(part, field, value))


def shift_experts(part: Experts) -> None:
    part.W_down = np.roll(part.W_down, 1, axis=0)


def swap_gate(part: Experts) -> None:
    part.W_gate, part.W_up = part.W_up, part.W_gate


FAULTS = [
    ("llama", rotate_otherwise), ("llama", rotate_later), ("llama", forget_scaling), ("llama", swap_heads),
    ("llama", tile_heads), ("llama", tie), ("llama", drop_last_norm), ("llama", drop("norm_1")),
    ("llama", drop("feed_forward", "b_down")), ("llama", drop("attention", "b_O")),
    ("mistral", shift_window(1)), ("mistral", shift_window(-1)), ("mistral", take_out("window")),
    ("qwen2", slide_everywhere), ("qwen2", drop("attention", "b_K")),
    ("qwen3", shift_window(1)), ("qwen3", drop("attention", "q_norm")), ("qwen3", drop("attention", "k_norm")),
    ("gemma2", shift_window(1)), ("gemma2", take_out("softcap")), ("gemma2", take_out("scale")),
    ("gemma2", drop("norm_1_out")), ("gemma2", drop("norm_2_out")),
    ("gemma2", lambda model: setattr(model.head, "softcap", None)),
    ("gemma2", lambda model: setattr(model.embeddings, "scale", None)),
    ("gemma3", forget_scaling), ("gemma3", shift_window(-1)), ("gemma3", drop("attention", "k_norm")),
    ("gpt_neox", turn_all), ("gpt_neox", in_sequence), ("gpt_neox", other_norm_eps),
    ("falcon", in_sequence), ("falcon", tile_heads),
    ("gemma", drop("norm_1")), ("gemma", lambda model: setattr(model.embeddings, "scale", None)),
    ("falcon_alibi", take_out("bias")), ("falcon_alibi", plain_alibi),
    ("bloom", take_out("bias")), ("bloom", not_centred),
    ("opt", lambda model: setattr(model.embeddings, "W_position", np.roll(model.embeddings.W_position, 1, axis=0))),
    ("phi3", forget_scaling), ("phi3", shift_window(1)),
    ("olmo2", drop("attention", "q_norm")), ("olmo2", drop("norm_2_out")),
    ("smollm3", lambda model: setattr(model.layers[3].attention, "rotary", model.layers[0].attention.rotary)),
    ("gpt2", swap_heads), ("gpt2", drop("attention", "b_Q")),
    *((family, fault) for family in ("deepseek_v2", "deepseek_v3") for fault in (
        rotate_halves, forget_scaling, forget_magnitude, drop("attention", "latent_norm"), swap_heads,
        halve_the_unfolding, route(n_groups=1, n_active_groups=1), route(scaling=1.0), drop("feed_forward", "shared"))),
    ("deepseek_v2", drop("attention", "b_DKV")), ("deepseek_v2", drop("attention", "b_KR")),
    ("deepseek_v2", drop("attention", "b_O")), ("deepseek_v2", route(normalize=True)),
    ("deepseek_v3", drop("attention", "q_norm")), ("deepseek_v3", drop("feed_forward", "correction")),
    ("deepseek_v3", route(normalize=False)), ("deepseek_v3", route(group_score="best")),
    ("mixtral", route(n_active=1)), ("mixtral", route(n_active=3)), ("mixtral", route(among_chosen=False)),
    ("mixtral", experts(shift_experts)), ("mixtral", experts(swap_gate)), ("mixtral", tile_heads),
    ("qwen2_moe", route(normalize=True)), ("qwen2_moe", route(scaling=1.1)), ("qwen2_moe", of_experts("shared")),
    ("qwen2_moe", of_experts("W_shared_gate")), ("qwen2_moe", drop("attention", "b_V")),
    ("qwen3_moe", route(normalize=False)), ("qwen3_moe", route(score="sigmoid")),
    ("qwen3_moe", drop("attention", "q_norm")),
    *[("gpt_oss", of_experts(name)) for name in ("b_gate", "b_up", "b_down", "b_router")],
    ("gpt_oss", of_experts("activation", "silu")), ("gpt_oss", of_experts("activation", ClampedSwiGLU(1.702, 7.0))),
    ("gpt_oss", of_experts("activation", ClampedSwiGLU(1.0, 0.5))), ("gpt_oss", take_out("sinks")),
    ("gpt_oss", shift_window(1)), ("gpt_oss", forget_scaling), ("gpt_oss", turn(truncate=True)),
]  # fmt: skip


@pytest.mark.parametrize(("family", "fault"), FAULTS)
def test_a_planted_fault_shows(family: str, fault: Callable[[Decoder], None]) -> None:
    model, arrays = load(tiny(family).directory), known(family)
    fault(model)
    assert np.abs(model.logits(arrays["23.ids"]) - arrays["23.logits"]).max() > WRONG


@pytest.mark.parametrize("family", ["gpt2", "bloom", "gemma", "gemma2"])
def test_the_form_of_gelu_shows(family: str) -> None:
    """The two forms differ little, but by more than the tolerance of other tests' rounding."""
    model, arrays = load(tiny(family).directory), known(family)
    other_gelu(model)
    assert np.abs(model.logits(arrays["23.ids"]) - arrays["23.logits"]).max() > 1e-4


# the forms of files


def flat(copy: Copy) -> None:
    """Settings as transformers 4 writes them."""
    rope = copy.settings()["rope_parameters"]
    scaling = {name: value for name, value in rope.items() if name not in ("rope_theta", "partial_rotary_factor")}
    copy.config(
        rope_parameters=..., dtype=..., torch_dtype="float16", rope_theta=rope["rope_theta"], layer_types=...,
        rope_scaling=None if scaling["rope_type"] == "default" else scaling,
        **({"partial_rotary_factor": rope["partial_rotary_factor"]} if "partial_rotary_factor" in rope else {}),
    )  # fmt: skip


@pytest.mark.parametrize(
    "family", ["llama", "mistral", "qwen2", "qwen3", "gemma2", "falcon", "phi3", "olmo2", "smollm3"]
)
def test_flat_settings(family: str, tmp_path: Path) -> None:
    copy = Copy(tmp_path, family)
    flat(copy)
    assert copy.difference() < CLOSE["atol"]


def test_a_window_that_is_named_but_not_used(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "qwen2")
    copy.config(layer_types=..., sliding_window=5, max_window_layers=0)
    assert copy.difference() < CLOSE["atol"]
    copy.config(use_sliding_window=True)
    assert copy.difference() > WRONG


def test_what_the_file_does_not_say(tmp_path: Path) -> None:
    smol, neox = Copy(tmp_path, "smollm3"), Copy(tmp_path, "gpt_neox")
    smol.config(no_rope_layers=..., layer_types=...)
    assert smol.difference() < CLOSE["atol"]
    neox.config(rope_parameters=...)
    assert neox.load().layers[0].attention.rotary == Rotary(10000.0, rotary_dim=2)  # a quarter of 8


def test_the_gelu_of_gemma_is_the_tanh_form_unless_its_newer_name_says_else(tmp_path: Path) -> None:
    copy, apart = Copy(tmp_path, "gemma"), []
    for form, newer in (("gelu", ...), ("gelu", None), ("relu", "gelu_pytorch_tanh"), ("gelu_pytorch_tanh", "gelu")):
        copy.config(hidden_act=form, hidden_activation=newer)
        apart.append(copy.difference() < CLOSE["atol"])
    assert apart == [True, True, True, False]


def test_older_names_of_settings(tmp_path: Path) -> None:
    neox, gemma, llama, phi = (Copy(tmp_path, family) for family in ("gpt_neox", "gemma3", "llama", "phi3"))
    neox.config(rope_parameters=..., rotary_emb_base=500, rotary_pct=0.5)
    gemma.config(
        rope_parameters=..., rope_theta=5000.0, rope_local_base_freq=100.0, layer_types=..., sliding_window_pattern=2,
        rope_scaling={"type": "linear", "factor": 3.0}, torch_dtype="float16",
    )  # fmt: skip
    scaling = llama.settings()["rope_parameters"]
    llama.config(rope_parameters=..., rope_theta=scaling.pop("rope_theta"), rope_scaling=scaling)
    rope = phi.settings()["rope_parameters"]
    factors = {name: rope[name] for name in ("short_factor", "long_factor")}
    phi.config(rope_parameters=..., rope_theta=500.0, rope_scaling={"type": "su", **factors})
    assert [copy.difference() < CLOSE["atol"] for copy in (neox, gemma, llama, phi)] == [True] * 4


@pytest.mark.parametrize("family", ["gpt2", "llama", "gpt_neox", "opt", "bloom", "falcon"])
def test_names_without_the_prefix(family: str, tmp_path: Path) -> None:
    copy = Copy(tmp_path, family)
    prefixes = ("model.", "transformer.", "gpt_neox.", "decoder.")
    bare = {}
    for name, value in copy.tensors().items():
        for prefix in prefixes:
            name = name.removeprefix(prefix)
        bare[name] = value
    copy.write(bare)
    assert copy.difference() < CLOSE["atol"]


def base(copy: Copy, **changes: Any) -> None:
    """The inner model alone, as transformers saves it: no prefix, no head, and an architecture that says so."""
    (name,) = copy.settings()["architectures"]
    prefixes = ("model.", "transformer.", "gpt_neox.")
    tensors = {n: value for n, value in copy.tensors().items() if n not in ("lm_head.weight", "embed_out.weight")}
    copy.write({n.removeprefix(next((p for p in prefixes if n.startswith(p)), "")): v for n, v in tensors.items()})
    inner = re.sub("LMHeadModel|ForCausalLM", "TextModel" if copy.family == "gemma3" else "Model", name)
    copy.config(architectures=[inner], **changes)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_without_a_head_gives_hidden_states(family: str, tmp_path: Path) -> None:
    copy, ids = Copy(tmp_path, family), known(family)["7.ids"]
    base(copy, tie_word_embeddings=False)
    model = copy.load()
    np.testing.assert_array_equal(model(ids), tiny(family)(ids))
    for ask in (model.logits, model.generate, model.stream):
        with pytest.raises(ArgumentError, match="came without a head: it gives hidden states, but no logits"):
            ask(ids)


def test_a_model_without_a_head_that_says_its_table_is_one(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "qwen2")
    base(copy)
    assert copy.difference() < CLOSE["atol"]


def test_a_missing_head_is_missed_where_the_architecture_has_one(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "llama")
    base(copy)
    copy.config(architectures=["LlamaForCausalLM"])
    with pytest.raises(FileError, match=r"has no tensor lm_head\.weight"):
        copy.load()


@pytest.mark.parametrize(
    ("family", "name"),
    [("gpt2", "transformer.h.1.attn.bias"), ("gpt2", "h.0.attn.masked_bias"),
     ("llama", "model.layers.2.self_attn.rotary_emb.inv_freq"), ("gpt_neox", "layers.0.attention.masked_bias")],
)  # fmt: skip
def test_buffers_are_passed_over(family: str, name: str, tmp_path: Path) -> None:
    copy = Copy(tmp_path, family)
    copy.write(copy.tensors() | {name: np.zeros(3, np.float32)})
    assert copy.difference() < CLOSE["atol"]


def test_a_head_in_the_file_is_used_and_a_missing_one_is_the_table(tmp_path: Path) -> None:
    tied, own = Copy(tmp_path, "qwen2"), Copy(tmp_path, "llama")
    table = tied.tensors()["model.embed_tokens.weight"]
    tied.write(tied.tensors() | {"lm_head.weight": table})
    assert tied.difference() < CLOSE["atol"]
    tied.write(tied.tensors() | {"lm_head.weight": -table})
    assert tied.difference() > WRONG
    own.write({name: value for name, value in own.tensors().items() if name != "lm_head.weight"})
    with pytest.raises(FileError, match=r"has no tensor lm_head\.weight"):
        own.load()


@pytest.mark.parametrize("n_parts", [1, 3])
def test_parts_and_their_index(n_parts: int, tmp_path: Path) -> None:
    copy = Copy(tmp_path, "llama")
    copy.write_parts(n_parts)
    assert copy.difference() < CLOSE["atol"]


def test_a_tensor_in_two_parts_is_refused(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "llama")
    name = "model.norm.weight"
    copy.write_parts(2)
    index = json.loads((copy.directory / "model.safetensors.index.json").read_text())["weight_map"]
    for part in set(index.values()):
        copy.write(load_file(copy.directory / part) | {name: np.ones(20, np.float32)}, part)
    with pytest.raises(FileError, match=rf"has tensors that no part of the model uses: {name}"):
        copy.load()


def test_layers_that_predict_further_tokens_are_left_out(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "deepseek_v3")
    further = {"model.layers.3.eh_proj.weight": np.ones((3, 5)), "model.layers.3.self_attn.o_proj.weight": np.ones(7)}
    copy.write(copy.tensors() | further)
    assert copy.difference() < CLOSE["atol"]
    copy.config(num_nextn_predict_layers=0)
    with pytest.raises(FileError, match=r"no part of the model uses: model\.layers\.3\.eh_proj\.weight, model"):
        copy.load()


def test_which_layers_have_experts(tmp_path: Path) -> None:
    """The third alone, where each second has them: another layer's experts are then left over."""
    copy = Copy(tmp_path, "deepseek_v2")
    copy.config(moe_layer_freq=2)
    with pytest.raises(FileError, match=r"has no tensor layers\.1\.mlp\.gate_proj\.weight"):
        copy.load()
    dense = {f"model.layers.1.mlp.{name}_proj.weight": np.ones((23, 20), np.float16) for name in ("gate", "up")}
    dense["model.layers.1.mlp.down_proj.weight"] = np.ones((20, 23), np.float16)
    kept = {name: value for name, value in copy.tensors().items() if "layers.1.mlp" not in name}
    copy.write(kept | dense)
    assert [hasattr(layer.feed_forward, "routing") for layer in copy.load().layers] == [False, False, True]


@pytest.mark.parametrize("top_k", [1, 3])
def test_shares_of_version_2_are_normed_or_scaled_never_both(top_k: int, tmp_path: Path) -> None:
    copy = Copy(tmp_path, "deepseek_v2")
    copy.config(norm_topk_prob=True, num_experts_per_tok=top_k)
    routing = copy.load().settings.routing
    assert (routing.normalize, routing.scaling) == ((True, 1.0) if top_k > 1 else (False, 1.7))


# refusals


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ({}, "has no 'weight_map'"),
        ({"a": "../model.safetensors"}, "'weight_map' must be names of safetensors files beside it"),
        ({"a": "/etc/passwd"}, "'weight_map' must be names"),
        ({"a": "model.bin"}, "'weight_map' must be names"),
        ({"a": 7}, "'weight_map' must be names"),
        ({"a": "absent.safetensors"}, "no such file"),
        ({"lm_head.weight": "part.safetensors"}, "has tensors that no part of the model uses: lm_head.bias"),
        ({"lm_head.weight": "part.safetensors", "lm_head.bias": "part.safetensors", "x": "part.safetensors"},
         "has no tensor x"),
    ],
)  # fmt: skip
def test_a_wrong_index_is_one_line(index: dict[str, Any], message: str, tmp_path: Path) -> None:
    copy = Copy(tmp_path, "llama")
    copy.write({"lm_head.weight": np.ones((2, 3)), "lm_head.bias": np.ones(2)}, "part.safetensors")
    (copy.directory / "model.safetensors").unlink()
    copy.write_index(index)
    with pytest.raises(FileError, match=message) as caught:
        copy.load()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("family", "changes", "message"),
    [
        ("llama", {"rope_parameters": {"rope_type": "other", "rope_theta": 1.0}}, "must be of a type among"),
        ("llama", {"rope_parameters": {"rope_type": "linear"}}, "has no 'factor'"),
        ("llama", {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "beta_fast": 3}}, "'beta_fast' is not a"),
        ("llama", {"rope_parameters": {"rope_theta": 0}}, "'rope_theta' must be a number from 0.001"),
        ("llama", {"rope_parameters": [1]}, "'rope_parameters' must be an object"),
        ("llama", {"rope_interleaved": True}, "'rope_interleaved' must be False"),
        ("llama", {"num_key_value_heads": 3}, "'num_attention_heads' must be a multiple of num_key_value_heads=3"),
        ("llama", {"head_dim": None, "hidden_size": 21}, "'hidden_size' must be a multiple of the 4 heads"),
        ("llama", {"hidden_act": "mish"}, "'hidden_act' must be one of gelu"),
        ("llama", {"quantization_config": {}}, "'quantization_config' is not a setting"),
        ("llama", {"quantization_config": {"quant_method": "gptq", "bits": 4}}, "'quantization_config' is not a"),
        ("llama", {"quantization_config": FP8 | {"weight_block_size": None}}, "must be fp8 of the form e4m3, with"),
        ("llama", {"quantization_config": FP8 | {"weight_block_size": [0, 1]}}, "must be fp8 of the form e4m3, with"),
        ("llama", {"quantization_config": FP8 | {"fmt": "e5m2"}}, "must be fp8 of the form e4m3, with"),
        ("llama", {"quantization_config": FP8 | {"group": 1}}, "'group' is not a setting that is understood"),
        ("llama", {"num_hidden_layers": 10**12}, "'num_hidden_layers' must be an integer"),
        ("llama", {"sliding_window": 3}, "'sliding_window' is not a setting"),
        ("llama", {"architectures": ["LlamaForTokenClassification"]}, "asks for architecture 'LlamaForTokenClass"),
        ("llama", {"model_type": "mamba", "architectures": ["MambaForCausalLM"]}, "'mamba'; known are: bert"),
        ("llama", {"eos_token_id": "x"}, "'eos_token_id' must be a token id"),
        ("mistral", {"sliding_window": 0}, "'sliding_window' must be an integer from 1"),
        ("qwen2", {"layer_types": ["sliding_attention"] * 3}, "'sliding_window' must be an integer, for"),
        ("qwen3", {"layer_types": ["full_attention"] * 2}, "'layer_types' must be 3 times"),
        ("gemma3", {"use_bidirectional_attention": True}, "'use_bidirectional_attention' must be false"),
        ("gpt_neox", {"rope_parameters": {"rope_theta": 9.0, "partial_rotary_factor": 0.4}}, "turning an even part"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "'scale_attn_by_inverse_layer_idx' must be False"),
        ("opt", {"word_embed_proj_dim": 10}, "'word_embed_proj_dim' must be 20"),
        ("bloom", {"apply_residual_connection_post_layernorm": True}, "must be False"),
        ("falcon", {"alibi": 1}, "'alibi' must be true or false"),
        ("gemma", {"use_bidirectional_attention": True}, "'use_bidirectional_attention' must be false"),
        ("deepseek_v2", {"topk_method": "noaux_tc"}, "'topk_method' must be one of greedy, group_limited_greedy"),
        ("deepseek_v2", {"scoring_func": "sigmoid"}, "'scoring_func' must be 'softmax'"),
        ("deepseek_v2", {"num_key_value_heads": 1}, "'num_key_value_heads' must be 5"),
        ("deepseek_v3", {"n_group": 2}, "'n_group' must be a divisor of n_routed_experts=9"),
        ("deepseek_v3", {"n_group": 9}, "'n_group' must be at most 4"),
        ("deepseek_v3", {"topk_group": 4}, "'topk_group' must be an integer from 1 to 3"),
        ("deepseek_v3", {"num_experts_per_tok": 7}, "'num_experts_per_tok' must be an integer from 1 to 6"),
        ("deepseek_v3", {"qk_rope_head_dim": 6}, "'head_dim' must be 6"),
        ("phi3", {"rope_parameters": {"rope_type": "longrope", "short_factor": [1], "long_factor": ""}}, "a list of p"),
        ("smollm3", {"no_rope_layers": [1, 2, 1, 1, 1]}, "'no_rope_layers' must be 5 times 1"),
    ],
)  # fmt: skip
def test_a_setting_that_is_not_understood_is_refused(
    family: str, changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    copy = Copy(tmp_path, family)
    copy.config(**changes)
    with pytest.raises(FileError, match=message) as caught:
        copy.load()
    assert "\n" not in str(caught.value)
    assert "config.json" in str(caught.value)


def test_a_missing_and_a_misshapen_part_of_a_joined_tensor(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "phi3")
    tensors = copy.tensors()
    name = "model.layers.1.self_attn.qkv_proj.weight"
    copy.write({**tensors, name: tensors[name][:-1]})
    with pytest.raises(FileError, match=r"qkv_proj\.weight' must have shape \(28, 20\), but its shape is \(27, 20\)"):
        copy.load()
    copy.write({n: value for n, value in tensors.items() if n != name})
    with pytest.raises(FileError, match=rf"has no tensor {name.removeprefix('model.')}"):
        copy.load()
