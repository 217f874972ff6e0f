"""An encoder-decoder out of its settings and its weights: every difference is a value that is passed on."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..io.families.seq2seq import Seq2SeqSettings
from ..layers import Block, Convolution, DecoderBlock, FeedForward, GatedFeedForward, MultiHeadAttention
from ..ops import biases, sinusoidal_positions
from ..ops.precision import Array
from .build_decoder import norm_of
from .seq2seq import EncoderDecoder
from .sides import AudioEmbeddings, SourceEncoder, TargetDecoder
from .vocabulary import Head, TokenEmbeddings


def encoder_decoder_from_weights(settings: Seq2SeqSettings, weights: dict[str, Any]) -> EncoderDecoder:
    """The model of these settings and of weights in nested dicts, by the names of the fields."""
    reading = weights["encoder"]
    writing = weights.get("decoder", {"embeddings": reading["embeddings"]})  # no layer will read it
    source_bias, target_bias = (_rules(settings, side, side is reading) for side in (reading, writing))
    hears = settings.n_mels is not None
    encoder = SourceEncoder(
        _audio(reading) if hears else _embeddings(settings, reading, settings.n_source),
        [
            Block(
                attention=_attention(layer["attention"], settings.encoder_heads, source_bias),
                feed_forward=_feed_forward(settings, layer),
                order=settings.order,
                **_norms(settings, layer, 2),
            )
            for layer in _in_order(reading, settings.n_encoder_layers)
        ],
        norm_of(settings, reading.get("norm")),
    )
    decoder = TargetDecoder(
        _embeddings(settings, writing, settings.n_target),
        [
            DecoderBlock(
                self_attention=_attention(layer["self_attention"], settings.decoder_heads, target_bias),
                cross_attention=_attention(layer["cross_attention"], settings.decoder_heads, _scale(settings)),
                feed_forward=_feed_forward(settings, layer),
                order=settings.order,
                **_norms(settings, layer, 3),
            )
            for layer in _in_order(writing, settings.n_decoder_layers)
        ],
        norm_of(settings, writing.get("norm")),
    )
    return EncoderDecoder(encoder, decoder, _head(settings, weights, decoder), settings)


def _in_order(side: dict[str, Any], n_layers: int) -> list[dict[str, Any]]:
    return [side["layers"][str(i)] for i in range(n_layers)]


def _head(settings: Seq2SeqSettings, weights: dict[str, Any], decoder: TargetDecoder) -> Head:
    given = weights.get("head", {})
    W = given.get("W", decoder.embeddings.W_word.T if settings.has_head else None)
    return Head(W, b=given.get("b"), scale=settings.head_scale)


def _rules(settings: Seq2SeqSettings, side: dict[str, Any], bidirectional: bool) -> dict[str, Any]:
    """What belongs to every layer's self-attention on a side: one bias for all of them."""
    if "W_relative" not in side:
        return _scale(settings)
    bias = biases.t5_relative(side["W_relative"], bidirectional=bidirectional, max_distance=settings.max_distance)
    return {**_scale(settings), "bias": bias}


def _scale(settings: Seq2SeqSettings) -> dict[str, Any]:
    return {} if settings.scale is None else {"scale": settings.scale}


def _attention(weights: dict[str, Any], n_heads: int, rules: dict[str, Any]) -> MultiHeadAttention:
    return MultiHeadAttention(**weights, n_heads=n_heads, rules=dict(rules))


def _feed_forward(settings: Seq2SeqSettings, layer: dict[str, Any]) -> FeedForward | GatedFeedForward:
    part = GatedFeedForward if settings.gated else FeedForward
    return part(**layer["feed_forward"], activation=settings.activation)


def _norms(settings: Seq2SeqSettings, layer: dict[str, Any], n: int) -> dict[str, Any]:
    return {f"norm_{i}": norm_of(settings, layer[f"norm_{i}"]) for i in range(1, n + 1)}


def _embeddings(settings: Seq2SeqSettings, side: dict[str, Any], n_positions: int | None) -> TokenEmbeddings:
    """The tables of a side; positions that the file need not hold, being no learnt ones, are computed."""
    table = dict(side["embeddings"])
    norm = norm_of(settings, table.pop("norm", None))
    W_position = table.get("W_position")
    if W_position is None and n_positions is not None:
        W_position = halves(n_positions, settings.d_model).astype(table["W_word"].dtype)
    return TokenEmbeddings(table["W_word"], W_position, norm, settings.embedding_scale)


def halves(n: int, d_model: int) -> Array:
    """The sinusoids of the first transformer with all sines before all cosines, as Marian has them.

    Examples
    --------
    >>> halves(2, 4).round(4)
    array([[0.    , 0.    , 1.    , 1.    ],
           [0.8415, 0.01  , 0.5403, 1.    ]])
    """
    table = sinusoidal_positions(n, d_model)
    return np.concatenate([table[:, 0::2], table[:, 1::2]], axis=1)


def _audio(side: dict[str, Any]) -> AudioEmbeddings:
    table = side["embeddings"]
    first, second = (
        Convolution(**table[f"convolution_{i}"], stride=stride, padding=1) for i, stride in ((1, 1), (2, 2))
    )
    return AudioEmbeddings(first, second, table["W_position"])
