"""OLMo 2 (arXiv 2501.00656): norms of what each part gives, and of all queries and keys of a token at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..config import Config
from ..weights import Family, Row
from .decoder_rows import head, llama_layer, norm, without_model
from .decoders import UNREAD, DecoderSettings, architectures_of, llama_settings


def settings(config: Config) -> DecoderSettings:
    bias = config.flag("attention_bias", default=False)
    eps = config.small("rms_norm_eps", default=1e-5)
    read = llama_settings(config, qkv_bias=bias, o_bias=bias, eps=eps)
    config.finish(harmless=UNREAD)
    return read


def rows(settings: DecoderSettings, names: Collection[str]) -> Iterator[Row]:
    yield Row("embeddings.W_word", "embed_tokens.weight", "vocab_size d_model")
    for i in range(settings.n_layers):
        ours, foreign = f"layers.{i}", f"layers.{i}"
        yield from llama_layer(settings, ours, foreign)
        yield from norm(settings, f"{ours}.attention.q_norm", f"{foreign}.self_attn.q_norm", "q_width")
        yield from norm(settings, f"{ours}.attention.k_norm", f"{foreign}.self_attn.k_norm", "kv_width")
        yield from norm(settings, f"{ours}.norm_1_out", f"{foreign}.post_attention_layernorm")
        yield from norm(settings, f"{ours}.norm_2_out", f"{foreign}.post_feedforward_layernorm")
    yield from norm(settings, "norm", "norm")
    yield from head(settings, names)


OLMO2 = Family("olmo2", architectures_of("Olmo2"), settings, rows, without_model)
