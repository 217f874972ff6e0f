"""A decoder out of its settings and its weights: every difference between families is a value that is passed on."""

from __future__ import annotations

from typing import Any

from ..io.families.decoders import DecoderSettings
from ..io.families.seq2seq import Seq2SeqSettings
from ..layers import (
    Block,
    Experts,
    FeedForward,
    GatedFeedForward,
    LatentAttention,
    LayerNorm,
    MultiHeadAttention,
    RMSNorm,
    Rotary,
    Routing,
)
from ..layers.parts import Norm
from .classifying import LastTokenClassifier
from .decoder import Decoder
from .vocabulary import Head, TokenEmbeddings

NORMS = {"rms": RMSNorm, "layer": LayerNorm}


def decoder_from_weights(settings: DecoderSettings, weights: dict[str, Any]) -> Decoder:
    """The model of these settings and of weights in nested dicts, by the names of the fields."""
    table = dict(weights["embeddings"])
    norm = norm_of(settings, table.pop("norm", None))
    embeddings = TokenEmbeddings(**table, norm=norm, scale=settings.embedding_scale)
    W = weights["head"]["W"] if "head" in weights else embeddings.W_word.T if settings.tied else None
    layers = []
    for i in range(settings.n_layers):
        layers.append(_block(settings, i, weights["layers"].pop(str(i))))
        layers[-1].join()  # which moves weights: what they were read into is let go of, layer by layer
    final = norm_of(settings, weights.get("norm"))
    classifier = LastTokenClassifier(**weights["classifier"]) if "classifier" in weights else None
    return Decoder(embeddings, layers, final, Head(W, settings.final_softcap), settings, classifier=classifier)


def _block(settings: DecoderSettings, layer: int, weights: dict[str, Any]) -> Block:
    """A layer; which norms it has, its weights say."""
    places = ("norm_1", "norm_2", "norm_1_out", "norm_2_out")
    return Block(
        attention=_attention(settings, layer, dict(weights["attention"])),
        feed_forward=_feed_forward(settings, dict(weights["feed_forward"])),
        order=settings.order,
        parallel=settings.parallel,
        **{place: norm_of(settings, weights.get(place)) for place in places},
    )


def _feed_forward(settings: DecoderSettings, weights: dict[str, Any]) -> FeedForward | GatedFeedForward | Experts:
    """A feed-forward part; whether it has a gate, or experts, its weights say."""
    if "W_router" not in weights:
        kind = GatedFeedForward if "W_gate" in weights else FeedForward
        return kind(**weights, activation=settings.activation)
    shared = weights.pop("shared", None)
    return Experts(
        **weights,
        routing=settings.routing or Routing(n_active=1),
        activation=settings.expert_gate or settings.activation,
        shared=None if shared is None else GatedFeedForward(**shared, activation=settings.activation),
    )


def _attention(settings: DecoderSettings, layer: int, weights: dict[str, Any]) -> MultiHeadAttention | LatentAttention:
    """Attention; whether it goes through a latent, its weights say."""
    given = {
        "window": settings.windows[layer] if settings.windows else None,
        "scale": settings.scale,
        "softcap": settings.softcap,
        "bias": settings.bias,
        "sinks": weights.pop("sinks", None),
    }
    rules = {name: value for name, value in given.items() if value is not None}
    rotary = settings.rotary[layer] if settings.rotary else None
    if "W_DKV" in weights:
        for name in {"q_norm", "latent_norm"} & weights.keys():
            weights[name] = RMSNorm(**weights[name])  # of an eps of its own, whatever the file says of the others
        return LatentAttention(**weights, n_heads=settings.n_heads, rotary=rotary or Rotary(), rules=rules)
    q_norm, k_norm = (norm_of(settings, weights.pop(name, None)) for name in ("q_norm", "k_norm"))
    return MultiHeadAttention(
        **weights,
        n_heads=settings.n_heads,
        n_kv_heads=settings.n_kv_heads,
        rotary=rotary,
        q_norm=q_norm,
        k_norm=k_norm,
        rules=rules,
    )


def norm_of(settings: DecoderSettings | Seq2SeqSettings, weights: dict[str, Any] | None) -> Norm | None:
    """A norm of the kind that the settings name; None where the weights have none."""
    return None if weights is None else NORMS[settings.norm](**weights, eps=settings.eps)
