"""Models in GGUF files: a family's row read by the names of llama.cpp, which differ from those of transformers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ...errors import FileError
from ...layers import Rotary
from ...ops.scaling import LongRoPE
from ..config import MISSING, Config, T
from ..families.decoders import DecoderSettings
from ..weights import Family, Row
from .architectures import ARCHITECTURES, DIVISORS, MIXTRAL_FILES, SETTINGS, Architecture
from .file import GGUFFile
from .rows import renamed

STRETCH, FACTOR = "rope.scaling.type", "rope.scaling.factor"
TRAINED = "rope.scaling.original_context_length"  # asked for by yarn alone
BETAS = {"rope.scaling.yarn_beta_fast": "beta_fast", "rope.scaling.yarn_beta_slow": "beta_slow"}
OTHERS = (STRETCH, FACTOR, TRAINED, "rope.scaling.finetuned")


class Metadata(Config):
    """The settings in a GGUF file as a family asks for them; messages name them as the file does."""

    def __init__(self, file: GGUFFile, name: str, architecture: Architecture) -> None:
        self._prefix = f"{name}."
        self._names = SETTINGS | dict(architecture.settings)
        own = {key.removeprefix(self._prefix): value for key, value in file.metadata.items()
               if key.startswith(self._prefix)}  # fmt: skip
        values = {ours: own[theirs] for theirs, ours in self._names.items() if theirs in own}
        if isinstance(tokens := file.metadata.get("tokenizer.ggml.tokens"), list):
            values.setdefault("vocab_size", len(tokens))
        values["tie_word_embeddings"] = "output.weight" not in file.shapes
        values["attention_bias"] = "blk.0.attn_q.bias" in file.shapes
        values["mlp_bias"] = "blk.0.ffn_gate.bias" in file.shapes
        values |= self._stretch(own)
        super().__init__(file.path, values)
        if "head_dim" not in values and SETTINGS.items() <= self._names.items():
            values["head_dim"] = self.integer("hidden_size") // self.integer("num_attention_heads")
        known = architecture.values({"attention.key_length": values.get("head_dim"), **own}, file)
        if "truncate" in known:  # of the stretch of the rotation
            values.get("rope_scaling", {})["truncate"] = known.pop("truncate")
        values |= known
        self._refuse(own, architecture)

    def _stretch(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """How the rotation is stretched."""
        if (kind := str(own.get(STRETCH, "none"))) == "none":
            return {}
        found: dict[str, Any] = {"rope_type": kind, "factor": own.get(FACTOR)}
        if kind == "yarn":
            found |= {ours: own[theirs] for theirs, ours in BETAS.items() if theirs in own}
        if kind == "yarn" and TRAINED in own:
            found["original_max_position_embeddings"] = own[TRAINED]
        return {"rope_scaling": found}

    def raw(self, name: str, default: T = MISSING) -> Any | T:
        if default is MISSING and name not in self.values:
            raise FileError("config_missing", path=self.path, name=self._theirs(name))
        return super().raw(name, default)

    def wrong(self, name: str, expected: str) -> FileError:
        value = self.values.get(name)
        return FileError("config_value", path=self.path, name=self._theirs(name), expected=expected, value=value)

    def _theirs(self, name: str) -> str:
        found = next((theirs for theirs, ours in self._names.items() if ours == name), name)
        return self._prefix + {"rope_scaling": STRETCH}.get(found, found)

    def finish(self, harmless: Collection[str] = ()) -> None:
        """Every setting of the file was looked at before the first was asked for."""

    def _refuse(self, own: Mapping[str, Any], architecture: Architecture) -> None:
        """Settings that are not known; and those that would change the meaning, but for what is read here."""
        width = self.values.get("head_dim")
        fixed = {"attention.value_length": width, "rope.dimension_count": width, **architecture.fixed}
        if "partial_rotary_factor" in self.values:
            del fixed["rope.dimension_count"]
        betas = BETAS if own.get(STRETCH) == "yarn" else ()
        for name, value in own.items():
            if name in fixed and value != fixed[name]:
                raise FileError("config_value", path=self.path, name=self._prefix + name, expected=repr(fixed[name]),
                                value=value)  # fmt: skip
            if name not in {*self._names, *fixed, *OTHERS, *betas, "rope.dimension_count"}:
                raise FileError("config_unknown", path=self.path, name=self._prefix + name)


def architecture_of(file: GGUFFile) -> str:
    """Which of `ARCHITECTURES` the file names."""
    name = file.metadata.get("general.architecture")
    if name is None:
        raise FileError("config_missing", path=file.path, name="general.architecture")
    if not isinstance(name, str) or name not in ARCHITECTURES:
        raise FileError("no_architecture", path=file.path, architecture=name, known=", ".join(ARCHITECTURES))
    return name


def written_as(file: GGUFFile) -> Architecture:
    """How the file is written; a Llama that says how many experts it has is a Mixtral."""
    name = architecture_of(file)
    return MIXTRAL_FILES if name == "llama" and file.metadata.get("llama.expert_count") else ARCHITECTURES[name]


def read_settings(file: GGUFFile) -> DecoderSettings:
    """The settings of a model."""
    architecture = written_as(file)
    settings = architecture.known(architecture.family.settings(Metadata(file, architecture_of(file), architecture)))
    if DIVISORS not in architecture.buffers or DIVISORS not in file.shapes:
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


def family_of(file: GGUFFile) -> Family[DecoderSettings]:
    """The family with its tensors under the names that llama.cpp gives them."""
    architecture = written_as(file)

    def rows(settings: DecoderSettings, names: Collection[str]) -> Iterator[Row]:
        head = {"lm_head.weight"} if "output.weight" in names else set()
        for row in (architecture.rows or architecture.family.rows)(settings, {*names, *head}):
            yield renamed(row, architecture.layer, settings, architecture.interleaved)

    return replace(architecture.family, heads={}, rows=rows, canonical=lambda name: name, buffers=architecture.buffers)
