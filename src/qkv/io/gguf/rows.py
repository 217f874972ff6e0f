"""Tensors in GGUF files: a family's rows under the names of llama.cpp, and the parts that it stores otherwise."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from ...ops.precision import Array
from ..families.decoder_rows import llama_feed_forward, llama_rows, norm, side_by_side
from ..families.decoders import DecoderSettings
from ..weights import Row, linear

# What a tensor is called, without its layer; and in a transformers checkpoint.
TENSORS = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output"}
LAYER = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}  # fmt: skip
FOUR_NORMS = LAYER | {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
                      "post_feedforward_layernorm": "post_ffw_norm"}  # fmt: skip
AFTER = LAYER | {"post_attention_layernorm": "post_attention_norm"}
HEADS = {"self_attn.q_proj": "n_heads", "self_attn.k_proj": "n_kv_heads"}


def renamed(row: Row, layer: Mapping[str, str], settings: DecoderSettings, interleaved: bool) -> Row:
    """The row under its other name. Norms are stored as they are applied, whatever the family's own files do."""
    stem, kind = row.foreign.rsplit(".", 1)
    if stem.startswith(("blk.", "token_embd", "position_embd", "output")):
        return row
    if not stem.startswith("layers."):
        return replace(row, foreign=f"{TENSORS[stem]}.{kind}", plus=0.0)
    _, number, part = stem.split(".", 2)
    cut = _in_halves(getattr(settings, HEADS[part])) if interleaved and part in HEADS else row.cut
    return replace(row, foreign=f"blk.{number}.{layer[part]}.{kind}", plus=0.0, cut=cut)


def _in_halves(n_heads: int) -> Callable[[Array], Array]:
    """Rows of each head that stand in pairs, 2i and 2i + 1, as i and i + d_k / 2."""

    def cut(x: Array) -> Array:
        pairs = x.reshape(n_heads, -1, 2, *x.shape[1:])
        return pairs.swapaxes(1, 2).reshape(x.shape)

    return cut


def joined_rows(settings: DecoderSettings, names: Collection[str]) -> Iterator[Row]:
    """GPT-2, BLOOM, Falcon: queries, keys and values in one matrix, one after the other; no gate.

    With a second norm in front of a layer it is that of attention, and the first that of the feed-forward part.
    """
    yield Row("embeddings.W_word", "token_embd.weight", "vocab_size d_model")
    if "position_embd.weight" in names:
        yield Row("embeddings.W_position", "position_embd.weight", "n_positions d_model")
    if "token_embd_norm.weight" in names:
        yield from norm(settings, "embeddings.norm", "token_embd_norm")
    for i in range(settings.n_layers):
        ours, foreign = f"layers.{i}", f"blk.{i}"
        second = f"{foreign}.attn_norm_2" if f"{foreign}.attn_norm_2.weight" in names else f"{foreign}.attn_norm"
        yield from norm(settings, f"{ours}.norm_1", second)
        yield from norm(settings, f"{ours}.norm_2", f"{foreign}.{'attn' if settings.parallel else 'ffn'}_norm")
        cuts = side_by_side(settings.q_width, settings.kv_width, settings.kv_width)
        for letter, cut in zip("QKV", cuts):
            joined = f"{foreign}.attn_qkv"
            yield from linear(f"{ours}.attention", letter, joined, "d_model", "qkv_width", settings.qkv_bias, cut)
        yield from linear(f"{ours}.attention", "O", f"{foreign}.attn_output", "q_width", "d_model", settings.o_bias)
        yield from linear(f"{ours}.feed_forward", "1", f"{foreign}.ffn_up", "d_model", "d_ff", settings.ff_bias)
        yield from linear(f"{ours}.feed_forward", "2", f"{foreign}.ffn_down", "d_ff", "d_model", settings.ff_bias)
    yield from norm(settings, "norm", "output_norm")
    if "output.weight" in names:
        yield Row("head.W", "output.weight", "vocab_size d_model", transposed=True)


def expert_rows(settings: DecoderSettings, names: Collection[str]) -> Iterator[Row]:
    """Llama's names, and experts in three tensors, the first axis of each counting them."""

    def feed_forward(layer: int) -> Iterator[Row]:
        ours, foreign = f"layers.{layer}.feed_forward", f"blk.{layer}"
        if not settings.expert_layers[layer]:
            yield from llama_feed_forward(settings, f"layers.{layer}", f"layers.{layer}")
            return
        yield Row(f"{ours}.W_router", f"{foreign}.ffn_gate_inp.weight", "n_experts d_model", transposed=True)
        for part, out, axes in (
            ("gate", "d_expert", "d_expert d_model"), ("up", "d_expert", "d_expert d_model"),
            ("down", "d_model", "d_model d_expert"),
        ):  # fmt: skip
            theirs = f"{foreign}.ffn_{part}_exps"
            yield Row(f"{ours}.W_{part}", f"{theirs}.weight", f"n_experts {axes}", transposed=True)
            if f"{theirs}.bias" in names:
                yield Row(f"{ours}.b_{part}", f"{theirs}.bias", f"n_experts {out}")
        if f"{foreign}.ffn_gate_inp.bias" in names:
            yield Row(f"{ours}.b_router", f"{foreign}.ffn_gate_inp.bias", "n_experts")
        if settings.d_shared:
            for part, axes in zip(("gate", "up", "down"), 2 * ("d_shared d_model",) + ("d_model d_shared",)):
                yield Row(f"{ours}.shared.W_{part}", f"{foreign}.ffn_{part}_shexp.weight", axes, transposed=True)
            yield Row(f"{ours}.W_shared_gate", f"{foreign}.ffn_gate_inp_shexp.weight", "d_model",
                      cut=lambda x: x[:, None])  # fmt: skip

    yield from llama_rows(settings, names, feed_forward=feed_forward)
    for i in range(settings.n_layers):
        if f"blk.{i}.attn_sinks.weight" in names:
            yield Row(f"layers.{i}.attention.sinks", f"blk.{i}.attn_sinks.weight", "n_heads")
        if f"blk.{i}.attn_q_norm.weight" in names:
            for letter in "qk":
                yield from norm(settings, f"layers.{i}.attention.{letter}_norm", f"blk.{i}.attn_{letter}_norm", "d_k")
