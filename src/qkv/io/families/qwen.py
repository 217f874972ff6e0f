"""Qwen2 (arXiv 2407.10671): Llama with biases on q, k and v. Qwen3 (arXiv 2505.09388): a norm on each head instead."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..config import Config
from ..weights import MAX_LAYERS, Family, Row
from .decoder_rows import llama_rows, without_model
from .decoders import UNREAD, DecoderSettings, architectures_of, layer_types, llama_settings, windows


def qwen2_settings(config: Config) -> DecoderSettings:
    config.must_be(use_mrope=False)
    read = llama_settings(config, windows=qwen_windows(config), qkv_bias=True)
    config.finish(harmless=UNREAD)
    return read


def qwen3_settings(config: Config) -> DecoderSettings:
    bias = config.flag("attention_bias", default=False)
    d_k = config.optional("head_dim", 128)
    read = llama_settings(config, windows=qwen_windows(config), qkv_bias=bias, o_bias=bias, d_k=d_k)
    config.finish(harmless=UNREAD)
    return read


def qwen_windows(config: Config) -> tuple[int | None, ...]:
    """A `sliding_window` stands in most of these files, and means nothing unless `use_sliding_window` says so."""
    n_layers = config.integer("num_hidden_layers", high=MAX_LAYERS)
    size, first = config.optional("sliding_window"), config.integer("max_window_layers", low=0, default=28)
    used = size if config.flag("use_sliding_window", default=False) else None
    return windows(config, layer_types(config, n_layers, lambda layer: used is not None and layer >= first), used)


def qwen3_rows(settings: DecoderSettings, names: Collection[str]) -> Iterator[Row]:
    yield from llama_rows(settings, names)
    yield from head_norms(settings)


def head_norms(settings: DecoderSettings) -> Iterator[Row]:
    """A norm of each query's and each key's head, in every layer."""
    for i in range(settings.n_layers):
        for letter in "qk":
            norm = f"layers.{i}.self_attn.{letter}_norm.weight"
            yield Row(f"layers.{i}.attention.{letter}_norm.gamma", norm, "d_k")


QWEN2 = Family("qwen2", architectures_of("Qwen2"), qwen2_settings, llama_rows, without_model)
QWEN3 = Family("qwen3", architectures_of("Qwen3"), qwen3_settings, qwen3_rows, without_model)
