"""OPT (Zhang et al., arXiv 2205.01068)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..config import ACTIVATIONS, Config
from ..weights import MAX_LAYERS, Family, Row, linear
from .decoder_rows import head, norm
from .decoders import UNREAD, DecoderSettings, architectures_of, head_width

# The first rows of the table of positions stand for padding, and for nothing.
SKIPPED = 2


def settings(config: Config) -> DecoderSettings:
    d_model, n_heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    config.must_be(
        word_embed_proj_dim=d_model, layer_norm_elementwise_affine=True, _remove_final_layer_norm=False,
    )  # fmt: skip
    bias = config.flag("enable_bias", default=True)
    read = DecoderSettings(
        d_model=d_model,
        d_ff=config.integer("ffn_dim"),
        n_heads=n_heads,
        n_kv_heads=n_heads,
        d_k=head_width(config, d_model, n_heads),
        n_layers=config.integer("num_hidden_layers", high=MAX_LAYERS),
        vocab_size=config.integer("vocab_size"),
        n_positions=config.integer("max_position_embeddings"),
        eps=1e-5,
        activation=config.choice("activation_function", ACTIVATIONS, default="relu"),
        norm="layer",
        order="pre" if config.flag("do_layer_norm_before", default=True) else "post",
        qkv_bias=bias,
        o_bias=bias,
        ff_bias=bias,
        tied=config.flag("tie_word_embeddings", default=True),
    )
    config.finish(harmless=UNREAD | {"activation_dropout", "dropout", "init_std", "layerdrop", "prefix"})
    return read


def rows(settings: DecoderSettings, names: Collection[str]) -> Iterator[Row]:
    yield Row("embeddings.W_word", "embed_tokens.weight", "vocab_size d_model")
    yield Row("embeddings.W_position", "embed_positions.weight", "opt_positions d_model", cut=lambda x: x[SKIPPED:])
    for i in range(settings.n_layers):
        ours, foreign = f"layers.{i}", f"layers.{i}"
        for letter, name in (("Q", "q_proj"), ("K", "k_proj"), ("V", "v_proj"), ("O", "out_proj")):
            projection = f"{foreign}.self_attn.{name}"
            yield from linear(f"{ours}.attention", letter, projection, "d_model", "d_model", settings.qkv_bias)
        yield from linear(f"{ours}.feed_forward", "1", f"{foreign}.fc1", "d_model", "d_ff", settings.ff_bias)
        yield from linear(f"{ours}.feed_forward", "2", f"{foreign}.fc2", "d_ff", "d_model", settings.ff_bias)
        yield from norm(settings, f"{ours}.norm_1", f"{foreign}.self_attn_layer_norm")
        yield from norm(settings, f"{ours}.norm_2", f"{foreign}.final_layer_norm")
    if settings.order == "pre":
        yield from norm(settings, "norm", "final_layer_norm")
    yield from head(settings, names)


OPT = Family(
    model_type="opt",
    heads=architectures_of("OPT"),
    settings=settings,
    rows=rows,
    canonical=lambda name: name.removeprefix("model.").removeprefix("decoder."),
)
