"""GPT-2 (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019) as Hugging Face stores it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from ...ops.precision import Array
from ..config import ACTIVATIONS, Config
from ..weights import MAX_LAYERS, Family, Row
from .decoder_rows import head, norm, side_by_side
from .decoders import UNREAD, DecoderSettings, architectures_of, head_width


def settings(config: Config) -> DecoderSettings:
    d_model, n_heads = config.integer("n_embd"), config.integer("n_head")
    n_positions = config.integer("n_positions")
    config.must_be(
        scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False, reorder_and_upcast_attn=False,
        add_cross_attention=False, is_decoder=False, n_ctx=n_positions,
    )  # fmt: skip
    read = DecoderSettings(
        d_model=d_model,
        d_ff=config.optional("n_inner") or 4 * d_model,
        n_heads=n_heads,
        n_kv_heads=n_heads,
        d_k=head_width(config, d_model, n_heads, "n_embd"),
        n_layers=config.integer("n_layer", high=MAX_LAYERS),
        vocab_size=config.integer("vocab_size"),
        n_positions=n_positions,
        eps=config.small("layer_norm_epsilon", default=1e-5),
        activation=config.choice("activation_function", ACTIVATIONS, default="gelu_new"),
        norm="layer",
        qkv_bias=True,
        o_bias=True,
        ff_bias=True,
        tied=config.flag("tie_word_embeddings", default=True),
    )
    config.finish(harmless=UNREAD | {
        "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj",
    })  # fmt: skip
    return read


def rows(settings: DecoderSettings, names: Collection[str]) -> Iterator[Row]:
    """GPT-2 stores its matrices (in, out), those of q, k and v beside each other."""
    yield Row("embeddings.W_word", "wte.weight", "vocab_size d_model")
    yield Row("embeddings.W_position", "wpe.weight", "n_positions d_model")
    for i in range(settings.n_layers):
        ours, foreign = f"layers.{i}", f"h.{i}"
        yield from norm(settings, f"{ours}.norm_1", f"{foreign}.ln_1")
        yield from norm(settings, f"{ours}.norm_2", f"{foreign}.ln_2")
        for letter, cut in zip("QKV", side_by_side(*(settings.d_model,) * 3)):
            fused = f"{foreign}.attn.c_attn"
            yield Row(f"{ours}.attention.W_{letter}", f"{fused}.weight", "d_model qkv_width", cut=columns(cut))
            yield Row(f"{ours}.attention.b_{letter}", f"{fused}.bias", "qkv_width", cut=cut)
        for part, letter, name, d_in, d_out in (
            ("attention", "O", "attn.c_proj", "d_model", "d_model"),
            ("feed_forward", "1", "mlp.c_fc", "d_model", "d_ff"),
            ("feed_forward", "2", "mlp.c_proj", "d_ff", "d_model"),
        ):
            yield Row(f"{ours}.{part}.W_{letter}", f"{foreign}.{name}.weight", f"{d_in} {d_out}")
            yield Row(f"{ours}.{part}.b_{letter}", f"{foreign}.{name}.bias", d_out)
    yield from norm(settings, "norm", "ln_f")
    yield from head(settings, names)


def columns(cut: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A cut of the last axis instead of the first."""
    return lambda x: cut(x.T).T


GPT2 = Family(
    model_type="gpt2",
    heads=architectures_of("GPT2", "LMHeadModel"),
    settings=settings,
    rows=rows,
    canonical=lambda name: name.removeprefix("transformer."),
    buffers=("h.*.attn.bias", "h.*.attn.masked_bias"),
)
