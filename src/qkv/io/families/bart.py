"""BART (Lewis et al., arXiv 1910.13461), mBART (Liu et al., arXiv 2001.08210) and Marian (arXiv 1804.00344)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from ..config import ACTIVATIONS, Config
from ..weights import Family, Row
from .seq2seq import WRITING, Seq2SeqSettings, bart_layers, bart_sizes, has_head, tables

# The first rows of the tables of positions stand for padding, and for nothing.
SKIPPED = 2
MOST_POSITIONS = 2**15  # those that are not in the file are computed, as many as it says
HARMLESS = WRITING | {
    "_num_labels", "activation_dropout", "classif_dropout", "classifier_dropout", "decoder_layerdrop", "dropout",
    "encoder_layerdrop", "extra_pos_embeddings", "init_std", "num_attention_heads", "prefix", "save_step",
}  # fmt: skip


def bart_settings(config: Config) -> Seq2SeqSettings:
    config.must_be(
        normalize_before=False, normalize_embedding=True, add_final_layer_norm=False, static_position_embeddings=False,
    )  # fmt: skip
    return _settings(config, "BartModel", order="post", embedding_norm=True, final_norm=False, skipped=SKIPPED)


def mbart_settings(config: Config) -> Seq2SeqSettings:
    config.must_be(
        normalize_before=True, normalize_embedding=True, add_final_layer_norm=True, static_position_embeddings=False,
    )  # fmt: skip
    return _settings(config, "MBartModel", order="pre", embedding_norm=True, final_norm=True, skipped=SKIPPED)


def marian_settings(config: Config) -> Seq2SeqSettings:
    config.must_be(
        normalize_before=False, normalize_embedding=False, add_final_layer_norm=False, static_position_embeddings=True,
        share_encoder_decoder_embeddings=True, decoder_vocab_size=config.raw("vocab_size"),
    )  # fmt: skip
    return _settings(config, "MarianModel", order="post", embedding_norm=False, final_norm=False)


def _settings(config: Config, bare: str, **particular: Any) -> Seq2SeqSettings:
    config.must_be(add_bias_logits=False, is_decoder=False, is_encoder_decoder=True)
    n_positions, sizes = config.integer("max_position_embeddings", high=MOST_POSITIONS), bart_sizes(config)
    read = Seq2SeqSettings(
        **sizes,
        **particular,
        n_source=n_positions,
        n_target=n_positions,
        activation=config.choice("activation_function", ACTIVATIONS, default="gelu"),
        embedding_scale=sizes["d_model"] ** 0.5 if config.flag("scale_embedding", default=False) else None,
        has_head=has_head(config, bare),
        tied=config.flag("tie_word_embeddings", default=True),
    )
    config.finish(harmless=HARMLESS)
    return read


def rows(settings: Seq2SeqSettings, names: Collection[str]) -> Iterator[Row]:
    yield from tables(settings, names)
    if settings.has_head and "final_logits_bias" in names:
        yield Row("head.b", "final_logits_bias", "one vocab_size", cut=lambda x: x[0])
    for side, n_rows in (("encoder", "source_rows"), ("decoder", "target_rows")):
        name = f"{side}.embed_positions.weight"
        if settings.skipped or name in names:
            yield Row(f"{side}.embeddings.W_position", name, f"{n_rows} d_model", cut=lambda x: x[settings.skipped :])
    yield from bart_layers(settings)


def canonical(name: str) -> str:
    """Without the prefix that a model with a head puts before its inner one."""
    return name.removeprefix("model.")


def _family(model_type: str, name: str, settings: Any) -> Family[Seq2SeqSettings]:
    return Family(
        model_type=model_type,
        heads={f"{name}{bare}": () for bare in BARE[model_type]},
        settings=settings,
        rows=rows,
        canonical=canonical,
        buffers=("shared.weight",),
    )


BARE = {
    "bart": ("ForConditionalGeneration", "Model"),
    "mbart": ("ForConditionalGeneration", "Model"),
    "marian": ("MTModel", "Model"),
}
BART = _family("bart", "Bart", bart_settings)
MBART = _family("mbart", "MBart", mbart_settings)
MARIAN = _family("marian", "Marian", marian_settings)
