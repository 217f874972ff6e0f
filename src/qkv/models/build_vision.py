"""An encoder of images, or CLIP, out of its settings and its weights: every difference is a value that is passed on."""

from __future__ import annotations

from typing import Any

from ..io.families.clip import CLIPSettings
from ..io.families.vision import VisionSettings
from ..layers import Block, FeedForward, LayerNorm, MultiHeadAttention
from .clip import CLIP, Projection, TextEncoder
from .heads import Pooler
from .patches import PatchEmbeddings
from .vision import ImageClassifier, ImageEncoder
from .vocabulary import TokenEmbeddings


def image_encoder_from_weights(settings: VisionSettings, weights: dict[str, Any]) -> ImageEncoder:
    """The model of these settings and of weights in nested dicts, by the names of the fields."""
    table = dict(weights["embeddings"])
    norm = _norm(settings, table.pop("norm", None))
    return ImageEncoder(
        PatchEmbeddings(**table, patch_size=settings.patch_size, norm=norm),
        _blocks(settings, weights["layers"]), _norm(settings, weights.get("norm")), settings,
        Pooler(**weights["pooler"]) if "pooler" in weights else None,
        ImageClassifier(**weights["classifier"]) if "classifier" in weights else None,
    )  # fmt: skip


def clip_from_weights(settings: CLIPSettings, weights: dict[str, Any]) -> CLIP:
    """The model of these settings and of weights in nested dicts, by the names of the fields."""
    text, to_image, to_text = weights["text"], weights["image_projection"], weights["text_projection"]
    tower = TextEncoder(
        TokenEmbeddings(**text["embeddings"]), _blocks(settings.text, text["layers"]),
        LayerNorm(**text["norm"], eps=settings.text.eps), settings.text,
    )  # fmt: skip
    return CLIP(
        image_encoder_from_weights(settings.image, weights["image"]), tower,
        Projection(to_image["W"], _norm(settings.image, to_image["norm"])), Projection(to_text["W"]),
        weights["logit_scale"], settings,
    )  # fmt: skip


def _blocks(settings: Any, weights: dict[str, Any]) -> list[Block]:
    """Layers whose norms come before their parts; `settings` are those of an encoder of images, or of CLIP's texts."""
    return [
        Block(
            MultiHeadAttention(**layer["attention"], n_heads=settings.n_heads),
            FeedForward(**layer["feed_forward"], activation=settings.activation),
            _norm(settings, layer["norm_1"]), _norm(settings, layer["norm_2"]),
        )
        for layer in (weights[str(i)] for i in range(settings.n_layers))
    ]  # fmt: skip


def _norm(settings: Any, weights: dict[str, Any] | None) -> LayerNorm | None:
    return None if weights is None else LayerNorm(**weights, eps=settings.eps)
