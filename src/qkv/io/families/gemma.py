"""Gemma (arXiv 2403.08295), Gemma 2 (arXiv 2408.00118) and Gemma 3 (arXiv 2503.19786), of it only the text model."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from ...layers import Rotary
from ..config import ACTIVATIONS, Config
from ..weights import MAX_LAYERS, Family, Row
from .decoder_rows import head, llama_layer, llama_rows, norm, without_model
from .decoders import FULL, SLIDING, UNREAD, DecoderSettings, architectures_of, layer_types, llama_settings, windows
from .rope import longest, read_rotary, rope_values

# Where the file says nothing, as transformers has it.
D_K = 256


def gemma_settings(config: Config) -> DecoderSettings:
    """The first files say "gelu" under the older name and mean the tanh form; the newer name counts, if it has one."""
    newer = config.raw("hidden_activation", None) is not None
    form = config.choice("hidden_activation" if newer else "hidden_act", ACTIVATIONS, default="gelu_pytorch_tanh")
    activation = "gelu_tanh" if form == "gelu" and not newer else form
    read = llama_settings(config, activation=activation, **_gemma(config))
    config.finish(harmless=UNREAD | {"hidden_act"})
    return read


def gemma2_settings(config: Config) -> DecoderSettings:
    sliding = layer_types(config, config.integer("num_hidden_layers", high=MAX_LAYERS), lambda layer: layer % 2 == 0)
    softcaps = {"softcap": _softcap(config, "attn_logit", 50.0), "final_softcap": _softcap(config, "final_logit", 30.0)}
    return _settings(config, sliding, **softcaps)


def gemma3_settings(config: Config) -> DecoderSettings:
    n_layers, d_k = config.integer("num_hidden_layers", high=MAX_LAYERS), config.optional("head_dim", D_K) or D_K
    pattern = config.optional("sliding_window_pattern") or config.optional("_sliding_window_pattern", 6) or 6
    sliding = layer_types(config, n_layers, lambda layer: (layer + 1) % pattern != 0)
    n_positions = config.integer("max_position_embeddings", default=131072)
    near, far = _rotaries(config, d_k, n_positions)
    softcaps = {"softcap": _softcap(config, "attn_logit", None), "final_softcap": _softcap(config, "final_logit", None)}
    rotary = tuple(near if slides else far for slides in sliding)
    return _settings(config, sliding, rotary=rotary, n_positions=longest(n_positions, near, far), **softcaps)


def _gemma(config: Config) -> dict[str, Any]:
    """What all of them have in common."""
    if config.raw("use_bidirectional_attention", None):
        raise config.wrong("use_bidirectional_attention", "false")
    bias = config.flag("attention_bias", default=False)
    return {
        "d_k": config.optional("head_dim", D_K),
        "embedding_scale": config.integer("hidden_size") ** 0.5,
        "tied": config.flag("tie_word_embeddings", default=True),
        "qkv_bias": bias,
        "o_bias": bias,
    }


def _settings(config: Config, sliding: tuple[bool, ...], **known: Any) -> DecoderSettings:
    read = llama_settings(
        config,
        activation=config.choice("hidden_activation", ACTIVATIONS, default="gelu_pytorch_tanh"),
        scale=config.number("query_pre_attn_scalar", 1e-6, 1e9, default=256) ** -0.5,
        windows=windows(config, sliding, config.optional("sliding_window", 4096)),
        **_gemma(config), **known,
    )  # fmt: skip
    config.finish(harmless=UNREAD | {"hidden_act"})
    return read


def _softcap(config: Config, name: str, default: float | None) -> float | None:
    name = f"{name}_softcapping"
    if name in config.values and config.raw(name) is None:
        return None
    return default if config.raw(name, None) is None else config.number(name, 1e-6, 1e9)


def _rotaries(config: Config, d_k: int, n_positions: int) -> tuple[Rotary, Rotary]:
    """The rotation of layers that slide, and of those that see everything: a dict of two, or flat settings."""
    local = config.number("rope_local_base_freq", 1e-3, 1e12, default=10000.0)
    place, values = rope_values(config)
    if FULL in values or SLIDING in values:
        near, far = ((values.get(kind) or {}) for kind in (SLIDING, FULL))
        if not isinstance(near, dict) or not isinstance(far, dict):
            raise config.wrong(place, "an object")
    else:
        near, far = {}, values
    return (
        read_rotary(config, place, near, d_k, n_positions, theta=local),
        read_rotary(config, place, far, d_k, n_positions, theta=1000000.0),
    )


def gemma_rows(settings: DecoderSettings, names: Collection[str]) -> Iterator[Row]:
    return llama_rows(settings, names, plus=1.0)


def gemma2_rows(settings: DecoderSettings, names: Collection[str]) -> Iterator[Row]:
    """A norm before and one after each part; every norm is stored as what it differs from 1."""
    yield Row("embeddings.W_word", "embed_tokens.weight", "vocab_size d_model")
    for i in range(settings.n_layers):
        ours, foreign = f"layers.{i}", f"layers.{i}"
        yield from llama_layer(settings, ours, foreign)
        for place, name in (
            ("norm_1", "input"), ("norm_1_out", "post_attention"),
            ("norm_2", "pre_feedforward"), ("norm_2_out", "post_feedforward"),
        ):  # fmt: skip
            yield from norm(settings, f"{ours}.{place}", f"{foreign}.{name}_layernorm", plus=1.0)
    yield from norm(settings, "norm", "norm", plus=1.0)
    yield from head(settings, names)


def gemma3_rows(settings: DecoderSettings, names: Collection[str]) -> Iterator[Row]:
    yield from gemma2_rows(settings, names)
    for i in range(settings.n_layers):
        for letter in "qk":
            ours, foreign = f"layers.{i}.attention.{letter}_norm", f"layers.{i}.self_attn.{letter}_norm"
            yield from norm(settings, ours, foreign, axis="d_k", plus=1.0)


GEMMA = Family("gemma", architectures_of("Gemma"), gemma_settings, gemma_rows, without_model)
GEMMA2 = Family("gemma2", architectures_of("Gemma2"), gemma2_settings, gemma2_rows, without_model)
GEMMA3 = Family(
    "gemma3_text", architectures_of("Gemma3", base="TextModel"), gemma3_settings, gemma3_rows, without_model
)
