"""Models in GGUF files: a family's row read by the names of llama.cpp, which differ from those of transformers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import FileError
from ..layers import Rotary
from ..ops.precision import Array
from ..ops.scaling import LongRoPE
from .config import MISSING, Config, T
from .decoders import DecoderSettings
from .gemma import GEMMA2
from .gguf import GGUFFile
from .llama import LLAMA
from .qwen import QWEN2, QWEN3
from .weights import Family, Row

# What a setting is called, after the architecture and a dot; and in a config.json.
SETTINGS = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.sliding_window": "sliding_window",
    "rope.freq_base": "rope_theta",
    "vocab_size": "vocab_size",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
}
STRETCH, FACTOR = "rope.scaling.type", "rope.scaling.factor"
TRAINED = "rope.scaling.original_context_length"  # asked for by yarn alone
OTHERS = (STRETCH, FACTOR, TRAINED, "rope.scaling.finetuned")
# What a tensor is called, without its layer; and in a transformers checkpoint.
TENSORS = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output"}
LAYER = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}  # fmt: skip
FOUR_NORMS = LAYER | {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
                      "post_feedforward_layernorm": "post_ffw_norm"}  # fmt: skip
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
    only : collection of str
        Settings that no other architecture here has.
    known : callable (settings) -> settings
        What the program knows of the model, and its file does not say.
    """

    family: Family[DecoderSettings]
    layer: Mapping[str, str]
    interleaved: bool = False
    only: Collection[str] = ()
    known: Callable[[DecoderSettings], DecoderSettings] = lambda settings: settings


def _gemma2(settings: DecoderSettings) -> DecoderSettings:
    """The largest, of 46 layers, scales its scores by another width than that of a head."""
    width = settings.d_model / settings.n_heads if settings.n_layers == 46 else settings.d_k
    return replace(settings, scale=width**-0.5)


SOFTCAPS = ("attention.sliding_window", "attn_logit_softcapping", "final_logit_softcapping")
ARCHITECTURES = {
    "llama": Architecture(LLAMA, LAYER, interleaved=True),
    "qwen2": Architecture(QWEN2, LAYER),
    "qwen3": Architecture(QWEN3, LAYER),
    "gemma2": Architecture(GEMMA2, FOUR_NORMS, only=SOFTCAPS, known=_gemma2),
}
ONLY = frozenset(name for architecture in ARCHITECTURES.values() for name in architecture.only)


class Metadata(Config):
    """The settings in a GGUF file as a family asks for them; messages name them as the file does."""

    def __init__(self, file: GGUFFile, architecture: str) -> None:
        self._prefix = f"{architecture}."
        own = {name.removeprefix(self._prefix): value for name, value in file.metadata.items()
               if name.startswith(self._prefix)}  # fmt: skip
        values = {ours: own[theirs] for theirs, ours in SETTINGS.items() if theirs in own}
        if isinstance(tokens := file.metadata.get("tokenizer.ggml.tokens"), list):
            values.setdefault("vocab_size", len(tokens))
        values["tie_word_embeddings"] = "output.weight" not in file.shapes
        values["attention_bias"] = "blk.0.attn_q.bias" in file.shapes
        values["mlp_bias"] = "blk.0.ffn_gate.bias" in file.shapes
        if (stretch := str(own.get(STRETCH, "none"))) != "none":
            values["rope_scaling"] = {"rope_type": stretch, "factor": own.get(FACTOR)}
        if stretch == "yarn" and TRAINED in own:
            values["rope_scaling"]["original_max_position_embeddings"] = own[TRAINED]
        super().__init__(file.path, values)
        if "head_dim" not in values:
            values["head_dim"] = self.integer("hidden_size") // self.integer("num_attention_heads")
        self._refuse(own, ONLY - set(ARCHITECTURES[architecture].only))

    def raw(self, name: str, default: T = MISSING) -> Any | T:
        if default is MISSING and name not in self.values:
            raise FileError("config_missing", path=self.path, name=self._theirs(name))
        return super().raw(name, default)

    def wrong(self, name: str, expected: str) -> FileError:
        value = self.values.get(name)
        return FileError("config_value", path=self.path, name=self._theirs(name), expected=expected, value=value)

    def _theirs(self, name: str) -> str:
        found = next((theirs for theirs, ours in SETTINGS.items() if ours == name), name)
        return self._prefix + {"rope_scaling": STRETCH}.get(found, found)

    def finish(self, harmless: Collection[str] = ()) -> None:
        """Every setting of the file was looked at before the first was asked for."""

    def _refuse(self, own: Mapping[str, Any], of_others: Collection[str]) -> None:
        """Settings that are not known; and those that would change the meaning, but for what is read here."""
        width = self.values["head_dim"]
        fixed = {"attention.value_length": width, "rope.dimension_count": width, "expert_count": 0,
                 "expert_used_count": 0}  # fmt: skip
        known = {*SETTINGS, *fixed, *OTHERS}.difference(of_others)
        for name, value in own.items():
            if name not in known:
                raise FileError("config_unknown", path=self.path, name=self._prefix + name)
            if name in fixed and value != fixed[name]:
                raise FileError("config_value", path=self.path, name=self._prefix + name, expected=repr(fixed[name]),
                                value=value)  # fmt: skip


