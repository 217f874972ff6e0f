"""From a directory to a model: which family it is, and how that is read and built."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import FileError, MissingExtraError
from ..io.bert import BERT
from ..io.bloom import BLOOM
from ..io.config import Config
from ..io.endings import read_end_ids
from ..io.falcon import FALCON
from ..io.files import PICKLES, is_pickle, there
from ..io.gemma import GEMMA2, GEMMA3
from ..io.gpt2 import GPT2
from ..io.gpt_neox import GPT_NEOX
from ..io.llama import LLAMA
from ..io.mistral import MISTRAL
from ..io.olmo2 import OLMO2
from ..io.opt import OPT
from ..io.phi3 import PHI3
from ..io.qwen import QWEN2, QWEN3
from ..io.sentence import read_sentence_settings
from ..io.shards import INDEX
from ..io.smollm3 import SMOLLM3
from ..io.tokenizer import read_tokenizer
from ..io.weights import Family, read_weights
from .build import decoder_from_weights
from .decoder import Decoder
from .encoder import Encoder

Model = Encoder | Decoder
Build = Callable[[Any, dict[str, Any]], Model]
ENCODERS = (BERT,)
DECODERS = (
    GPT2, GPT_NEOX, OPT, BLOOM, FALCON, LLAMA, MISTRAL, QWEN2, QWEN3, GEMMA2, GEMMA3, PHI3, OLMO2, SMOLLM3,
)  # fmt: skip
FAMILIES: dict[str, tuple[Family[Any], Build]] = {
    **{family.model_type: (family, Encoder.from_weights) for family in ENCODERS},
    **{family.model_type: (family, decoder_from_weights) for family in DECODERS},
}


def load(path: str | os.PathLike[str]) -> Any:
    """A model from a directory.

    Parameters
    ----------
    path : path_like
        A directory with `config.json`, `model.safetensors` (or its parts and their index) and, to read text,
        `tokenizer.json`; for sentence vectors also the files of sentence-transformers (`modules.json` and those it
        names).

    Returns
    -------
    Encoder or Decoder
        Its weights in float32 (float64 where the file has float64). Only the encoder is read of a BERT with a head
        for a task, such as `BertForMaskedLM`.

    Raises
    ------
    FileError
        One line that names the file and, where there is one, the setting or tensor: nothing is ignored unseen.
    """
    directory = there(Path(path))
    if not directory.is_dir():
        key = "pickle" if is_pickle(directory, b"") else "not_a_directory"
        raise FileError(key, path=directory)
    config = Config(directory / "config.json")
    (family, build), architectures = _family(config)
    settings = family.settings(config)
    sentence = read_sentence_settings(directory, settings.d_model)
    model = build(settings, read_weights(_weights_file(directory), family, settings, architectures))
    model.directory = directory
    if (directory / "tokenizer.json").exists():
        try:
            model.tokenizer = read_tokenizer(directory)
        except MissingExtraError:  # token ids need none; the first text will say what is missing
            model.tokenizer = None
    if isinstance(model, Encoder):
        model.sentence = sentence
    else:
        model.end_ids = read_end_ids(directory, config, model.tokenizer)
    return model


def _family(config: Config) -> tuple[tuple[Family[Any], Build], list[str]]:
    """The family by `model_type`, or by `architectures` where there is none; both must be known."""
    model_type, architectures = config.raw("model_type", None), config.raw("architectures", None) or []
    if not isinstance(architectures, list) or not all(isinstance(name, str) for name in architectures):
        raise config.wrong("architectures", "a list of names")
    if model_type is None and not architectures:
        raise FileError("config_missing", path=config.path, name="model_type")
    if model_type is None:
        of_name = {name: kind for kind, (family, _) in FAMILIES.items() for name in family.heads}
        model_type = of_name.get(architectures[0], architectures[0])
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        raise FileError("no_architecture", path=config.path, architecture=model_type, known=", ".join(FAMILIES))
    known = FAMILIES[model_type][0].heads
    for name in architectures:
        if name not in known:
            raise FileError("no_architecture", path=config.path, architecture=name, known=", ".join(known))
    return FAMILIES[model_type], architectures


def _weights_file(directory: Path) -> Path:
    """The safetensors file, or the index of several; a directory that has only a pickle is told what to do."""
    path, index = directory / "model.safetensors", directory / f"model.safetensors{INDEX}"
    if not path.exists() and index.exists():
        return index
    if not path.exists():
        for other in sorted(directory.iterdir()):
            if other.suffix in PICKLES:
                raise FileError("pickle", path=other)
    return path
