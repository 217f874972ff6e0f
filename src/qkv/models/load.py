"""From a directory to a model: which family it is, and how that is read and built."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import FileError, MissingExtraError
from ..io.chat import ChatTemplate
from ..io.config import Config
from ..io.files import PICKLES, is_pickle, there
from ..io.gguf import Progress, is_gguf, open_gguf
from ..io.gguf_models import architecture_of, family_of, read_settings
from ..io.gguf_tokenizer import GGUFVocabulary
from ..io.shards import INDEX
from ..io.tokenizer import Tokenizer, read_tokenizer
from ..io.weights import placed, read_weights
from .build import decoder_from_weights
from .decoder import Decoder
from .families import family_in


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
    (family, build), architectures = family_in(config)
    settings = family.settings(config)
    model = build(settings, read_weights(_weights_file(directory), family, settings, architectures))
    model.directory = directory
    if (directory / "tokenizer.json").exists():
        model.tokenizer = _if_installed(lambda: read_tokenizer(directory))
    model.read_beside(directory, config)
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
