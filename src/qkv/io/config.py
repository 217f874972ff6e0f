"""Reading a model's configuration so that nothing in it is ignored unseen."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ..errors import FileError
from .files import read_json

T = TypeVar("T")
MISSING: Any = object()
LIMIT = 4 * 2**20  # bytes of a configuration; as objects they take twenty times as many

# The names of activations in configurations: several of them mean the tanh form.
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
# Settings of the libraries that wrote the file: of training, of output, of generation. None changes what a forward
# pass computes.
HARMLESS = frozenset({
    "_attn_implementation", "_attn_implementation_autoset", "_commit_hash", "_name_or_path", "architectures",
    "attn_implementation", "bos_token_id", "chunk_size_feed_forward", "dtype", "eos_token_id", "finetuning_task",
    "gradient_checkpointing", "id2label", "initializer_range", "label2id", "model_type", "name_or_path", "num_labels",
    "output_attentions", "output_hidden_states", "output_past", "pad_token_id", "problem_type", "return_dict",
    "return_dict_in_generate", "sep_token_id", "task_specific_params", "tie_word_embeddings", "tokenizer_class",
    "torch_dtype", "torchscript", "transformers_version", "use_bfloat16", "use_cache",
})  # fmt: skip


class Config:
    """A configuration file, each of whose settings must be asked for, or be known to change nothing.

    Parameters
    ----------
    path : Path
        A JSON file with an object in it.

    Raises
    ------
    FileError
        config_missing, config_value and config_unknown, each with the setting's name.
    """

    def __init__(self, path: Path, values: Mapping[str, Any] | None = None) -> None:
        self.path = path
        self.values: Mapping[str, Any] = read_json(path, limit=LIMIT) if values is None else values
        self._asked: set[str] = set()

    def raw(self, name: str, default: T = MISSING) -> Any | T:
        """The value of a setting; the default where the file has none."""
        self._asked.add(name)
        if name in self.values:
            return self.values[name]
        if default is MISSING:
            raise FileError("config_missing", path=self.path, name=name)
        return default

    @property
    def architectures(self) -> list[str]:
        """What the file calls the models that it is of; empty where it does not say."""
        named = self.raw("architectures", None) or []
        if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
            raise self.wrong("architectures", "a list of names")
        return named

    def integer(self, name: str, low: int = 1, high: int = 2**31 - 1, default: int = MISSING) -> int:
        """A whole number from `low` to `high`."""
        value = self.raw(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self.wrong(name, f"an integer from {low} to {high}")
        return value

    def optional(self, name: str, default: int | None = None, low: int = 1) -> int | None:
        """As `integer`, where the file may also say nothing, or null."""
        return default if self.raw(name, None) is None else self.integer(name, low)

    def number(self, name: str, low: float, high: float, default: float = MISSING) -> float:
        """A finite number from `low` to `high`; null counts as nothing."""
        value = default if default is not MISSING and self.raw(name, None) is None else self.raw(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
            raise self.wrong(name, f"a number from {low} to {high}")
        return float(value)

    def small(self, name: str, default: float = MISSING) -> float:
        """A number from 0 to 1, like the epsilon of a norm."""
        value = self.raw(name, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1 or math.isnan(value):
            raise self.wrong(name, "a number from 0 to 1")
        return float(value)

    def flag(self, name: str, default: bool = MISSING) -> bool:
        """true or false."""
        value = self.raw(name, default)
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def choice(self, name: str, choices: Mapping[str, T], default: str = MISSING) -> T:
        """What a word stands for."""
        value = self.raw(name, default)
        if not isinstance(value, str) or value not in choices:
            raise self.wrong(name, f"one of {', '.join(choices)}")
        return choices[value]

    def must_be(self, **allowed: Any) -> None:
        """Settings that would change the meaning: each absent, or of the one value that is supported."""
        for name, value in allowed.items():
            if self.raw(name, value) != value:
                raise self.wrong(name, repr(value))

    def finish(self, harmless: Collection[str] = ()) -> None:
        """No setting may be left that was not asked for and is not known to change nothing."""
        for name in self.values:
            if name not in self._asked and name not in harmless:
                raise FileError("config_unknown", path=self.path, name=name)

    def wrong(self, name: str, expected: str) -> FileError:
        return FileError("config_value", path=self.path, name=name, expected=expected, value=self.values.get(name))
