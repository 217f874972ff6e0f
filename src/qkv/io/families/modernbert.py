"""ModernBERT (Warner et al., arXiv 2412.13663): rotated positions, local and global layers, gates, no biases."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from ...layers import Rotary
from ..config import ACTIVATIONS, Config
from ..weights import Family, Row, linear, norm
from .decoder_rows import side_by_side
from .decoders import FULL, SLIDING, layer_types
from .encoder_rows import begins, vocabulary
from .encoders import BIDIRECTIONAL, UNREAD, EncoderSettings, encoder_sizes
from .rope import PLACES, read_rotary

# Of training, of other kernels, and a second name of norm_eps that its own code does not read.
OWN_UNREAD = UNREAD | {
    "deterministic_flash_attn", "embedding_dropout", "initializer_cutoff_factor", "layer_norm_eps", "mlp_dropout",
    "reference_compile", "repad_logits_with_grad", "sparse_pred_ignore_index", "sparse_prediction",
}  # fmt: skip
POOLINGS = {"cls": "cls", "mean": "mean"}
BASES = {FULL: 160_000.0, SLIDING: 10_000.0}


def settings(config: Config) -> EncoderSettings:
    """`config.json` of a ModernBERT, with a rule or a list of layers, and rotations flat or in one place."""
    sizes = encoder_sizes(config)
    every = config.integer("global_attn_every_n_layers", default=3)
    local = layer_types(config, sizes["n_layers"], lambda layer: layer % every != 0)
    size = config.integer("local_attention", default=128) // 2
    turning = _rotaries(config, sizes)
    bend = config.choice("classifier_activation", ACTIVATIONS, default="gelu")
    pooling = config.choice("classifier_pooling", POOLINGS, default="cls")
    if sizes["classifier"] is not None:
        sizes["classifier"] = replace(sizes["classifier"], pooling=pooling)
    read = EncoderSettings(
        **sizes,
        activation=config.choice("hidden_activation", ACTIVATIONS, default="gelu"),
        eps=config.small("norm_eps", default=1e-5),
        order="pre",
        rotary=tuple(turning[SLIDING if near else FULL] for near in local),
        windows=tuple((size, size) if near else None for near in local),
        qkv_bias=(bias := config.flag("attention_bias", default=False)),
        o_bias=bias,
        ff_bias=config.flag("mlp_bias", default=False),
        norm_bias=config.flag("norm_bias", default=False),
        dense_bias=config.flag("classifier_bias", default=False),
        vocabulary_bias=config.flag("decoder_bias", default=True),
        bends={"masked_lm": bend, "classifier": bend},
    )
    config.must_be(**BIDIRECTIONAL)
    config.finish(harmless=OWN_UNREAD)
    return read


def _rotaries(config: Config, sizes: dict[str, Any]) -> dict[str, Rotary]:
    """How local and global layers turn; flat, a local base that is null is the global one."""
    flat = {FULL: config.raw("global_rope_theta", None) or BASES[FULL]}
    local = config.raw("local_rope_theta", BASES[SLIDING])
    flat[SLIDING] = flat[FULL] if local is None else local
    place = PLACES[0]
    nested = config.raw(place, None) or {}
    if not isinstance(nested, dict) or not set(nested) <= set(BASES):
        raise config.wrong(place, f"an object of {FULL} and {SLIDING}")
    found = {}
    for kind, base in flat.items():
        values = nested.get(kind) or {}
        if not isinstance(values, dict):
            raise config.wrong(place, "an object")
        d_k = sizes["d_model"] // sizes["n_heads"]
        found[kind] = read_rotary(config, place, {"rope_theta": base} | values, d_k, sizes["n_positions"])
    return found


def rows(settings: EncoderSettings, names: Collection[str]) -> Iterator[Row]:
    """Where each tensor belongs; the first layer has no norm before its attention, for the embeddings have one."""
    yield Row("embeddings.W_word", "embeddings.tok_embeddings.weight", "vocab_size d_embedding")
    yield from norm("embeddings.norm", "embeddings.norm", bias=settings.norm_bias)
    for i in range(settings.n_layers):
        ours, foreign = f"layers.{i}", f"layers.{i}"
        yield from _joined(f"{ours}.attention", "QKV", f"{foreign}.attn.Wqkv", "qkv_width", settings.qkv_bias, settings)
        yield from linear(f"{ours}.attention", "O", f"{foreign}.attn.Wo", "d_model", "d_model", settings.o_bias)
        if i:
            yield from norm(f"{ours}.norm_1", f"{foreign}.attn_norm", bias=settings.norm_bias)
        fed = f"{ours}.feed_forward"
        yield from _joined(fed, ("gate", "up"), f"{foreign}.mlp.Wi", "gate_up_width", settings.ff_bias, settings)
        yield from linear(fed, "down", f"{foreign}.mlp.Wo", "d_ff", "d_model", settings.ff_bias)
        yield from norm(f"{ours}.norm_2", f"{foreign}.mlp_norm", bias=settings.norm_bias)
    yield from norm("norm", "final_norm", bias=settings.norm_bias)
    if begins(names, "decoder.") or (settings.masked_lm and begins(names, "head.")):
        yield from _head(settings, "masked_lm")
        yield from vocabulary(settings, names, "decoder")
        if settings.vocabulary_bias:
            yield Row("masked_lm.b", "decoder.bias", "vocab_size")
    if settings.classifier is not None:
        yield from _head(settings, "classifier")
        yield from linear("classifier", "", "classifier", "d_model", "n_labels")


def _joined(
    ours: str, letters: Collection[str], foreign: str, d_out: str, bias: bool, settings: EncoderSettings
) -> Iterator[Row]:
    """Several matrices that the file holds one after the other, each of the same width."""
    width = getattr(settings, d_out) // len(letters)
    for letter, cut in zip(letters, side_by_side(*[width] * len(letters))):
        yield Row(f"{ours}.W_{letter}", f"{foreign}.weight", f"{d_out} d_model", transposed=True, cut=cut)
        if bias:
            yield Row(f"{ours}.b_{letter}", f"{foreign}.bias", d_out, cut=cut)


def _head(settings: EncoderSettings, ours: str) -> Iterator[Row]:
    """What every head begins with."""
    yield from linear(ours, "dense", "head.dense", "d_model", "d_model", settings.dense_bias)
    yield from norm(f"{ours}.norm", "head.norm", bias=settings.norm_bias)


MODERNBERT = Family(
    model_type="modernbert",
    heads={
        "ModernBertModel": (),
        "ModernBertForMaskedLM": (),
        "ModernBertForSequenceClassification": (),
        "ModernBertForTokenClassification": ("head.", "classifier."),
        "ModernBertForMultipleChoice": ("head.", "classifier."),
        "ModernBertForQuestionAnswering": ("head.", "classifier."),
    },
    settings=settings,
    rows=rows,
    canonical=lambda name: name.removeprefix("model."),
)
