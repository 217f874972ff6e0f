"""The settings of a decoder: one row of values that tells it from all others, and how Llama's names give them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ...layers import Rotary, Routing
from ...layers.experts import ClampedSwiGLU
from ...ops.biases import Bias
from ..config import ACTIVATIONS, HARMLESS, Config
from ..weights import MAX_LAYERS, Family
from .classifier import ClassifierSettings, read_classifier
from .rope import longest, read_rotary, rope_values

# Of training, of the splitting over several machines, or of other libraries: a forward pass never asks for them.
UNREAD = HARMLESS | {
    "_sliding_window_pattern", "attention_dropout", "attn_pdrop", "auto_map", "cache_implementation", "embd_pdrop",
    "hidden_dropout", "hidden_dropout_prob", "is_encoder_decoder", "is_llama_config", "keys_to_ignore_at_inference",
    "pretraining_tp", "remove_invalid_values", "resid_pdrop", "transformers.js_config", "unsloth_fixed",
    "unsloth_version",
}  # fmt: skip
FULL, SLIDING = "full_attention", "sliding_attention"


@dataclass(frozen=True)
class DecoderSettings:
    """The row of a table: every value in which one decoder differs from another, besides its weights.

    Attributes
    ----------
    d_model, d_ff, n_heads, n_kv_heads, d_k, n_layers, vocab_size : int
    n_positions : int or None
        The longest sequence. None: no end.
    eps : float
        Of the norms.
    activation : str
        One of `qkv.layers.parts.ACTIVATIONS`.
    norm : {"rms", "layer"}
    order : {"pre", "post"}
        As in `Block`.
    parallel : bool
        As in `Block`.
    rotary : tuple of (Rotary or None)
        One per layer; an empty tuple for no rotation anywhere.
    windows : tuple of (int or None)
        How many keys each layer looks back at, the query's own included; empty for all of them everywhere.
    scale : float or None
        Of the scores; None: 1 / sqrt(d_k).
    softcap, final_softcap : float or None
        Of the scores, and of the logits.
    bias : Bias or None
        What the scores get by position, like ALiBi's penalty.
    embedding_scale : float or None
        What the vectors of the tokens are multiplied with.
    qkv_bias, o_bias, ff_bias : bool
        Which matrices have a bias.
    tied : bool
        Whether the table of tokens is also the head, where the file has no other.
    headless : bool
        Whether the file need not have a head for the next token: it holds what stands below one.
    classifier : ClassifierSettings or None
        Where the file has a head for whole texts.
    padding_id : int or None
        A token that a head for whole texts does not count as the last one.
    routing : Routing or None
        How the tokens of layers with experts find theirs.
    expert_layers : tuple of bool
        Which layers have experts; an empty tuple for none.
    n_experts, d_expert, d_shared : int
        How many there are, and the hidden width of each, and of the one that all tokens go through (0: there is none).
    expert_gate : ClampedSwiGLU or None
        The gate of each expert, where an activation alone does not say it.
    """

    d_model: int
    d_ff: int
    n_heads: int
    n_kv_heads: int
    d_k: int
    n_layers: int
    vocab_size: int
    n_positions: int | None
    eps: float
    activation: str
    norm: str = "rms"
    order: str = "pre"
    parallel: bool = False
    rotary: tuple[Rotary | None, ...] = ()
    windows: tuple[int | None, ...] = ()
    scale: float | None = None
    softcap: float | None = None
    final_softcap: float | None = None
    bias: Bias | None = None
    embedding_scale: float | None = None
    qkv_bias: bool = False
    o_bias: bool = False
    ff_bias: bool = False
    tied: bool = False
    headless: bool = False
    classifier: ClassifierSettings | None = None
    padding_id: int | None = None
    routing: Routing | None = None
    expert_layers: tuple[bool, ...] = ()
    n_experts: int = 0
    d_expert: int = 0
    d_shared: int = 0
    expert_gate: ClampedSwiGLU | None = None

    @property
    def n_labels(self) -> int:
        return 0 if self.classifier is None else len(self.classifier.labels)

    @property
    def q_width(self) -> int:
        return self.n_heads * self.d_k

    @property
    def kv_width(self) -> int:
        return self.n_kv_heads * self.d_k

    @property
    def qkv_width(self) -> int:
        return self.q_width + 2 * self.kv_width

    @property
    def opt_positions(self) -> int:
        """OPT's table of positions has two rows that stand for nothing."""
        return (self.n_positions or 0) + 2

    @property
    def gate_up_width(self) -> int:
        return 2 * self.d_ff

    @property
    def expert_gate_up_width(self) -> int:
        return 2 * self.d_expert


