"""Settings and rows of layers with experts: the names that most families share, one tensor per expert or all in one."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from ...layers import Routing
from ..config import Config
from ..weights import Row
from .decoders import DecoderSettings

MAX_EXPERTS = 2**16
# What their number is called; transformers 5 writes the first for families whose own files have another.
COUNTS = ["num_local_experts", "num_experts", "n_routed_experts"]
# Of training, or of what is given out beside the logits.
UNREAD_OF_EXPERTS = {"output_router_logits", "router_aux_loss_coef", "router_jitter_noise"}
PARTS = ("gate_proj", "up_proj", "down_proj")
STACK, HALVES = "experts.gate_up_proj", "expert_gate_up_width"


def expert_settings(config: Config, d_expert: str, **routing: Any) -> dict[str, Any]:
    """How many experts there are, how wide (`d_expert` is the name of that setting), and how they are chosen."""
    given = [name for name in COUNTS if config.raw(name, None) is not None] or COUNTS[:1]
    count = config.integer(given[0], high=MAX_EXPERTS)
    config.must_be(**dict.fromkeys(given, count))
    n_active = config.integer("num_experts_per_tok", high=count)
    return {
        "n_experts": count,
        "d_expert": config.integer(d_expert),
        "routing": Routing(n_active, **routing),
    }


def expert_rows(
    settings: DecoderSettings, ours: str, foreign: str, names: Collection[str], parts: tuple[str, str, str] = PARTS
) -> Iterator[Row]:
    """The router and the experts of one layer.

    Parameters
    ----------
    settings : DecoderSettings
    ours, foreign : str
        Where the feed-forward part stands: `layers.0.feed_forward`, and `layers.0.mlp`.
    names : collection of str
        Those of the file: newer ones hold the experts as two tensors.
    parts : tuple of str
        What gate, up and down of each expert are called where it has tensors of its own.
    """
    yield Row(f"{ours}.W_router", f"{foreign}.gate.weight", "n_experts d_model", transposed=True)
    if f"{foreign}.{STACK}" in names:
        half, axes = settings.d_expert, f"n_experts {HALVES} d_model"
        yield Row(f"{ours}.W_gate", f"{foreign}.{STACK}", axes, transposed=True, cut=lambda x: x[:, :half])
        yield Row(f"{ours}.W_up", f"{foreign}.{STACK}", axes, transposed=True, cut=lambda x: x[:, half:])
        yield Row(f"{ours}.W_down", f"{foreign}.experts.down_proj", "n_experts d_model d_expert", transposed=True)
        return
    for part, theirs, axes in zip(("gate", "up", "down"), parts, 2 * ("d_expert d_model",) + ("d_model d_expert",)):
        name = f"{foreign}.experts.*.{theirs}.weight"
        yield Row(f"{ours}.W_{part}", name, axes, transposed=True, stacked="n_experts")


def shared_rows(ours: str, foreign: str) -> Iterator[Row]:
    """The expert that every token goes through: `layers.0.feed_forward.shared`, and `layers.0.mlp.shared_expert`."""
    for part, axes in zip(("gate", "up", "down"), 2 * ("d_shared d_model",) + ("d_model d_shared",)):
        yield Row(f"{ours}.W_{part}", f"{foreign}.{part}_proj.weight", axes, transposed=True)
