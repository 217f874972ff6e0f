"""Whisper (Radford et al., arXiv 2212.04356): settings, tensors, and the lists of its tokens."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ...ops.precision import Array
from ..config import ACTIVATIONS, Config
from ..weights import Family, Row
from .bart import canonical
from .seq2seq import WRITING, Seq2SeqSettings, bart_layers, bart_sizes, has_head, tables

# Of training, of the alignment of words in time, and of the classifier that is not read.
HARMLESS = WRITING | {
    "activation_dropout", "alignment_heads", "apply_spec_augment", "classifier_proj_size", "decoder_layerdrop",
    "dropout", "encoder_layerdrop", "init_std", "mask_feature_length", "mask_feature_min_masks", "mask_feature_prob",
    "mask_time_length", "mask_time_min_masks", "mask_time_prob", "median_filter_width", "num_attention_heads",
    "use_weighted_layer_sum",
}  # fmt: skip


def settings(config: Config) -> Seq2SeqSettings:
    config.must_be(scale_embedding=False, is_encoder_decoder=True)
    read = Seq2SeqSettings(
        **bart_sizes(config),
        n_source=config.integer("max_source_positions"),
        n_target=config.integer("max_target_positions"),
        n_mels=config.integer("num_mel_bins", high=2**12),
        activation=config.choice("activation_function", ACTIVATIONS, default="gelu"),
        has_head=has_head(config, "WhisperModel"),
        tied=config.flag("tie_word_embeddings", default=True),
    )
    config.finish(harmless=HARMLESS)
    return read


def rows(settings: Seq2SeqSettings, names: Collection[str]) -> Iterator[Row]:
    for i, d_in in ((1, "n_mels"), (2, "d_model")):
        ours, foreign = f"encoder.embeddings.convolution_{i}", f"encoder.conv{i}"
        yield Row(f"{ours}.W", f"{foreign}.weight", f"d_model {d_in} conv_width", cut=_time_first)
        yield Row(f"{ours}.b", f"{foreign}.bias", "d_model")
    yield Row("encoder.embeddings.W_position", "encoder.embed_positions.weight", "source_rows d_model")
    yield from tables(settings, names)
    yield Row("decoder.embeddings.W_position", "decoder.embed_positions.weight", "target_rows d_model")
    yield from bart_layers(settings, k_bias=False)


def _time_first(x: Array) -> Array:
    """(d_out, d_in, width) as our (width, d_in, d_out)."""
    return x.transpose(2, 1, 0)


WHISPER = Family(
    model_type="whisper",
    heads={"WhisperForConditionalGeneration": (), "WhisperModel": ()},
    settings=settings,
    rows=rows,
    canonical=canonical,
)
