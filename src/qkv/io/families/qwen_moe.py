"""Qwen2-MoE and Qwen3-MoE (arXiv 2407.10671, section 2.2.2; 2505.09388): small experts, in all layers or in some."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..config import Config
from ..weights import MAX_LAYERS, Family, Row
from .decoder_rows import llama_feed_forward, llama_rows, without_model
from .decoders import UNREAD, DecoderSettings, architectures_of, layer_types, llama_settings, windows
from .experts import UNREAD_OF_EXPERTS, expert_rows, expert_settings, shared_rows
from .qwen import head_norms


def qwen2_moe_settings(config: Config) -> DecoderSettings:
    config.must_be(use_mrope=False)
    normalize = config.flag("norm_topk_prob", default=False)
    experts = expert_settings(config, "moe_intermediate_size", normalize=normalize)
    d_shared, bias = config.integer("shared_expert_intermediate_size"), config.flag("qkv_bias", default=True)
    read = llama_settings(
        config, windows=_qwen2_windows(config), qkv_bias=bias, d_shared=d_shared,
        expert_layers=_expert_layers(config), **experts,
    )  # fmt: skip
    config.finish(harmless=UNREAD | UNREAD_OF_EXPERTS)
    return read


def qwen3_moe_settings(config: Config) -> DecoderSettings:
    normalize = config.flag("norm_topk_prob", default=False)
    experts = expert_settings(config, "moe_intermediate_size", normalize=normalize)
    n_layers = config.integer("num_hidden_layers", high=MAX_LAYERS)
    used = _used_window(config)
    bias = config.flag("attention_bias", default=False)
    read = llama_settings(
        config, windows=(used,) * n_layers, qkv_bias=bias, o_bias=bias, expert_layers=_expert_layers(config), **experts
    )
    config.finish(harmless=UNREAD | UNREAD_OF_EXPERTS | {"max_window_layers"})
    return read


def _used_window(config: Config) -> int | None:
    """A `sliding_window` may stand in a file, even as 0, and means nothing unless `use_sliding_window` says so."""
    size, is_used = config.raw("sliding_window", None), config.flag("use_sliding_window", default=False)
    return config.integer("sliding_window") if size and is_used else None


def _qwen2_windows(config: Config) -> tuple[int | None, ...]:
    """Every other layer slides, of the first `max_window_layers`, unless `layer_types` says otherwise."""
    used, n_layers = _used_window(config), config.integer("num_hidden_layers", high=MAX_LAYERS)
    first = config.integer("max_window_layers", low=0, default=28)
    types = layer_types(config, n_layers, lambda layer: used is not None and layer % 2 == 0 and layer < first)
    return windows(config, types, used)


def _expert_layers(config: Config) -> tuple[bool, ...]:
    """Every `decoder_sparse_step`-th layer has experts, but for those that are named."""
    n_layers = config.integer("num_hidden_layers", high=MAX_LAYERS)
    step = config.integer("decoder_sparse_step", default=1)
    without = config.raw("mlp_only_layers", None) or []
    if not isinstance(without, list) or not all(isinstance(layer, int) for layer in without):
        raise config.wrong("mlp_only_layers", "a list of layers")
    return tuple((layer + 1) % step == 0 and layer not in without for layer in range(n_layers))


def qwen2_moe_rows(settings: DecoderSettings, names: Collection[str]) -> Iterator[Row]:
    def feed_forward(layer: int) -> Iterator[Row]:
        ours, foreign = f"layers.{layer}.feed_forward", f"layers.{layer}.mlp"
        if not settings.expert_layers[layer]:
            yield from llama_feed_forward(settings, f"layers.{layer}", f"layers.{layer}")
            return
        yield from expert_rows(settings, ours, foreign, names)
        if settings.d_shared:
            yield from shared_rows(f"{ours}.shared", f"{foreign}.shared_expert")
            yield Row(f"{ours}.W_shared_gate", f"{foreign}.shared_expert_gate.weight", "1 d_model", transposed=True)

    yield from llama_rows(settings, names, feed_forward=feed_forward)


def qwen3_moe_rows(settings: DecoderSettings, names: Collection[str]) -> Iterator[Row]:
    yield from qwen2_moe_rows(settings, names)
    yield from head_norms(settings)


QWEN2_MOE = Family("qwen2_moe", architectures_of("Qwen2Moe"), qwen2_moe_settings, qwen2_moe_rows, without_model)
QWEN3_MOE = Family("qwen3_moe", architectures_of("Qwen3Moe"), qwen3_moe_settings, qwen3_moe_rows, without_model)