def architecture_of(file: GGUFFile) -> str:
    """Which of `ARCHITECTURES` the file names."""
    name = file.metadata.get("general.architecture")
    if name is None:
        raise FileError("config_missing", path=file.path, name="general.architecture")
    if not isinstance(name, str) or name not in ARCHITECTURES:
        raise FileError("no_architecture", path=file.path, architecture=name, known=", ".join(ARCHITECTURES))
    return name


def read_settings(file: GGUFFile, name: str) -> DecoderSettings:
    """The settings of a model of the architecture `name`."""
    architecture = ARCHITECTURES[name]
    settings = architecture.known(architecture.family.settings(Metadata(file, name)))
    if not architecture.interleaved or DIVISORS not in file.shapes:
        return settings
    return replace(settings, rotary=(_divided(file, settings),) * settings.n_layers)


def _divided(file: GGUFFile, settings: DecoderSettings) -> Rotary:
    """Llama 3.1 stretches its rotation by bands; the file has what that comes to, a divisor for each pair."""
    expected = (settings.d_k // 2,)
    if file.shapes[DIVISORS] != expected:
        raise FileError("tensor_shape", path=file.path, name=DIVISORS, expected=expected, shape=file.shapes[DIVISORS])
    divisors = file.read(DIVISORS)
    if divisors.min() <= 0:
        raise FileError("tensor_value", path=file.path, name=DIVISORS, what=float(divisors.min()))
    rotary, same = settings.rotary[0] or Rotary(), tuple(map(float, divisors))
    never_longer = settings.n_positions or 2**31
    return replace(rotary, scaling=LongRoPE(same, same, never_longer, attention_factor=1.0))


def family_of(name: str) -> Family[DecoderSettings]:
    """The family with its tensors under the names that llama.cpp gives them."""
    architecture = ARCHITECTURES[name]

    def rows(settings: DecoderSettings, names: Collection[str]) -> Iterator[Row]:
        head = {"lm_head.weight"} if "output.weight" in names else set()
        for row in architecture.family.rows(settings, head):
            yield _row(row, architecture, settings)

    buffers = (DIVISORS,) if architecture.interleaved else ()
    return replace(architecture.family, heads={}, rows=rows, canonical=lambda name: name, buffers=buffers)


def _row(row: Row, architecture: Architecture, settings: DecoderSettings) -> Row:
    """The row under its other name. Norms are stored as they are applied, whatever the family's own files do."""
    stem, kind = row.foreign.rsplit(".", 1)
    if not stem.startswith("layers."):
        return replace(row, foreign=f"{TENSORS[stem]}.{kind}", plus=0.0)
    _, layer, part = stem.split(".", 2)
    cut = None
    if architecture.interleaved and part in ("self_attn.q_proj", "self_attn.k_proj"):
        cut = _in_halves(settings.n_heads if part == "self_attn.q_proj" else settings.n_kv_heads)
    return replace(row, foreign=f"blk.{layer}.{architecture.layer[part]}.{kind}", plus=0.0, cut=cut)


def _in_halves(n_heads: int) -> Callable[[Array], Array]:
    """Rows of each head that stand in pairs, 2i and 2i + 1, as i and i + d_k / 2."""

    def cut(x: Array) -> Array:
        pairs = x.reshape(n_heads, -1, 2, *x.shape[1:])
        return pairs.swapaxes(1, 2).reshape(x.shape)

    return cut
