"""Mistral 7B (Jiang et al., arXiv 2310.06825): Llama whose layers all look back at a window."""

from __future__ import annotations

from ..config import Config
from ..weights import MAX_LAYERS, Family
from .decoder_rows import llama_rows, without_model
from .decoders import UNREAD, DecoderSettings, architectures_of, llama_settings


def settings(config: Config) -> DecoderSettings:
    n_layers, size = config.integer("num_hidden_layers", high=MAX_LAYERS), config.optional("sliding_window")
    read = llama_settings(config, windows=(size,) * n_layers)
    config.finish(harmless=UNREAD)
    return read


MISTRAL = Family(
    model_type="mistral",
    heads=architectures_of("Mistral"),
    settings=settings,
    rows=llama_rows,
    canonical=without_model,
    buffers=("layers.*.self_attn.rotary_emb.inv_freq",),
)
