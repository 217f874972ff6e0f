"""Llama (Touvron et al., arXiv 2302.13971 and 2307.09288; Grattafiori et al., arXiv 2407.21783)."""

from __future__ import annotations

from ..config import Config
from ..weights import Family
from .decoder_rows import llama_rows, without_model
from .decoders import UNREAD, DecoderSettings, architectures_of, llama_settings


def settings(config: Config) -> DecoderSettings:
    config.must_be(rope_interleaved=False)
    bias, ff_bias = (config.flag(name, default=False) for name in ("attention_bias", "mlp_bias"))
    read = llama_settings(config, qkv_bias=bias, o_bias=bias, ff_bias=ff_bias)
    config.finish(harmless=UNREAD)
    return read


LLAMA = Family(
    model_type="llama",
    heads=architectures_of("Llama"),
    settings=settings,
    rows=llama_rows,
    canonical=without_model,
    buffers=("layers.*.self_attn.rotary_emb.inv_freq",),
)
