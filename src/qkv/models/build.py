"""A decoder out of its settings and its weights: every difference between families is a value that is passed on."""

from __future__ import annotations

from typing import Any

from ..io.decoders import DecoderSettings
from ..layers import Block, FeedForward, GatedFeedForward, LayerNorm, MultiHeadAttention, RMSNorm
from ..layers.parts import Norm
from ..ops import biases
from .decoder import Decoder
from .vocabulary import Head, TokenEmbeddings

NORMS = {"rms": RMSNorm, "layer": LayerNorm}


def decoder_from_weights(settings: DecoderSettings, weights: dict[str, Any]) -> Decoder:
    """The model of these settings and of weights in nested dicts, by the names of the fields."""
    table = dict(weights["embeddings"])
    norm = _norm(settings, table.pop("norm", None))
    embeddings = TokenEmbeddings(**table, norm=norm, scale=settings.embedding_scale)
    W = weights["head"]["W"] if "head" in weights else embeddings.W_word.T
    layers = [_block(settings, i, weights["layers"][str(i)]) for i in range(settings.n_layers)]
    final = _norm(settings, weights.get("norm"))
    return Decoder(embeddings, layers, final, Head(W, settings.final_softcap), settings)


def _block(settings: DecoderSettings, layer: int, weights: dict[str, Any]) -> Block:
    """A layer; whether its feed-forward part has a gate, and which norms it has, its weights say."""
    feed_forward = GatedFeedForward if "W_gate" in weights["feed_forward"] else FeedForward
    places = ("norm_1", "norm_2", "norm_1_out", "norm_2_out")
    return Block(
        attention=_attention(settings, layer, dict(weights["attention"])),
        feed_forward=feed_forward(**weights["feed_forward"], activation=settings.activation),
        order=settings.order,
        parallel=settings.parallel,
        **{place: _norm(settings, weights.get(place)) for place in places},
    )


def _attention(settings: DecoderSettings, layer: int, weights: dict[str, Any]) -> MultiHeadAttention:
    rules = {
        "window": settings.windows[layer] if settings.windows else None,
        "scale": settings.scale,
        "softcap": settings.softcap,
        "bias": biases.alibi(settings.n_heads) if settings.alibi else None,
    }
    q_norm, k_norm = (_norm(settings, weights.pop(name, None)) for name in ("q_norm", "k_norm"))
    return MultiHeadAttention(
        **weights,
        n_heads=settings.n_heads,
        n_kv_heads=settings.n_kv_heads,
        rotary=settings.rotary[layer] if settings.rotary else None,
        q_norm=q_norm,
        k_norm=k_norm,
        rules={name: value for name, value in rules.items() if value is not None},
    )


def _norm(settings: DecoderSettings, weights: dict[str, Any] | None) -> Norm | None:
    return None if weights is None else NORMS[settings.norm](**weights, eps=settings.eps)
