"""GPT-NeoX and Pythia (Black et al., arXiv 2204.06745; Biderman et al., arXiv 2304.01373)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..config import ACTIVATIONS, Config
from ..weights import MAX_LAYERS, Family, Row, linear
from .decoder_rows import head, head_by_head, norm
from .decoders import UNREAD, DecoderSettings, architectures_of, head_width
from .rope import longest, read_rotary, rope_values


def settings(config: Config) -> DecoderSettings:
    d_model, n_heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    n_layers = config.integer("num_hidden_layers", high=MAX_LAYERS)
    n_positions = config.integer("max_position_embeddings")
    d_k = head_width(config, d_model, n_heads)
    place, values = rope_values(config, theta="rotary_emb_base", partial="rotary_pct")
    if config.raw("rope_theta", None) is not None:  # some files name it twice
        config.must_be(rope_theta=values.get("rope_theta"))
    rotary = read_rotary(config, place, values, d_k, n_positions, partial=0.25)
    bias = config.flag("attention_bias", default=True)
    read = DecoderSettings(
        d_model=d_model,
        d_ff=config.integer("intermediate_size"),
        n_heads=n_heads,
        n_kv_heads=n_heads,
        d_k=d_k,
        n_layers=n_layers,
        vocab_size=config.integer("vocab_size"),
        n_positions=longest(n_positions, rotary),
        eps=config.small("layer_norm_eps", default=1e-5),
        activation=config.choice("hidden_act", ACTIVATIONS, default="gelu"),
        norm="layer",
        parallel=config.flag("use_parallel_residual", default=True),
        rotary=(rotary,) * n_layers,
        qkv_bias=bias,
        o_bias=bias,
        ff_bias=True,
        tied=config.flag("tie_word_embeddings", default=False),
    )
    config.finish(harmless=UNREAD | {"classifier_dropout", "is_decoder"})
    return read


def rows(settings: DecoderSettings, names: Collection[str]) -> Iterator[Row]:
    """Queries, keys and values stand in one matrix, head by head."""
    yield Row("embeddings.W_word", "embed_in.weight", "vocab_size d_model")
    for i in range(settings.n_layers):
        ours, foreign = f"layers.{i}", f"layers.{i}"
        yield from norm(settings, f"{ours}.norm_1", f"{foreign}.input_layernorm")
        yield from norm(settings, f"{ours}.norm_2", f"{foreign}.post_attention_layernorm")
        fused = f"{foreign}.attention.query_key_value"
        for letter, cut in zip("QKV", head_by_head(settings)):
            yield from linear(f"{ours}.attention", letter, fused, "d_model", "qkv_width", settings.qkv_bias, cut)
        yield from linear(f"{ours}.attention", "O", f"{foreign}.attention.dense", "d_model", "d_model", settings.o_bias)
        yield from linear(f"{ours}.feed_forward", "1", f"{foreign}.mlp.dense_h_to_4h", "d_model", "d_ff", True)
        yield from linear(f"{ours}.feed_forward", "2", f"{foreign}.mlp.dense_4h_to_h", "d_ff", "d_model", True)
    yield from norm(settings, "norm", "final_layer_norm")
    yield from head(settings, names, "embed_out")


GPT_NEOX = Family(
    model_type="gpt_neox",
    heads=architectures_of("GPTNeoX"),
    settings=settings,
    rows=rows,
    canonical=lambda name: name.removeprefix("gpt_neox."),
    buffers=("layers.*.attention.bias", "layers.*.attention.masked_bias", "layers.*.attention.rotary_emb.inv_freq"),
)
