"""DeepSeek-V2 (arXiv 2405.04434) and DeepSeek-V3 (arXiv 2412.19437): latent attention, experts in most layers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ...layers import Rotary
from ...ops.precision import Array
from ...ops.scaling import Yarn
from ..config import Config
from ..weights import MAX_LAYERS, Family, Row, linear
from .decoder_rows import llama_feed_forward, llama_rows, norm, side_by_side, without_model
from .decoders import UNREAD, DecoderSettings, architectures_of, llama_settings
from .experts import UNREAD_OF_EXPERTS, expert_rows, expert_settings, shared_rows
from .rope import longest, read_rotary, rope_values

# Of training, or of how the experts are spread over machines.
UNREAD_HERE = UNREAD | UNREAD_OF_EXPERTS | {"aux_loss_alpha", "ep_size", "seq_aux"}


@dataclass(frozen=True)
class LatentSettings(DecoderSettings):
    """A decoder with latent attention: `d_k` is the width of a head's part that carries no position.

    Attributes
    ----------
    d_q : int or None
        The width of the vector that the queries are read from. None: they are read from the residual stream.
    d_latent, d_rope, d_v : int
        The widths of the latent, of the part that carries the position, and of a head's values.
    n_beyond : int
        Layers behind the last that the file may hold, which predict further tokens and are not read.
    """

    d_q: int | None = None
    d_latent: int = 0
    d_rope: int = 0
    d_v: int = 0
    n_beyond: int = 0

    @property
    def both_width(self) -> int:
        return self.n_heads * (self.d_k + self.d_rope)

    @property
    def down_width(self) -> int:
        return self.d_latent + self.d_rope

    @property
    def up_width(self) -> int:
        return self.n_heads * (self.d_k + self.d_v)

    @property
    def v_width(self) -> int:
        return self.n_heads * self.d_v


def v2_settings(config: Config) -> LatentSettings:
    config.must_be(scoring_func="softmax", rope_interleave=True, mlp_bias=False)
    grouped = config.choice("topk_method", {"greedy": False, "group_limited_greedy": True}, default="greedy")
    groups = _groups(config, 1) if grouped else _no_groups(config)
    scaling = config.number("routed_scaling_factor", 1e-6, 1e6, default=1.0)
    if normalize := _normalizes(config, default=False):
        scaling = 1.0  # as the model's own program has it: one or the other
    return _settings(config, layout="interleaved", normalize=normalize, scaling=scaling, **groups)


def v3_settings(config: Config) -> LatentSettings:
    config.must_be(scoring_func="sigmoid", topk_method="noaux_tc")
    layout = "interleaved" if config.flag("rope_interleave", default=True) else "half"
    scaling = config.number("routed_scaling_factor", 1e-6, 1e6, default=2.5)
    normalize = _normalizes(config, default=True)
    routing = {"score": "sigmoid", "group_score": "best_two", "normalize": normalize, "scaling": scaling}
    n_beyond = config.integer("num_nextn_predict_layers", low=0, high=MAX_LAYERS, default=1)
    return replace(_settings(config, layout=layout, **routing, **_groups(config, 2)), n_beyond=n_beyond)


def _normalizes(config: Config, default: bool) -> bool:
    """Whether the shares are divided by their sum; a single one never is."""
    return config.flag("norm_topk_prob", default=default) and config.integer("num_experts_per_tok") > 1


def _groups(config: Config, n_counted: int) -> dict[str, Any]:
    """In how many groups the experts stand, and of how many each token takes its own.

    A group is worth what its best `n_counted` experts are.
    """
    n_experts = config.integer("n_routed_experts")
    n_groups = config.integer("n_group", high=n_experts, default=1)
    n_active = config.integer("topk_group", high=n_groups, default=1)
    if n_experts % n_groups:
        raise config.wrong("n_group", f"a divisor of n_routed_experts={n_experts}")
    if n_active < n_groups and n_experts < n_counted * n_groups:
        raise config.wrong("n_group", f"at most {n_experts // n_counted}")
    config.integer("num_experts_per_tok", high=n_experts // n_groups * n_active)
    return {"n_groups": n_groups, "n_active_groups": n_active}


def _no_groups(config: Config) -> dict[str, Any]:
    """Greedy choice looks at no groups, whatever the file says of them."""
    config.optional("n_group"), config.optional("topk_group")
    return {}


def _settings(config: Config, layout: str, **routing: Any) -> LatentSettings:
    d_k, d_rope = config.integer("qk_nope_head_dim", default=128), config.integer("qk_rope_head_dim", default=64)
    n_heads, n_layers = config.integer("num_attention_heads"), config.integer("num_hidden_layers", high=MAX_LAYERS)
    config.must_be(num_key_value_heads=n_heads, head_dim=d_rope, qk_head_dim=d_k + d_rope)
    n_positions = config.integer("max_position_embeddings")
    rotary = read_rotary(config, *rope_values(config), d_rope, n_positions)
    rotary = replace(rotary, layout=layout, rotary_dim=rotary.rotary_dim or d_rope)
    first, every = config.integer("first_k_dense_replace", low=0), config.integer("moe_layer_freq", default=1)
    experts = expert_settings(config, "moe_intermediate_size", **routing)
    bias = config.flag("attention_bias", default=False)
    read = llama_settings(
        config, d_k=d_k, qkv_bias=bias, o_bias=bias, scale=_scale(rotary, d_k + d_rope),
        rotary=(rotary,) * n_layers, n_positions=longest(n_positions, rotary),
        expert_layers=tuple(layer >= first and layer % every == 0 for layer in range(n_layers)),
        d_shared=(config.optional("n_shared_experts") or 0) * experts["d_expert"], **experts,
    )  # fmt: skip
    latent = LatentSettings(
        **vars(read), d_q=config.optional("q_lora_rank"), d_latent=config.integer("kv_lora_rank", default=512),
        d_rope=d_rope, d_v=config.integer("v_head_dim", default=128),
    )  # fmt: skip
    config.finish(harmless=UNREAD_HERE)
    return latent


def _scale(rotary: Rotary, width: int) -> float:
    """Of the scores: a stretched rotation has its part in it."""
    stretched = rotary.scaling.softmax_scale if isinstance(rotary.scaling, Yarn) else 1.0
    return float(width**-0.5 * stretched)


def rows(settings: LatentSettings, names: Collection[str]) -> Iterator[Row]:
    def attention(layer: int) -> Iterator[Row]:
        return latent_rows(settings, f"layers.{layer}.attention", f"layers.{layer}.self_attn")

    def feed_forward(layer: int) -> Iterator[Row]:
        ours, foreign = f"layers.{layer}.feed_forward", f"layers.{layer}.mlp"
        if not settings.expert_layers[layer]:
            yield from llama_feed_forward(settings, f"layers.{layer}", f"layers.{layer}")
            return
        yield from expert_rows(settings, ours, foreign, names)
        if settings.routing is not None and settings.routing.score == "sigmoid":
            yield Row(f"{ours}.correction", f"{foreign}.gate.e_score_correction_bias", "n_experts")
        if settings.d_shared:
            yield from shared_rows(f"{ours}.shared", f"{foreign}.shared_experts")

    return llama_rows(settings, names, feed_forward, attention)


def latent_rows(settings: LatentSettings, ours: str, foreign: str) -> Iterator[Row]:
    """Three of the matrices hold two of ours: side by side, or side by side in each head."""
    n_heads, d_k, source, d_in = settings.n_heads, settings.d_k, f"{foreign}.q_proj", "d_model"
    if settings.d_q is not None:
        yield from linear(ours, "DQ", f"{foreign}.q_a_proj", "d_model", "d_q", settings.qkv_bias)
        yield from norm(settings, f"{ours}.q_norm", f"{foreign}.q_a_layernorm", "d_q")
        source, d_in = f"{foreign}.q_b_proj", "d_q"
    for letters, cut in zip(("Q", "QR"), in_each_head(n_heads, d_k, settings.d_rope)):
        yield from linear(ours, letters, source, d_in, "both_width", False, cut)
    down = f"{foreign}.kv_a_proj_with_mqa"
    for letters, cut in zip(("DKV", "KR"), side_by_side(settings.d_latent, settings.d_rope)):
        yield from linear(ours, letters, down, "d_model", "down_width", settings.qkv_bias, cut)
    yield from norm(settings, f"{ours}.latent_norm", f"{foreign}.kv_a_layernorm", "d_latent")
    for letters, cut in zip(("UK", "UV"), in_each_head(n_heads, d_k, settings.d_v)):
        yield from linear(ours, letters, f"{foreign}.kv_b_proj", "d_latent", "up_width", False, cut)
    yield from linear(ours, "O", f"{foreign}.o_proj", "v_width", "d_model", settings.o_bias)


def in_each_head(n_heads: int, *widths: int) -> list[Callable[[Array], Array]]:
    """Cuts of a tensor whose first axis holds, head after head, parts of these widths."""

    def within(cut: Callable[[Array], Array]) -> Callable[[Array], Array]:
        def taken(x: Array) -> Array:
            heads = x.reshape(n_heads, sum(widths), -1).swapaxes(0, 1)
            return cut(heads).swapaxes(0, 1).reshape(-1, *x.shape[1:])

        return taken

    return [within(cut) for cut in side_by_side(*widths)]


def beyond(settings: LatentSettings) -> list[str]:
    """Layers that predict further tokens stand behind the last one, under the next numbers."""
    return [f"layers.{settings.n_layers + i}.*" for i in range(settings.n_beyond)]


DEEPSEEK_V2 = Family("deepseek_v2", architectures_of("DeepseekV2"), v2_settings, rows, without_model)
DEEPSEEK_V3 = Family("deepseek_v3", architectures_of("DeepseekV3"), v3_settings, rows, without_model, left_out=beyond)
