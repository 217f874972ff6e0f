"""Where a decoder's tensors belong: the names that most families share, and parts of tensors that hold several."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from ...ops.precision import Array
from .. import weights
from ..weights import Row, linear
from .decoders import DecoderSettings

LayerRows = Callable[[int], Iterator[Row]]


def head(settings: DecoderSettings, names: Collection[str], foreign: str = "lm_head") -> Iterator[Row]:
    """The matrix onto the vocabulary; not every model must have one, but one that it has is used."""
    if f"{foreign}.weight" in names or not (settings.tied or settings.headless):
        yield Row("head.W", f"{foreign}.weight", "vocab_size d_model", transposed=True)
    if settings.classifier is not None:
        yield Row("classifier.W", "score.weight", "n_labels d_model", transposed=True)


def norm(settings: DecoderSettings, ours: str, foreign: str, axis: str = "d_model", plus: float = 0.0) -> Iterator[Row]:
    """The one or two rows of a norm of the kind that the decoder has."""
    return weights.norm(ours, foreign, axis, settings.norm == "layer", plus)


def llama_layer(settings: DecoderSettings, ours: str, foreign: str) -> Iterator[Row]:
    """The matrices of a layer with Llama's names; the norms differ from family to family."""
    yield from llama_attention(settings, ours, foreign)
    yield from llama_feed_forward(settings, ours, foreign)


def llama_attention(settings: DecoderSettings, ours: str, foreign: str) -> Iterator[Row]:
    """The matrices of attention."""
    attention, other = f"{ours}.attention", f"{foreign}.self_attn"
    for letter, width in (("Q", "q_width"), ("K", "kv_width"), ("V", "kv_width")):
        yield from linear(attention, letter, f"{other}.{letter.lower()}_proj", "d_model", width, settings.qkv_bias)
    yield from linear(attention, "O", f"{other}.o_proj", "q_width", "d_model", settings.o_bias)


def llama_feed_forward(settings: DecoderSettings, ours: str, foreign: str) -> Iterator[Row]:
    """The matrices of the feed-forward part."""
    for part, d_in, d_out in (("gate", "d_model", "d_ff"), ("up", "d_model", "d_ff"), ("down", "d_ff", "d_model")):
        yield from linear(f"{ours}.feed_forward", part, f"{foreign}.mlp.{part}_proj", d_in, d_out, settings.ff_bias)


def llama_rows(
    settings: DecoderSettings, names: Collection[str],
    feed_forward: LayerRows | None = None, attention: LayerRows | None = None, plus: float = 0.0,
) -> Iterator[Row]:  # fmt: skip
    """A whole model with Llama's names: each part between a norm before it and the residual stream.

    `plus` is added to every norm, where they are stored as what they differ from 1. `feed_forward` and `attention`
    have the rows of those parts of each layer, by its number, where they are not Llama's.
    """
    yield Row("embeddings.W_word", "embed_tokens.weight", "vocab_size d_model")
    for i in range(settings.n_layers):
        ours, foreign = f"layers.{i}", f"layers.{i}"
        yield from attention(i) if attention else llama_attention(settings, ours, foreign)
        yield from feed_forward(i) if feed_forward else llama_feed_forward(settings, ours, foreign)
        yield from norm(settings, f"{ours}.norm_1", f"{foreign}.input_layernorm", plus=plus)
        yield from norm(settings, f"{ours}.norm_2", f"{foreign}.post_attention_layernorm", plus=plus)
    yield from norm(settings, "norm", "norm", plus=plus)
    yield from head(settings, names)


def without_model(name: str) -> str:
    """A tensor's name without the prefix that a model with a head puts before its inner one."""
    return name.removeprefix("model.")


def side_by_side(*widths: int) -> list[Callable[[Array], Array]]:
    """Cuts of a tensor whose first axis holds parts of these widths, one after the other."""
    starts = [sum(widths[:i]) for i in range(len(widths))]
    return [lambda x, a=start, b=start + width: x[a:b] for start, width in zip(starts, widths)]  # type: ignore[misc]


def head_by_head(settings: DecoderSettings) -> list[Callable[[Array], Array]]:
    """Cuts of a tensor whose first axis holds, for each key head, its queries, its key and its value."""
    group, d_k = settings.n_heads // settings.n_kv_heads, settings.d_k

    def cut(part: slice) -> Callable[[Array], Array]:
        def taken(x: Array) -> Array:
            heads = x.reshape(settings.n_kv_heads, group + 2, d_k, *x.shape[1:])[:, part]
            return heads.reshape(-1, *x.shape[1:])

        return taken

    return [cut(slice(0, group)), cut(slice(group, group + 1)), cut(slice(group + 1, group + 2))]
