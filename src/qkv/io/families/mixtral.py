"""Mixtral (arXiv 2401.04088): Mistral with eight experts in each layer, two of which see each token."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..config import Config
from ..weights import MAX_LAYERS, Family, Row
from .decoder_rows import llama_rows, without_model
from .decoders import UNREAD, DecoderSettings, architectures_of, llama_settings
from .experts import UNREAD_OF_EXPERTS, expert_rows, expert_settings


def settings(config: Config) -> DecoderSettings:
    experts = expert_settings(config, "intermediate_size", among_chosen=True)
    n_layers = config.integer("num_hidden_layers", high=MAX_LAYERS)
    window = config.optional("sliding_window")
    eps = config.small("rms_norm_eps", default=1e-5)
    read = llama_settings(config, windows=(window,) * n_layers, eps=eps, expert_layers=(True,) * n_layers, **experts)
    config.finish(harmless=UNREAD | UNREAD_OF_EXPERTS)
    return read


def rows(settings: DecoderSettings, names: Collection[str]) -> Iterator[Row]:
    def feed_forward(layer: int) -> Iterator[Row]:
        ours, foreign = f"layers.{layer}.feed_forward", f"layers.{layer}.mlp"
        return expert_rows(settings, ours, foreign, names, parts=("w1", "w3", "w2"))

    return llama_rows(settings, names, feed_forward)


def canonical(name: str) -> str:
    """The experts stand under `mlp` since transformers 5."""
    return without_model(name).replace(".block_sparse_moe.", ".mlp.")


MIXTRAL = Family("mixtral", architectures_of("Mixtral"), settings, rows, canonical)
