"""How a directory of sentence-transformers turns the vectors of tokens into one of the sentence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import FileError
from .config import Config
from .files import read_json

# In the order in which several of them are joined.
POOLINGS = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len": "pooling_mode_mean_sqrt_len_tokens",
}
NEWER_NAMES = {"cls": "cls", "max": "max", "mean": "mean", "mean_sqrt_len_tokens": "mean_sqrt_len"}
MODULES = ("Transformer", "Pooling", "Normalize")


@dataclass(frozen=True)
class SentenceSettings:
    """From the vectors of tokens to the vector of a sentence.

    Attributes
    ----------
    poolings : tuple of str
        Names from `POOLINGS`; the results of several are joined.
    normalized : bool
        Whether the vector gets length 1.
    max_tokens : int or None
        Where text is cut, special tokens included. None: never.
    lower_case : bool
        Whether text is put in lower case first.
    """

    poolings: tuple[str, ...]
    normalized: bool = False
    max_tokens: int | None = None
    lower_case: bool = False


def read_sentence_settings(directory: Path, d_model: int) -> SentenceSettings | None:
    """What `modules.json` and the files it names say; None without that file.

    Raises
    ------
    FileError
        For a damaged file, or a module or setting that is not understood.
    """
    path = directory / "modules.json"
    if not path.exists():
        return None
    modules = [_module(path, entry) for entry in read_json(path, list)]
    kinds = tuple(kind for kind, _ in modules)
    for kind, expected in zip(kinds, (*MODULES, *kinds)):
        if kind != expected or kinds.count(kind) > 1:
            raise FileError("module", path=path, name=kind, known=", ".join(MODULES))
    if len(kinds) < 2:
        raise FileError("config_missing", path=path, name="Pooling")
    _no_prompt(directory / "config_sentence_transformers.json")
    max_tokens, lower_case = _text_settings(directory / "sentence_bert_config.json")
    poolings = _poolings(Config(directory / modules[1][1] / "config.json"), d_model)
    return SentenceSettings(poolings, len(kinds) == 3, max_tokens, lower_case)


def _module(path: Path, entry: Any) -> tuple[str, str]:
    """Kind and folder of one module."""
    config = Config(path, entry if isinstance(entry, dict) else {})
    kind, folder = str(config.raw("type")).rpartition(".")[2], config.raw("path")
    if kind == "Transformer":
        config.must_be(path="")
    if not isinstance(folder, str) or Path(folder).is_absolute() or ".." in Path(folder).parts:
        raise config.wrong("path", "a folder beside it")
    return kind, folder


def _poolings(config: Config, d_model: int) -> tuple[str, ...]:
    """The older files have a flag for each pooling, the newer ones a word."""
    if "pooling_mode" in config.values:
        chosen: tuple[str, ...] = (config.choice("pooling_mode", NEWER_NAMES),)
    else:
        chosen = tuple(ours for ours, flag in POOLINGS.items() if config.flag(flag, default=ours == "mean"))
    config.must_be(
        word_embedding_dimension=d_model, embedding_dimension=d_model, include_prompt=True,
        pooling_mode_weightedmean_tokens=False, pooling_mode_lasttoken=False,
    )  # fmt: skip
    config.finish()
    if not chosen:
        raise config.wrong(POOLINGS["mean"], "true, or another pooling")
    return chosen


def _text_settings(path: Path) -> tuple[int | None, bool]:
    """Where text is cut, and whether it is put in lower case."""
    if not path.exists():
        return None, False
    config = Config(path)
    limit = config.raw("max_seq_length", None)
    max_tokens = None if limit is None else config.integer("max_seq_length", low=3)
    lower_case = config.flag("do_lower_case", default=False)
    config.must_be(
        transformer_task="feature-extraction", module_output_name="token_embeddings", unpad_inputs=False,
        modality_config={"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
    )  # fmt: skip
    config.finish()
    return max_tokens, lower_case


def _no_prompt(path: Path) -> None:
    """Prompts that wait to be named change nothing; one that is put before each text by default is not supported."""
    if path.exists():
        config = Config(path)
        config.must_be(default_prompt_name=None, model_type="SentenceTransformer", truncate_dim=None)
        config.finish(harmless={"__version__", "prompts", "similarity_fn_name"})
