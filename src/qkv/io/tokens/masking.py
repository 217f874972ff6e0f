"""What files beside a tokenizer say: which token stands for a hidden word, whether a pair has segments."""

from __future__ import annotations

from pathlib import Path

from ...errors import FileError
from ..files import read_json
from .special_tokens import SETTINGS, TOKENS, token_text
from .tokenizer import Tokenizer

ANY_MASK = "[MASK]"  # understood for every model, whatever its own is called
USUAL = (ANY_MASK, "<mask>")


def read_mask_token(directory: Path, tokenizer: Tokenizer | None) -> str | None:
    """The token that the files name, else a usual one that the vocabulary has; None without any.

    Raises
    ------
    FileError
        config_value for what is no token.
    """
    named = next(filter(None, (_mask_token(directory / name) for name in (SETTINGS, TOKENS))), None)
    if tokenizer is None:
        return named
    known = (token for token in (named, *USUAL) if token is not None and tokenizer.id_of(token) is not None)
    return next(known, None)


def gives_segments(directory: Path) -> bool:
    """Whether the model is told to which text of a pair a token belongs; `model_input_names` may leave it out.

    Raises
    ------
    FileError
        config_value for what is no list of names.
    """
    path = directory / SETTINGS
    names = read_json(path).get("model_input_names") if path.exists() else None
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise FileError("config_value", path=path, name="model_input_names", expected="a list of names", value=names)
    return names is None or "token_type_ids" in names


def _mask_token(path: Path) -> str | None:
    if not path.exists():
        return None
    token = read_json(path).get("mask_token")
    text: str | None = token_text(token)
    if text is not None and (not isinstance(text, str) or not text):
        raise FileError("config_value", path=path, name="mask_token", expected="a token", value=token)
    return text
