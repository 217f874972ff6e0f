"""SmolLM3 (Hugging Face, 2025): Llama in which every fourth layer knows no positions."""

from __future__ import annotations

from dataclasses import replace

from ..config import Config
from ..weights import MAX_LAYERS, Family
from .decoder_rows import llama_rows, without_model
from .decoders import UNREAD, DecoderSettings, architectures_of, layer_types, llama_settings, windows


def settings(config: Config) -> DecoderSettings:
    n_layers = config.integer("num_hidden_layers", high=MAX_LAYERS)
    interval = config.integer("no_rope_layer_interval", default=4)
    turning = config.raw("no_rope_layers", None) or [int((layer + 1) % interval != 0) for layer in range(n_layers)]
    if not isinstance(turning, list) or len(turning) != n_layers or any(n not in (0, 1) for n in turning):
        raise config.wrong("no_rope_layers", f"{n_layers} times 1 (turns) or 0")
    size = config.optional("sliding_window") if config.flag("use_sliding_window", default=False) else None
    sliding = layer_types(config, n_layers, lambda layer: size is not None and not turning[layer])
    bias, ff_bias = (config.flag(name, default=False) for name in ("attention_bias", "mlp_bias"))
    read = llama_settings(
        config, windows=windows(config, sliding, size), qkv_bias=bias, o_bias=bias, ff_bias=ff_bias,
        tied=config.flag("tie_word_embeddings", default=True),
    )  # fmt: skip
    config.finish(harmless=UNREAD | {"max_window_layers", "sliding_window"})
    return replace(read, rotary=tuple(rotary if turns else None for rotary, turns in zip(read.rotary, turning)))


SMOLLM3 = Family("smollm3", architectures_of("SmolLM3"), settings, llama_rows, without_model)
