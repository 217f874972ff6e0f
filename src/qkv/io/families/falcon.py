"""Falcon (Almazrouei et al., arXiv 2311.16867): 7B with one key head and one norm, 40B with groups and two norms."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from ...ops.biases import Bias, alibi_slopes, custom
from ...ops.precision import BFLOAT16, Array
from ..config import ACTIVATIONS, Config
from ..weights import MAX_HEADS, MAX_LAYERS, Family, Row, linear
from .decoder_rows import head, head_by_head, norm
from .decoders import UNREAD, DecoderSettings, architectures_of, head_width
from .rope import longest, read_rotary, rope_values


def settings(config: Config) -> DecoderSettings:
    d_model, n_heads = config.integer("hidden_size"), config.integer("num_attention_heads", high=MAX_HEADS)
    n_layers = config.integer("num_hidden_layers", high=MAX_LAYERS)
    n_positions = config.integer("max_position_embeddings", default=2048)
    d_k = head_width(config, d_model, n_heads)
    newer, parallel = config.flag("new_decoder_architecture", default=False), config.flag("parallel_attn", default=True)
    if newer and not parallel:
        raise config.wrong("parallel_attn", "true, with new_decoder_architecture")
    rotary = read_rotary(config, *rope_values(config), d_k, n_positions)
    alibi = config.flag("alibi", default=False)
    bias = config.flag("bias", default=False)
    read = DecoderSettings(
        d_model=d_model,
        d_ff=config.optional("ffn_hidden_size") or 4 * d_model,
        n_heads=n_heads,
        n_kv_heads=_key_heads(config, n_heads, newer),
        d_k=d_k,
        n_layers=n_layers,
        vocab_size=config.integer("vocab_size"),
        n_positions=None if alibi else longest(n_positions, rotary),
        eps=config.small("layer_norm_epsilon", default=1e-5),
        activation=config.choice("activation", ACTIVATIONS, default="gelu"),
        norm="layer",
        parallel=parallel,
        rotary=() if alibi else (rotary,) * n_layers,
        bias=rounded_alibi(n_heads, d_k) if alibi else None,
        qkv_bias=bias,
        o_bias=bias,
        ff_bias=bias,
        tied=config.flag("tie_word_embeddings", default=True),
    )
    # How many norms a layer has, its tensors say.
    config.finish(harmless=UNREAD | {"num_ln_in_parallel_attn", "rotary", "apply_residual_connection_post_layernorm"})
    return read


def rounded_alibi(n_heads: int, d_k: int) -> Bias:
    """ALiBi as Falcon's program has it: from the first key on, in bfloat16, and scaled as the scores are.

    What is rounded no longer depends on the distance alone. Every slope and every product has 8 bits, which shows from
    the tenth head on.
    """
    slopes = alibi_slopes(n_heads).astype(BFLOAT16)[:, None, None]

    def added(i: Array, j: Array) -> Array:
        return (slopes * np.maximum(j, 0).astype(BFLOAT16)).astype(np.float32) / np.float32(d_k**0.5)

    return custom(added, "rounded_alibi")


def _key_heads(config: Config, n_heads: int, newer: bool) -> int:
    """`num_kv_heads` counts only in the newer form; before, there is one key head, or one for each query head."""
    several, only_one = config.optional("num_kv_heads", n_heads) or n_heads, config.flag("multi_query", default=True)
    n_kv_heads = several if newer else 1 if only_one else n_heads
    if n_heads % n_kv_heads:
        raise config.wrong("num_kv_heads", f"a divisor of num_attention_heads={n_heads}")
    return n_kv_heads


def rows(settings: DecoderSettings, names: Collection[str]) -> Iterator[Row]:
    """Each key head's queries, its key and its value stand in one matrix, one key head after the other."""
    yield Row("embeddings.W_word", "word_embeddings.weight", "vocab_size d_model")
    for i in range(settings.n_layers):
        ours, foreign = f"layers.{i}", f"h.{i}"
        first, second = _norms(names, foreign, settings.parallel)
        yield from norm(settings, f"{ours}.norm_1", f"{foreign}.{first}")
        yield from norm(settings, f"{ours}.norm_2", f"{foreign}.{second}")
        fused = f"{foreign}.self_attention.query_key_value"
        for letter, cut in zip("QKV", head_by_head(settings)):
            yield from linear(f"{ours}.attention", letter, fused, "d_model", "qkv_width", settings.qkv_bias, cut)
        dense = f"{foreign}.self_attention.dense"
        yield from linear(f"{ours}.attention", "O", dense, "d_model", "d_model", settings.o_bias)
        for letter, name, d_in, d_out in (("1", "h_to_4h", "d_model", "d_ff"), ("2", "4h_to_h", "d_ff", "d_model")):
            matrix = f"{foreign}.mlp.dense_{name}"
            yield from linear(f"{ours}.feed_forward", letter, matrix, d_in, d_out, settings.ff_bias)
    yield from norm(settings, "norm", "ln_f")
    yield from head(settings, names)


def _norms(names: Collection[str], layer: str, parallel: bool) -> tuple[str, str]:
    """The norms before attention and before the feed-forward part: two, or one for both."""
    if f"{layer}.ln_attn.weight" in names:
        return "ln_attn", "ln_mlp"
    return "input_layernorm", "input_layernorm" if parallel else "post_attention_layernorm"


FALCON = Family(
    model_type="falcon",
    heads=architectures_of("Falcon"),
    settings=settings,
    rows=rows,
    canonical=lambda name: name.removeprefix("transformer."),
)
