"""BLOOM (BigScience, arXiv 2211.05100): no positions but ALiBi's penalty for distance."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ...errors import FileError
from ...ops.biases import alibi
from ..config import Config
from ..weights import MAX_HEADS, MAX_LAYERS, Family, Row, linear
from .decoder_rows import head, head_by_head, norm
from .decoders import UNREAD, DecoderSettings, architectures_of, head_width


def settings(config: Config) -> DecoderSettings:
    d_model, n_heads, n_layers = (
        _named(config, *names)
        for names in (("hidden_size", "n_embed"), ("n_head", "num_attention_heads"), ("n_layer", "num_hidden_layers"))
    )
    if n_layers > MAX_LAYERS:
        raise config.wrong("n_layer", f"an integer from 1 to {MAX_LAYERS}")
    if n_heads > MAX_HEADS:
        raise config.wrong("n_head", f"an integer from 1 to {MAX_HEADS}")
    config.must_be(apply_residual_connection_post_layernorm=False, n_inner=None)
    read = DecoderSettings(
        d_model=d_model,
        d_ff=4 * d_model,
        n_heads=n_heads,
        n_kv_heads=n_heads,
        d_k=head_width(config, d_model, n_heads),
        n_layers=n_layers,
        vocab_size=config.integer("vocab_size"),
        n_positions=None,
        eps=config.small("layer_norm_epsilon", default=1e-5),
        activation="gelu_tanh",
        norm="layer",
        bias=alibi(n_heads),
        qkv_bias=True,
        o_bias=True,
        ff_bias=True,
        tied=config.flag("tie_word_embeddings", default=True),
    )
    # seq_length is that of training; the last ones are switches of the program that trained it.
    config.finish(harmless=UNREAD | {
        "seq_length", "offset_alibi", "slow_but_exact", "skip_bias_add", "skip_bias_add_qkv", "unk_token_id",
        "attention_softmax_in_fp32", "bias_dropout_fusion", "masked_softmax_fusion",
    })  # fmt: skip
    return read


def _named(config: Config, *names: str) -> int:
    """A size under the first of its names that the file uses."""
    for name in names:
        if config.raw(name, None) is not None:
            return config.integer(name)
    raise FileError("config_missing", path=config.path, name=names[0])


def rows(settings: DecoderSettings, names: Collection[str]) -> Iterator[Row]:
    """Queries, keys and values stand in one matrix, head by head."""
    yield Row("embeddings.W_word", "word_embeddings.weight", "vocab_size d_model")
    yield from norm(settings, "embeddings.norm", "word_embeddings_layernorm")
    for i in range(settings.n_layers):
        ours, foreign = f"layers.{i}", f"h.{i}"
        yield from norm(settings, f"{ours}.norm_1", f"{foreign}.input_layernorm")
        yield from norm(settings, f"{ours}.norm_2", f"{foreign}.post_attention_layernorm")
        fused = f"{foreign}.self_attention.query_key_value"
        for letter, cut in zip("QKV", head_by_head(settings)):
            yield from linear(f"{ours}.attention", letter, fused, "d_model", "qkv_width", True, cut)
        yield from linear(f"{ours}.attention", "O", f"{foreign}.self_attention.dense", "d_model", "d_model", True)
        yield from linear(f"{ours}.feed_forward", "1", f"{foreign}.mlp.dense_h_to_4h", "d_model", "d_ff", True)
        yield from linear(f"{ours}.feed_forward", "2", f"{foreign}.mlp.dense_4h_to_h", "d_ff", "d_model", True)
    yield from norm(settings, "norm", "ln_f")
    yield from head(settings, names)


BLOOM = Family(
    model_type="bloom",
    heads=architectures_of("Bloom"),
    settings=settings,
    rows=rows,
    canonical=lambda name: name.removeprefix("transformer."),
)
