"""ViT (Dosovitskiy et al., arXiv 2010.11929) as Hugging Face stores it: settings and tensor names, to ours."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..config import HARMLESS, Config
from ..weights import Family, Row, linear, norm
from .classifier import made_for, read_labels
from .vision import VisionSettings, first_row, layer_rows, one_row, vision_settings

# Of training, or of the head that paints what was masked, which is not read.
UNREAD = HARMLESS | {"attention_probs_dropout_prob", "encoder_stride", "hidden_dropout_prob"}
PARTS = {
    "Q": "attention.attention.query", "K": "attention.attention.key", "V": "attention.attention.value",
    "O": "attention.output.dense", "1": "intermediate.dense", "2": "output.dense",
    "norm_1": "layernorm_before", "norm_2": "layernorm_after",
}  # fmt: skip


def settings(config: Config) -> VisionSettings:
    labels = read_labels(config) if made_for(config, "ImageClassification") else ()
    read = vision_settings(
        config, activation="gelu", eps=1e-12, patch=16, labels=labels, qkv_bias=config.flag("qkv_bias", default=True),
        d_pooled=config.optional("pooler_output_size", config.integer("hidden_size")),
    )  # fmt: skip
    config.must_be(pooler_act="tanh")
    config.finish(harmless=UNREAD)
    return read


def rows(settings: VisionSettings, names: Collection[str]) -> Iterator[Row]:
    patches = "embeddings.patch_embeddings.projection"
    kernel = "d_model n_channels patch_height patch_width"
    yield Row("embeddings.W_patch", f"{patches}.weight", kernel, transposed=True, cut=one_row)
    yield Row("embeddings.b_patch", f"{patches}.bias", "d_model")
    yield Row("embeddings.cls", "embeddings.cls_token", "1 1 d_model", cut=first_row)
    yield Row("embeddings.W_position", "embeddings.position_embeddings", "1 n_positions d_model", cut=first_row)
    for i in range(settings.n_layers):
        yield from layer_rows(f"layers.{i}", f"encoder.layer.{i}", PARTS, qkv_bias=settings.qkv_bias)
    yield from norm("norm", "layernorm", "d_model")
    if "pooler.dense.weight" in names:
        yield from linear("pooler", "", "pooler.dense", "d_model", "d_pooled")
    if settings.labels:
        yield from linear("classifier", "", "classifier", "d_model", "n_labels")


VIT = Family(
    model_type="vit",
    heads={"ViTModel": (), "ViTForImageClassification": ()},
    settings=settings,
    rows=rows,
    canonical=lambda name: name.removeprefix("vit."),
)
