"""The architectures of llama.cpp whose files are read: of each the family, its names, and what the program knows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..families.bloom import BLOOM
from ..families.decoders import DecoderSettings
from ..families.falcon import FALCON
from ..families.gemma import GEMMA, GEMMA2, GEMMA3
from ..families.gpt2 import GPT2
from ..families.gpt_oss import GPT_OSS
from ..families.llama import LLAMA
from ..families.mixtral import MIXTRAL
from ..families.olmo2 import OLMO2
from ..families.phi3 import PHI3
from ..families.qwen import QWEN2, QWEN3
from ..families.qwen_moe import QWEN2_MOE, QWEN3_MOE
from ..families.smollm3 import SMOLLM3
from ..weights import MAX_LAYERS, Family, Row
from .file import GGUFFile
from .rows import AFTER, FOUR_NORMS, LAYER, expert_rows, joined_rows

Own = Mapping[str, Any]  # the settings of a file, without the architecture in front
Rows = Callable[[DecoderSettings, Collection[str]], Iterator[Row]]
# What a setting is called in all of them, after the architecture and a dot; and in a config.json.
SETTINGS = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "rope.freq_base": "rope_theta",
    "vocab_size": "vocab_size",
}
WINDOW = {"attention.sliding_window": "sliding_window"}
SOFTCAPS = {name: name for name in ("attn_logit_softcapping", "final_logit_softcapping")}
EXPERTS = {"expert_count": "num_local_experts", "expert_used_count": "num_experts_per_tok"}
SMALL_EXPERTS = EXPERTS | {"expert_feed_forward_length": "moe_intermediate_size"}
SHARED_EXPERT = {"expert_shared_feed_forward_length": "shared_expert_intermediate_size"}
OLDER = {"attention.layer_norm_epsilon": "layer_norm_epsilon"}
FACTORS = {"short_factor": "rope_factors_short.weight", "long_factor": "rope_factors_long.weight"}
DIVISORS = "rope_freqs.weight"


@dataclass(frozen=True)
class Architecture:
    """How llama.cpp writes the models of a family.

    Attributes
    ----------
    family : Family
    layer : mapping of str to str
        The names of a layer's tensors.
    interleaved : bool
        Rows of W_Q and W_K stand in pairs, 2i and 2i + 1, where the family's own files have i and i + d_k / 2.
    settings : mapping of str to str
        Settings besides those that all have, and their names in the family's own files.
    rows : callable (settings, names) -> iterator of Row, optional
        Where the family's own, under other names, do not do.
    fixed : mapping of str to value
        Settings of the file that must have this value, where they stand in it.
    values : callable (own settings, file) -> dict
        What the family asks for and the file says in another way, or the program knows.
    known : callable (settings) -> settings
        Likewise, of what follows from the settings.
    buffers : collection of str
        Tensors that are no weights.
    """

    family: Family[DecoderSettings]
    layer: Mapping[str, str] = field(default_factory=lambda: LAYER)
    interleaved: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    rows: Rows | None = None
    fixed: Own = field(default_factory=dict)
    values: Callable[[Own, GGUFFile], dict[str, Any]] = lambda own, file: {}
    known: Callable[[DecoderSettings], DecoderSettings] = lambda settings: settings
    buffers: Collection[str] = ()


def _scale(n_layers: int) -> Callable[[DecoderSettings], DecoderSettings]:
    """The largest of a family, of so many layers, scales its scores by another width than that of a head."""

    def known(settings: DecoderSettings) -> DecoderSettings:
        width = settings.d_model / settings.n_heads if settings.n_layers == n_layers else settings.d_k
        return replace(settings, scale=width**-0.5)

    return known


def _falcon(own: Own, file: GGUFFile) -> dict[str, Any]:
    """Two norms in front of a layer are the newer form; before, there is one key head or one for each query head."""
    newer, several = "blk.0.attn_norm_2.weight" in file.shapes, own.get("attention.head_count_kv")
    return {"new_decoder_architecture": newer, "multi_query": several == 1, "num_kv_heads": several}


def _phi3(own: Own, file: GGUFFile) -> dict[str, Any]:
    """LongRoPE: the divisors are tensors."""
    width = own.get("attention.key_length")
    turning = own.get("rope.dimension_count", width)
    found: dict[str, Any] = {}
    if isinstance(width, int) and isinstance(turning, int) and width and turning != width:
        found["partial_rotary_factor"] = turning / width
    if all(name in file.shapes for name in FACTORS.values()):
        factors = {ours: file.read(theirs).ravel().tolist() for ours, theirs in FACTORS.items()}
        found["rope_scaling"] = {"rope_type": "longrope", **factors}
        if "rope.scaling.attn_factor" in own:
            found["rope_scaling"]["attention_factor"] = own["rope.scaling.attn_factor"]
    return found


def _without_experts(own: Own, file: GGUFFile) -> dict[str, Any]:
    """Layers in which no router stands."""
    count = own.get("block_count")
    layers = range(min(count, MAX_LAYERS) if isinstance(count, int) else 0)
    return {"mlp_only_layers": [i for i in layers if f"blk.{i}.ffn_gate_inp.weight" not in file.shapes]}


MIXTRAL_FILES = Architecture(MIXTRAL, interleaved=True, settings=EXPERTS, rows=expert_rows, buffers=(DIVISORS,))
ARCHITECTURES = {
    "llama": Architecture(LLAMA, interleaved=True, fixed={"expert_count": 0, "expert_used_count": 0},
                          buffers=(DIVISORS,)),
    "qwen2": Architecture(QWEN2),
    "qwen3": Architecture(QWEN3),
    "gemma": Architecture(GEMMA),
    "gemma2": Architecture(GEMMA2, FOUR_NORMS, settings=WINDOW | SOFTCAPS, known=_scale(46)),
    "gemma3": Architecture(GEMMA3, FOUR_NORMS, known=_scale(62),
                           settings=WINDOW | SOFTCAPS | {"rope.freq_base_swa": "rope_local_base_freq"}),
    "phi3": Architecture(
        PHI3, values=_phi3, buffers=tuple(FACTORS.values()),
        settings=WINDOW | {"rope.scaling.original_context_length": "original_max_position_embeddings",
                           "rope.scaling.attn_factor": "attention_factor"},
    ),
    "olmo2": Architecture(OLMO2, FOUR_NORMS),
    "smollm3": Architecture(SMOLLM3, interleaved=True),
    "gpt2": Architecture(GPT2, rows=joined_rows, settings=OLDER | {
        "block_count": "n_layer", "context_length": "n_positions", "embedding_length": "n_embd",
        "feed_forward_length": "n_inner", "attention.head_count": "n_head",
    }),
    "bloom": Architecture(BLOOM, rows=joined_rows, settings=OLDER),
    "falcon": Architecture(FALCON, rows=joined_rows, settings=OLDER | {"feed_forward_length": "ffn_hidden_size"},
                           fixed={"tensor_data_layout": "jploski"}, values=_falcon),
    "qwen2moe": Architecture(QWEN2_MOE, rows=expert_rows, settings=SMALL_EXPERTS | SHARED_EXPERT,
                             values=_without_experts),
    "qwen3moe": Architecture(QWEN3_MOE, rows=expert_rows, settings=SMALL_EXPERTS,
                             values=lambda own, file: {"norm_topk_prob": True, **_without_experts(own, file)}),
    "gpt-oss": Architecture(
        GPT_OSS, AFTER, rows=expert_rows,
        settings=EXPERTS | WINDOW | {"expert_feed_forward_length": "intermediate_size"},
        values=lambda own, file: {"truncate": False},
    ),
}  # fmt: skip
