"""gpt-oss (arXiv 2508.10925): experts with biases and a clamped gate, sinks, a window in every other layer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from ...layers.experts import ClampedSwiGLU
from ...ops.precision import Array
from ..config import Config
from ..weights import MAX_LAYERS, Family, Row
from .decoder_rows import llama_rows, without_model
from .decoders import UNREAD, DecoderSettings, architectures_of, layer_types, llama_settings, windows
from .experts import HALVES, STACK, UNREAD_OF_EXPERTS, expert_settings

BLOCKS, SCALES = "_blocks", "_scales"


def settings(config: Config) -> DecoderSettings:
    n_layers = config.integer("num_hidden_layers", high=MAX_LAYERS)
    sliding = layer_types(config, n_layers, lambda layer: layer % 2 == 0)
    experts = expert_settings(config, "intermediate_size", among_chosen=True)
    alpha, limit = (config.number(f"swiglu_{n}", 1e-6, 1e6, default=d) for n, d in (("alpha", 1.702), ("limit", 7.0)))
    config.must_be(hidden_act="silu", experts_per_token=config.integer("num_experts_per_tok"))
    _packed_or_not(config)
    bias, eps = config.flag("attention_bias", default=True), config.small("rms_norm_eps", default=1e-5)
    read = llama_settings(
        config, windows=windows(config, sliding, config.optional("sliding_window", 128)), qkv_bias=bias, o_bias=bias,
        eps=eps, activation="silu", expert_layers=(True,) * n_layers, expert_gate=ClampedSwiGLU(alpha, limit),
        **experts,
    )  # fmt: skip
    config.finish(harmless=UNREAD | UNREAD_OF_EXPERTS | {"initial_context_length"})
    return read


def _packed_or_not(config: Config) -> None:
    """As published, the experts are packed in MXFP4; what is packed, the names of the tensors say."""
    packing = config.raw("quantization_config", None)
    if packing is not None and (not isinstance(packing, dict) or packing.get("quant_method") != "mxfp4"):
        raise config.wrong("quantization_config", "of the method mxfp4")


def rows(settings: DecoderSettings, names: Collection[str]) -> Iterator[Row]:
    def feed_forward(layer: int) -> Iterator[Row]:
        yield from _experts(settings, f"layers.{layer}.feed_forward", f"layers.{layer}.mlp", names)

    yield from llama_rows(settings, names, feed_forward=feed_forward)
    for i in range(settings.n_layers):
        yield Row(f"layers.{i}.attention.sinks", f"layers.{i}.self_attn.sinks", "n_heads")


def _experts(settings: DecoderSettings, ours: str, foreign: str, names: Collection[str]) -> Iterator[Row]:
    """The router and the experts; gate and up stand in one tensor, a number of the one beside one of the other."""
    yield Row(f"{ours}.W_router", f"{foreign}.router.weight", "n_experts d_model", transposed=True)
    yield Row(f"{ours}.b_router", f"{foreign}.router.bias", "n_experts")
    stack, down = f"{foreign}.{STACK}", f"{foreign}.experts.down_proj"
    for part, every_other in (("gate", slice(0, None, 2)), ("up", slice(1, None, 2))):
        yield _matrix(f"{ours}.W_{part}", stack, names, f"d_model {HALVES}", every_other)
        yield Row(f"{ours}.b_{part}", f"{stack}_bias", f"n_experts {HALVES}", cut=_columns(every_other))
    yield _matrix(f"{ours}.W_down", down, names, "d_expert d_model", slice(None))
    yield Row(f"{ours}.b_down", f"{down}_bias", "n_experts d_model")


def _matrix(ours: str, foreign: str, names: Collection[str], axes: str, part: slice) -> Row:
    """A part of the columns of all experts' matrices: (in, out), or (out, in) where they are packed."""
    if foreign + BLOCKS not in names:
        return Row(ours, foreign, f"n_experts {axes}", cut=_columns(part))
    d_in, d_out = axes.split()
    axes = f"n_experts {d_out} {d_in}"
    return Row(ours, foreign + BLOCKS, axes, transposed=True, cut=lambda x: x[:, part], scales=foreign + SCALES)


def _columns(part: slice) -> Callable[[Array], Array]:
    return lambda x: x[..., part]


GPT_OSS = Family("gpt_oss", architectures_of("GptOss"), settings, rows, without_model)
