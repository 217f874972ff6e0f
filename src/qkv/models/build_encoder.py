"""An encoder out of its settings and its weights: every difference between families is a value that is passed on."""

from __future__ import annotations

from typing import Any

from ..io.families.encoders import EncoderSettings
from ..layers import Block, FeedForward, GatedFeedForward, LayerNorm, MultiHeadAttention
from .embeddings import Embeddings
from .encoder import Encoder
from .heads import Pooler, TaskHead


def encoder_from_weights(settings: EncoderSettings, weights: dict[str, Any]) -> Encoder:
    """The model of these settings and of weights in nested dicts, by the names of the fields."""
    table = dict(weights["embeddings"])
    norm = _norm(settings, table.pop("norm", None))
    embeddings = Embeddings(**table, norm=norm, padding_id=settings.padding_id)
    layers = [_block(settings, i, weights["layers"][str(i)]) for i in range(settings.n_layers)]
    heads: dict[str, Any] = {
        name: _head(settings, {"W": embeddings.W_word.T} | weights[name], settings.bends[name])
        for name in ("masked_lm", "classifier", "detector") if name in weights
    }  # fmt: skip
    return Encoder(
        embeddings, layers, settings, _norm(settings, weights.get("norm")),
        Pooler(**weights["pooler"]) if "pooler" in weights else None, **heads,
    )  # fmt: skip


def _block(settings: EncoderSettings, layer: int, weights: dict[str, Any]) -> Block:
    """A layer; whether its feed-forward part has a gate, and which norms it has, its weights say."""
    feed_forward = GatedFeedForward if "W_gate" in weights["feed_forward"] else FeedForward
    window = settings.windows[layer] if settings.windows else None
    attention = MultiHeadAttention(
        **weights["attention"], n_heads=settings.n_heads, rotary=settings.rotary[layer] if settings.rotary else None,
        rules={} if window is None else {"window": window},
    )  # fmt: skip
    return Block(
        attention,
        feed_forward(**weights["feed_forward"], activation=settings.activation),
        _norm(settings, weights.get("norm_1")),
        _norm(settings, weights.get("norm_2")),
        order=settings.order,
    )


def _head(settings: EncoderSettings, weights: dict[str, Any], bend: str) -> TaskHead:
    return TaskHead(**weights | {"norm": _norm(settings, weights.get("norm"))}, activation=bend)


def _norm(settings: EncoderSettings, weights: dict[str, Any] | None) -> LayerNorm | None:
    return None if weights is None else LayerNorm(**weights, eps=settings.eps)