def architectures_of(name: str, causal: str = "ForCausalLM", base: str = "Model") -> dict[str, tuple[str, ...]]:
    """The architectures of a family as transformers names them: two with a head, and the inner model alone."""
    names = (f"{name}{causal}", f"{name}{base}", f"{name}{base.removesuffix('Model')}ForSequenceClassification")
    return dict.fromkeys(names, ())


def with_head(family: Family[Any]) -> Family[Any]:
    """The family, with settings that also say what the architectures do: the inner model alone, or which head."""

    def settings(config: Config) -> DecoderSettings:
        read: DecoderSettings = family.settings(config)
        bare = [name.endswith("Model") and not name.endswith("LMHeadModel") for name in config.architectures]
        if (classifier := read_classifier(config)) is None:
            return replace(read, headless=bool(bare) and all(bare))
        padding_id = config.optional("pad_token_id", low=-1)
        return replace(read, headless=True, tied=False, classifier=classifier, padding_id=padding_id)

    return replace(family, settings=settings)


def llama_sizes(config: Config) -> dict[str, Any]:
    """The settings that Llama and all who took over its names write alike."""
    d_model, n_heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    n_kv_heads = config.optional("num_key_value_heads", n_heads) or n_heads
    if n_heads % n_kv_heads:
        raise config.wrong("num_attention_heads", f"a multiple of num_key_value_heads={n_kv_heads}")
    return {
        "d_model": d_model,
        "d_ff": config.integer("intermediate_size"),
        "n_heads": n_heads,
        "n_kv_heads": n_kv_heads,
        "d_k": config.optional("head_dim") or head_width(config, d_model, n_heads),
        "n_layers": config.integer("num_hidden_layers", high=MAX_LAYERS),
        "vocab_size": config.integer("vocab_size"),
        "eps": config.small("rms_norm_eps", default=1e-6),
        "tied": config.flag("tie_word_embeddings", default=False),
    }


def llama_settings(config: Config, **known: Any) -> DecoderSettings:
    """Settings of a model with Llama's names; what is `known` of the family comes first."""
    read = llama_sizes(config) | known
    if "activation" not in known:
        read["activation"] = config.choice("hidden_act", ACTIVATIONS, default="silu")
    if "rotary" not in known:
        n_positions = config.integer("max_position_embeddings")
        rotary = read_rotary(config, *rope_values(config), read["d_k"], n_positions)
        read |= {"n_positions": longest(n_positions, rotary), "rotary": (rotary,) * read["n_layers"]}
    return DecoderSettings(**read)


def head_width(config: Config, d_model: int, n_heads: int, name: str = "hidden_size") -> int:
    """The width of a head that is a share of `d_model`."""
    if d_model % n_heads:
        raise config.wrong(name, f"a multiple of the {n_heads} heads")
    return d_model // n_heads


def layer_types(config: Config, n_layers: int, default: Callable[[int], bool]) -> tuple[bool, ...]:
    """Which layers slide: as `layer_types` says, else by a rule on the layer's number."""
    given = config.raw("layer_types", None)
    if given is None:
        return tuple(default(layer) for layer in range(n_layers))
    if not isinstance(given, list) or len(given) != n_layers or any(kind not in (FULL, SLIDING) for kind in given):
        raise config.wrong("layer_types", f"{n_layers} times {FULL} or {SLIDING}")
    return tuple(kind == SLIDING for kind in given)


def windows(config: Config, sliding: tuple[bool, ...], size: int | None) -> tuple[int | None, ...]:
    """The window of each layer; a layer that slides needs one."""
    if any(sliding) and size is None:
        raise config.wrong("sliding_window", "an integer, for there are layers that slide")
    return tuple(size if slides else None for slides in sliding)
