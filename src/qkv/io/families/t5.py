"""T5 (Raffel et al., arXiv 1910.10683), its version 1.1 (Shazeer, arXiv 2002.05202) and mT5 (arXiv 2010.11934)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from ..config import Config
from ..weights import MAX_LAYERS, Family, Row, linear
from .seq2seq import WRITING, Seq2SeqSettings, has_head, tables

# The name says whether there is a gate, and which activation; "gated-gelu" alone means the tanh form.
FEED_FORWARD = {
    "relu": ("relu", "relu"), "gelu": ("gelu", "gelu"), "silu": ("silu", "silu"),
    "gated-gelu": ("gelu_tanh", "gelu_new"), "gated-relu": ("relu", "relu"), "gated-silu": ("silu", "silu"),
}  # fmt: skip


def t5_settings(config: Config) -> Seq2SeqSettings:
    """Version 1.1 differs from 1.0 by a gate, a head of its own, and no scale before the head."""
    scaled = config.raw("scale_decoder_outputs", None)
    tied = config.flag("tie_word_embeddings", default=True)
    scales = tied if scaled is None else config.flag("scale_decoder_outputs")
    return _settings(config, "relu", scales, "T5", tied)


def mt5_settings(config: Config) -> Seq2SeqSettings:
    """As version 1.1, in many languages."""
    tied = config.flag("tie_word_embeddings", default=True)
    return _settings(config, "gated-gelu", False, "MT5", tied)


def _settings(config: Config, proj: str, scales: bool, name: str, tied: bool) -> Seq2SeqSettings:
    d_model, n_heads = config.integer("d_model"), config.integer("num_heads")
    n_layers, d_ff = config.integer("num_layers", high=MAX_LAYERS), config.integer("d_ff")
    activation, written = config.choice("feed_forward_proj", FEED_FORWARD, default=proj)
    gated = config.raw("feed_forward_proj", proj).startswith("gated-")
    n_decoder_layers = config.optional("num_decoder_layers") or n_layers
    reads_alone = config.architectures == [f"{name}EncoderModel"]
    both = True if not reads_alone else config.raw("is_encoder_decoder", True)
    config.must_be(is_gated_act=gated, dense_act_fn=written, is_encoder_decoder=both, is_decoder=False)
    read = Seq2SeqSettings(
        d_model=d_model,
        vocab_size=config.integer("vocab_size"),
        width=n_heads * config.integer("d_kv"),
        n_encoder_layers=n_layers,
        n_decoder_layers=0 if reads_alone else n_decoder_layers,
        encoder_heads=n_heads,
        decoder_heads=n_heads,
        encoder_d_ff=d_ff,
        decoder_d_ff=d_ff,
        n_source=None,
        n_target=None,
        eps=config.small("layer_norm_epsilon", default=1e-6),
        activation=activation,
        gated=gated,
        norm="rms",
        scale=1.0,
        n_buckets=config.integer("relative_attention_num_buckets", low=4, high=2**16, default=32),
        max_distance=config.integer("relative_attention_max_distance", default=128),
        head_scale=d_model**-0.5 if scales else None,
        has_head=not reads_alone and has_head(config, f"{name}Model"),
        tied=tied,
    )
    _check_buckets(config, read)
    config.finish(harmless=WRITING | {"classifier_dropout", "dropout_rate", "initializer_factor", "n_positions"})
    return read


def _check_buckets(config: Config, read: Seq2SeqSettings) -> None:
    """Half of the buckets are exact on each side; the others are spread up to a distance beyond those."""
    if read.n_buckets % 2:
        raise config.wrong("relative_attention_num_buckets", "an even number")
    if read.max_distance <= read.n_buckets // 2:
        expected = f"more than relative_attention_num_buckets / 2 = {read.n_buckets // 2}"
        raise config.wrong("relative_attention_max_distance", expected)


def rows(settings: Seq2SeqSettings, names: Collection[str]) -> Iterator[Row]:
    yield from tables(settings, names)
    for side, n_layers in (("encoder", settings.n_encoder_layers), ("decoder", settings.n_decoder_layers)):
        if not n_layers:
            continue
        bias = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        yield Row(f"{side}.W_relative", bias, f"n_buckets {side}_heads")
        for i in range(n_layers):
            ours, foreign = f"{side}.layers.{i}", f"{side}.block.{i}.layer"
            yield from _layer(settings, ours, foreign, crossed=side == "decoder")
        yield Row(f"{side}.norm.gamma", f"{side}.final_layer_norm.weight", "d_model")


def _layer(settings: Seq2SeqSettings, ours: str, foreign: str, crossed: bool) -> Iterator[Row]:
    own = "self_attention" if crossed else "attention"
    parts = [(own, "SelfAttention"), *([("cross_attention", "EncDecAttention")] if crossed else [])]
    for i, (part, name) in enumerate(parts):
        for letter in "QKV":
            projection = f"{foreign}.{i}.{name}.{letter.lower()}"
            yield from linear(f"{ours}.{part}", letter, projection, "d_model", "width", bias=False)
        yield from linear(f"{ours}.{part}", "O", f"{foreign}.{i}.{name}.o", "width", "d_model", bias=False)
        yield Row(f"{ours}.norm_{i + 1}.gamma", f"{foreign}.{i}.layer_norm.weight", "d_model")
    last = len(parts)
    matrices = (("gate", "wi_0"), ("up", "wi_1"), ("down", "wo")) if settings.gated else (("1", "wi"), ("2", "wo"))
    for letter, name in matrices:
        d_in, d_out = ("encoder_d_ff", "d_model") if name == "wo" else ("d_model", "encoder_d_ff")
        matrix = f"{foreign}.{last}.DenseReluDense.{name}"
        yield from linear(f"{ours}.feed_forward", letter, matrix, d_in, d_out, bias=False)
    yield Row(f"{ours}.norm_{last + 1}.gamma", f"{foreign}.{last}.layer_norm.weight", "d_model")


T5 = Family(
    model_type="t5",
    heads={"T5ForConditionalGeneration": (), "T5Model": (), "T5EncoderModel": ()},
    settings=t5_settings,
    rows=rows,
    canonical=lambda name: name,
    # Some files hold a second copy of the table, and a bias for cross attention that nobody reads.
    buffers=("shared.weight", "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"),
)
MT5 = replace(T5, model_type="mt5", heads={f"M{name}": () for name in T5.heads}, settings=mt5_settings)
