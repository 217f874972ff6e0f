"""From a directory to a model: which family it is, and how that is read and built."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import FileError, MissingExtraError
from ..io.config import Config
from ..io.files import PICKLES, is_pickle, there
from ..io.floats import Dtype, asked_dtype
from ..io.fp8 import read_block
from ..io.gguf.file import is_gguf, open_gguf
from ..io.gguf.models import family_of, read_settings
from ..io.gguf.tokenizer import GGUFVocabulary
from ..io.shards import INDEX
from ..io.tokens.chat import ChatTemplate
from ..io.tokens.tokenizer import Tokenizer, read_tokenizer, tokenizer_file
from ..io.weights import Progress, placed, read_weights
from .build_decoder import decoder_from_weights
from .decoder import Decoder
from .families import family_in


def load(path: str | os.PathLike[str], *, dtype: str | None = None, progress: Progress | None = None) -> Any:
    """A model from a directory, or from a GGUF file.

    Parameters
    ----------
    path : path_like
        A GGUF file; or a directory with `config.json`, `model.safetensors` (or its parts and their index) and, to
        read text, `tokenizer.json` or the older files in its place; for sentence vectors also the files of
        sentence-transformers (`modules.json` and those it names).
    dtype : {"float32", "float16", "bfloat16", "float64"}, optional
        What the weights are kept as in memory, whatever the file holds; by default float32, or float64 where the file
        has that. With 16 bits, matrices take half the memory, and everything is still computed in float32.
    progress : callable (int, int) -> None, optional
        Told after each tensor how many bytes of the file have been read, and how many there are.

    Returns
    -------
    Encoder, Decoder, EncoderDecoder, ImageEncoder or CLIP
        What stands on top is read where it gives the next token, fills in masks, classifies whole texts or images, or
        finds replaced words; no other head is.

    Raises
    ------
    ArgumentError
        For another dtype.
    FileError
        One line that names the file and, where there is one, the setting or tensor: nothing is ignored unseen.
    """
    kept, directory = asked_dtype(dtype), there(Path(path))
    if directory.is_file() and is_gguf(directory):
        return _load_gguf(directory, kept, progress)
    if not directory.is_dir():
        key = "pickle" if is_pickle(directory, b"") else "not_a_directory"
        raise FileError(key, path=directory)
    config = Config(directory / "config.json")
    (family, build), architectures = family_in(config)
    block = read_block(config)
    settings = family.settings(config)
    weights = read_weights(_weights_file(directory), family, settings, architectures, kept, progress, block)
    model = build(settings, weights)
    model.directory = directory
    if tokenizer_file(directory) is not None:
        model.tokenizer = _fitting(_if_read(lambda: read_tokenizer(directory)), directory, settings)
    model.read_beside(directory, config)
    return model


def _load_gguf(path: Path, dtype: Dtype | None, progress: Progress | None) -> Decoder:
    """A model from a file that holds its settings, weights, tokenizer and chat template all together."""
    with open_gguf(path) as file:
        settings, vocabulary = read_settings(file), GGUFVocabulary(path, file.metadata)
        tokenizer = _if_read(vocabulary.tokenizer) if vocabulary.is_read else None
        model = decoder_from_weights(settings, placed(file, family_of(file), settings, (), dtype, progress))
    model.directory, model.tokenizer = path, _fitting(tokenizer, path, settings)
    model.end_ids = vocabulary.end_ids(tokenizer)
    if template := vocabulary.chat_template:
        tokens = {f"{name}_token": vocabulary.token(name) for name in ("bos", "eos")}
        model.chat_template = ChatTemplate(path, template, **tokens)
    return model


def _if_read(read: Callable[[], Tokenizer]) -> Tokenizer | None:
    """A tokenizer, if it is of a known kind and the library is there: token ids need none, and the first text will say
    what is missing."""
    try:
        return read()
    except (MissingExtraError, FileError) as error:
        if error.key not in ("extra", "tokenizer_kind"):
            raise
        return None


def _fitting(tokenizer: Tokenizer | None, path: Path, settings: Any) -> Tokenizer | None:
    """A tokenizer all of whose words have a row in the model. Tokens that were added to it later need none: a text
    with such a token in it is refused."""
    rows = getattr(settings, "vocab_size", None)
    if tokenizer is not None and rows is not None and tokenizer.n_words > rows:
        raise FileError("more_tokens", path=path, size=tokenizer.n_words, rows=rows)
    return tokenizer


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
