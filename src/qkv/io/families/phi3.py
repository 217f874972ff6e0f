"""Phi-3 (Abdin et al., arXiv 2404.14219): Llama with its matrices joined, and LongRoPE."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..config import Config
from ..weights import Family, Row, linear
from .decoder_rows import head, norm, side_by_side, without_model
from .decoders import UNREAD, DecoderSettings, architectures_of, llama_settings, llama_sizes
from .rope import longest, read_rotary, rope_values


def settings(config: Config) -> DecoderSettings:
    config.must_be(attention_bias=False, mlp_bias=False, lm_head_bias=False, full_attn_mod=1, interpolate_factor=1)
    sizes, n_positions = llama_sizes(config), config.integer("max_position_embeddings")
    place, values = rope_values(config)
    if values.get("type", values.get("rope_type")) in ("su", "yarn"):  # as LongRoPE was called in the first files
        values = {**{name: value for name, value in values.items() if name != "type"}, "rope_type": "longrope"}
    original = config.optional("original_max_position_embeddings", n_positions)
    if values.get("rope_type", "default") != "default" or values.get("type", "default") != "default":
        values = {**values, "original_max_position_embeddings": original}
    else:
        values.pop("original_max_position_embeddings", None)
    rotary = read_rotary(config, place, values, sizes["d_k"], n_positions)
    n_layers = sizes["n_layers"]
    read = llama_settings(
        config, rotary=(rotary,) * n_layers, n_positions=longest(n_positions, rotary),
        windows=(config.optional("sliding_window"),) * n_layers, eps=config.small("rms_norm_eps", default=1e-5),
    )  # fmt: skip
    config.finish(harmless=UNREAD)
    return read


def rows(settings: DecoderSettings, names: Collection[str]) -> Iterator[Row]:
    yield Row("embeddings.W_word", "embed_tokens.weight", "vocab_size d_model")
    heads = side_by_side(settings.q_width, settings.kv_width, settings.kv_width)
    halves = side_by_side(settings.d_ff, settings.d_ff)
    for i in range(settings.n_layers):
        ours, foreign = f"layers.{i}", f"layers.{i}"
        for letter, cut in zip("QKV", heads):
            joined = f"{foreign}.self_attn.qkv_proj"
            yield from linear(f"{ours}.attention", letter, joined, "d_model", "qkv_width", False, cut)
        yield from linear(f"{ours}.attention", "O", f"{foreign}.self_attn.o_proj", "q_width", "d_model", False)
        for part, cut in zip(("gate", "up"), halves):
            joined = f"{foreign}.mlp.gate_up_proj"
            yield from linear(f"{ours}.feed_forward", part, joined, "d_model", "gate_up_width", False, cut)
        yield from linear(f"{ours}.feed_forward", "down", f"{foreign}.mlp.down_proj", "d_ff", "d_model", False)
        yield from norm(settings, f"{ours}.norm_1", f"{foreign}.input_layernorm")
        yield from norm(settings, f"{ours}.norm_2", f"{foreign}.post_attention_layernorm")
    yield from norm(settings, "norm", "norm")
    yield from head(settings, names)


PHI3 = Family("phi3", architectures_of("Phi3"), settings, rows, without_model)
