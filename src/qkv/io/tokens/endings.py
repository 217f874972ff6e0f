"""The tokens at which a model ends its text or its turn, as its files say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...errors import FileError
from ..config import Config
from ..files import read_json
from .special_tokens import SETTINGS, token_text
from .tokenizer import Tokenizer

# What models put at the end of a turn; some files name only the end of the whole text.
END_OF_TURN = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<|end|>", "<|END_OF_TURN_TOKEN|>")


def read_end_ids(directory: Path, config: Config, tokenizer: Tokenizer | None) -> frozenset[int]:
    """The ids that `config.json`, `generation_config.json` and `tokenizer_config.json` call the end, and ends of turns.

    Raises
    ------
    FileError
        config_value for an end that is no id.
    """
    found = set(_ids(config))
    path = directory / "generation_config.json"
    if path.exists():
        found |= set(_ids(Config(path)))
    if tokenizer is not None:
        names = [*END_OF_TURN, _end_token(directory / SETTINGS)]
        found |= {number for number in map(tokenizer.id_of, filter(None, names)) if number is not None}
    return frozenset(found)


def _ids(config: Config) -> list[int]:
    value: Any = config.raw("eos_token_id", None)
    listed = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(number, int) and not isinstance(number, bool) for number in listed):
        raise config.wrong("eos_token_id", "a token id, a list of them, or null")
    return listed


def _end_token(path: Path) -> str | None:
    if not path.exists():
        return None
    token = read_json(path).get("eos_token")
    text: str | None = token_text(token)
    if text is not None and not isinstance(text, str):
        raise FileError("config_value", path=path, name="eos_token", expected="a token", value=token)
    return text
