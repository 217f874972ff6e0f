"""From a directory to a model: which family it is, and how that is read and built."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import FileError, MissingExtraError
from ..io.bert import BERT
from ..io.bloom import BLOOM
from ..io.chat import ChatTemplate, read_chat_template
from ..io.config import Config
from ..io.endings import read_end_ids
from ..io.falcon import FALCON
from ..io.files import PICKLES, is_pickle, there
from ..io.gemma import GEMMA2, GEMMA3
from ..io.gguf import Progress, is_gguf, open_gguf
from ..io.gguf_models import architecture_of, family_of, read_settings
from ..io.gguf_tokenizer import GGUFVocabulary
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
from ..io.tokenizer import Tokenizer, read_tokenizer
from ..io.weights import Family, placed, read_weights
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


def load(path: str | os.PathLike[str], *, progress: Progress | None = None) -> Any:
    """A model from a directory, or from a GGUF file.

    Parameters
    ----------
    path : path_like
        A GGUF file; or a directory with `config.json`, `model.safetensors` (or its parts and their index) and, to
        read text, `tokenizer.json`; for sentence vectors also the files of sentence-transformers (`modules.json` and
        those it names).
    progress : callable (int, int) -> None, optional
        Told after each tensor of a GGUF file how many bytes have been read, and how many there are.

    Returns
    -------
    Encoder or Decoder
        Its weights in float32 (float64 where the file has float64), also those that a GGUF file holds in fewer bits.
        Only the encoder is read of a BERT with a head for a task, such as `BertForMaskedLM`.

    Raises
    ------
    FileError
        One line that names the file and, where there is one, the setting or tensor: nothing is ignored unseen.
    """
    directory = there(Path(path))
    if directory.is_file() and is_gguf(directory):
        return _load_gguf(directory, progress)
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
        model.tokenizer = _if_installed(lambda: read_tokenizer(directory))
    if isinstance(model, Encoder):
        model.sentence = sentence
    else:
        model.end_ids = read_end_ids(directory, config, model.tokenizer)
        model.chat_template = read_chat_template(directory)
    return model


def _load_gguf(path: Path, progress: Progress | None) -> Decoder:
    """A model from a file that holds its settings, weights, tokenizer and chat template all together."""
    with open_gguf(path, progress) as file:
        name, metadata = architecture_of(file), file.metadata
        settings = read_settings(file, name)
        vocabulary = GGUFVocabulary(path, metadata)
        tokenizer = _if_installed(vocabulary.tokenizer) if vocabulary.is_read else None
        model = decoder_from_weights(settings, placed(file, family_of(name), settings, ()))
    model.directory, model.tokenizer = path, tokenizer
    model.end_ids = vocabulary.end_ids(tokenizer)
    if template := vocabulary.chat_template:
        tokens = {f"{name}_token": vocabulary.token(name) for name in ("bos", "eos")}
        model.chat_template = ChatTemplate(path, template, **tokens)
    return model


def _if_installed(read: Callable[[], Tokenizer]) -> Tokenizer | None:
    """A tokenizer, if the library is there: token ids need none, and the first text will say what is missing."""
    try:
        return read()
    except MissingExtraError:
        return None


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
