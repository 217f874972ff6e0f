"""The settings of an encoder-decoder: one row of values that tells it from all others, and rows that many share."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from ..config import Config
from ..weights import MAX_LAYERS, Row, linear, norm
from .decoders import UNREAD

# Read beside the model, where it writes (`qkv.io.target`), or rules of a search that is not asked for.
WRITING = UNREAD | {
    "bad_words_ids", "begin_suppress_tokens", "decoder_start_token_id", "early_stopping", "forced_bos_token_id",
    "forced_decoder_ids", "forced_eos_token_id", "length_penalty", "max_length", "min_length",
    "no_repeat_ngram_size", "num_beams", "num_hidden_layers", "suppress_tokens",
}  # fmt: skip


@dataclass(frozen=True)
class Seq2SeqSettings:
    """The row of a table: every value in which one encoder-decoder differs from another, besides its weights.

    Attributes
    ----------
    d_model, vocab_size : int
    width : int
        Of all heads of a layer together.
    n_encoder_layers, n_decoder_layers : int
        No layer in the decoder: the model only reads.
    encoder_heads, decoder_heads : int
    encoder_d_ff, decoder_d_ff : int
    n_source, n_target : int or None
        The longest sequence of the encoder and of the decoder. None: no end.
    eps : float
        Of the norms.
    activation : str
        One of `qkv.layers.parts.ACTIVATIONS`.
    gated : bool
        Whether the feed-forward parts have a gate.
    norm : {"rms", "layer"}
    order : {"pre", "post"}
        As in `DecoderBlock`.
    embedding_norm, final_norm : bool
        Whether there is a norm of the embeddings, and one behind the last layer, on either side.
    skipped : int
        How many rows of the tables of positions stand for nothing.
    scale : float or None
        Of the scores; None: 1 / sqrt(d_k).
    n_buckets, max_distance : int
        Of T5's relative bias; 0 buckets: there is none.
    embedding_scale, head_scale : float or None
        What the vectors of the tokens, and the last vectors before the head, are multiplied with.
    n_mels : int or None
        How many bands of sound the encoder hears; None: it reads tokens.
    has_head, tied : bool
        Whether there is a head, and whether it is the table of tokens where the file has no other.
    """

    d_model: int
    vocab_size: int
    width: int
    n_encoder_layers: int
    n_decoder_layers: int
    encoder_heads: int
    decoder_heads: int
    encoder_d_ff: int
    decoder_d_ff: int
    n_source: int | None
    n_target: int | None
    eps: float
    activation: str
    gated: bool = False
    norm: str = "layer"
    order: str = "pre"
    embedding_norm: bool = False
    final_norm: bool = True
    skipped: int = 0
    scale: float | None = None
    n_buckets: int = 0
    max_distance: int = 0
    embedding_scale: float | None = None
    head_scale: float | None = None
    n_mels: int | None = None
    has_head: bool = True
    tied: bool = True

    @property
    def source_rows(self) -> int:
        return (self.n_source or 0) + self.skipped

    @property
    def target_rows(self) -> int:
        return (self.n_target or 0) + self.skipped

    one, conv_width = 1, 3


def bart_sizes(config: Config) -> dict[str, Any]:
    """The settings that BART and all who took over its names write alike."""
    d_model = config.integer("d_model")
    read = {
        "d_model": d_model,
        "width": d_model,
        "vocab_size": config.integer("vocab_size"),
        "n_encoder_layers": config.integer("encoder_layers", high=MAX_LAYERS),
        "n_decoder_layers": config.integer("decoder_layers", high=MAX_LAYERS),
        "encoder_d_ff": config.integer("encoder_ffn_dim"),
        "decoder_d_ff": config.integer("decoder_ffn_dim"),
        "eps": 1e-5,
    }
    for side in ("encoder", "decoder"):
        heads = config.integer(f"{side}_attention_heads")
        if d_model % heads:
            raise config.wrong(f"{side}_attention_heads", f"a divisor of d_model={d_model}")
        read[f"{side}_heads"] = heads
    return read


def has_head(config: Config, base: str) -> bool:
    """Whether it is more than the bare model of that architecture."""
    return config.architectures != [base]


def tables(settings: Seq2SeqSettings, names: Collection[str]) -> Iterator[Row]:
    """The table of tokens, of either side's own where the file has it, and the head."""
    shared = "shared.weight"
    reads, writes = settings.n_mels is None, settings.n_decoder_layers > 0
    for side in ["encoder"] * reads + ["decoder"] * writes:
        name = f"{side}.embed_tokens.weight"
        foreign = name if name in names or (names and shared not in names) else shared
        yield Row(f"{side}.embeddings.W_word", foreign, "vocab_size d_model")
    for name in ("lm_head.weight", "proj_out.weight"):
        if settings.has_head and name in names:
            yield Row("head.W", name, "vocab_size d_model", transposed=True)
    if settings.has_head and not settings.tied and not {"lm_head.weight", "proj_out.weight"} & set(names):
        yield Row("head.W", "lm_head.weight", "vocab_size d_model", transposed=True)


def bart_layers(settings: Seq2SeqSettings, k_bias: bool = True) -> Iterator[Row]:
    """The layers of both sides with BART's names."""
    for i in range(settings.n_encoder_layers):
        ours = foreign = f"encoder.layers.{i}"
        yield from _attention(f"{ours}.attention", f"{foreign}.self_attn", k_bias)
        yield from norm(f"{ours}.norm_1", f"{foreign}.self_attn_layer_norm")
        yield from _feed_forward(ours, foreign, "encoder_d_ff")
        yield from norm(f"{ours}.norm_2", f"{foreign}.final_layer_norm")
    for i in range(settings.n_decoder_layers):
        ours = foreign = f"decoder.layers.{i}"
        yield from _attention(f"{ours}.self_attention", f"{foreign}.self_attn", k_bias)
        yield from norm(f"{ours}.norm_1", f"{foreign}.self_attn_layer_norm")
        yield from _attention(f"{ours}.cross_attention", f"{foreign}.encoder_attn", k_bias)
        yield from norm(f"{ours}.norm_2", f"{foreign}.encoder_attn_layer_norm")
        yield from _feed_forward(ours, foreign, "decoder_d_ff")
        yield from norm(f"{ours}.norm_3", f"{foreign}.final_layer_norm")
    for side in ("encoder", "decoder"):
        if settings.embedding_norm:
            yield from norm(f"{side}.embeddings.norm", f"{side}.layernorm_embedding")
        if settings.final_norm:
            yield from norm(f"{side}.norm", f"{side}.layer_norm")


def _attention(ours: str, foreign: str, k_bias: bool) -> Iterator[Row]:
    for letter, name in (("Q", "q_proj"), ("K", "k_proj"), ("V", "v_proj"), ("O", "out_proj")):
        yield from linear(ours, letter, f"{foreign}.{name}", "d_model", "d_model", k_bias or letter != "K")


def _feed_forward(ours: str, foreign: str, d_ff: str) -> Iterator[Row]:
    yield from linear(f"{ours}.feed_forward", "1", f"{foreign}.fc1", "d_model", d_ff, True)
    yield from linear(f"{ours}.feed_forward", "2", f"{foreign}.fc2", d_ff, "d_model", True)
