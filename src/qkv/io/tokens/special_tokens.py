"""What stands beside a vocabulary: the kind of tokenizer, its switches, its special tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...errors import FileError
from ..config import Config
from ..cutting import Part, added, numbers_of
from ..files import read_json

SETTINGS, TOKENS, MORE = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
NAMES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
# What a model's tokenizer is called, where no file says it.
KINDS = {
    "bert": "BertTokenizer", "distilbert": "DistilBertTokenizer", "electra": "ElectraTokenizer",
    "gpt2": "GPT2Tokenizer", "opt": "GPT2Tokenizer", "roberta": "RobertaTokenizer", "bart": "BartTokenizer",
    "clip": "CLIPTokenizer", "clip_text_model": "CLIPTokenizer", "qwen2": "Qwen2Tokenizer", "qwen3": "Qwen2Tokenizer",
    "llama": "LlamaTokenizer", "mistral": "LlamaTokenizer", "mixtral": "LlamaTokenizer", "phi3": "LlamaTokenizer",
    "gemma": "GemmaTokenizer", "gemma2": "GemmaTokenizer", "gemma3_text": "GemmaTokenizer",
    "t5": "T5Tokenizer", "mt5": "T5Tokenizer", "xlm-roberta": "XLMRobertaTokenizer",
}  # fmt: skip


def token_text(value: Any) -> Any:
    """The text of a token, which a file writes alone or with its properties."""
    return value.get("content") if isinstance(value, dict) else value


class SpecialTokens(Config):
    """`tokenizer_config.json`, and the special tokens in the files beside it.

    Parameters
    ----------
    directory : Path
    """

    def __init__(self, directory: Path) -> None:
        path, named = directory / SETTINGS, directory / TOKENS
        super().__init__(path, read_json(path) if path.exists() else {})
        self._named: Mapping[str, Any] = read_json(named) if named.exists() else {}
        self._directory = directory
        self.must_be(split_special_tokens=False)

    def kind(self, *known: str) -> str:
        """The class that transformers would take, without `Fast`: one of those that are known."""
        found, config = self.raw("tokenizer_class", None), self._directory / "config.json"
        if found is None and config.exists():
            values = read_json(config)
            found = values.get("tokenizer_class") or KINDS.get(str(values.get("model_type")))
        kind = found.removesuffix("Fast") if isinstance(found, str) else found
        if kind not in known:
            raise FileError("tokenizer_kind", path=self.path, kind=found, known=", ".join(known))
        return str(kind)

    def token(self, name: str, default: str | None = None) -> str | None:
        """The text of a special token, which stands alone or with its properties; None where there is none."""
        text = token_text(self.raw(f"{name}_token", self._named.get(f"{name}_token", default)))
        if text is not None and not isinstance(text, str):
            raise self.wrong(f"{name}_token", "a token")
        return text

    def add_to(self, described: Part, defaults: Mapping[str, str]) -> Part:
        """A tokenizer with all its special tokens, and with those that the files add, each under its number."""
        numbers = numbers_of(described)
        size, found = 1 + max(numbers.values()), {one["content"]: one for one in described["added_tokens"]}
        for number, text, how in self._numbered():
            if numbers.get(text, number) != number:
                raise FileError("config_value", path=self.path, name=text, expected=f"token {numbers[text]}",
                                value=number)  # fmt: skip
            found[text] = added(number, text, **how)
        for text in self._special(defaults):
            if text in numbers and text not in found:
                found[text] = added(numbers[text], text, special=True)
        listed = sorted(found.values(), key=lambda one: int(one["id"]))
        behind = [one["id"] for one in listed if one["id"] >= size]
        if behind != list(range(size, size + len(behind))):
            expected = f"tokens from {size} on, without a gap"
            raise FileError("config_value", path=self.path, name="added_tokens_decoder", expected=expected,
                            value=behind[:9])  # fmt: skip
        return described | {"added_tokens": listed}

    def _special(self, defaults: Mapping[str, str]) -> set[str]:
        found = {self.token(name, defaults.get(name)) for name in NAMES}
        value = self.raw("additional_special_tokens", self._named.get("additional_special_tokens")) or []
        texts = [token_text(one) for one in value if isinstance(value, list)]
        if not all(isinstance(text, str) for text in texts):
            raise self.wrong("additional_special_tokens", "a list of strings")
        return {str(text) for text in [*texts, *found] if text is not None}

    def _numbered(self) -> Iterator[tuple[int, str, dict[str, bool]]]:
        """The tokens that the files number themselves: number, text, and how each is found."""
        value, path = self.raw("added_tokens_decoder", None), self._directory / MORE
        if value is not None and not isinstance(value, dict):
            raise self.wrong("added_tokens_decoder", "an object")
        for number, token in (value or {}).items():
            if not number.isdecimal() or not isinstance(token, dict) or not isinstance(token.get("content"), str):
                raise self.wrong("added_tokens_decoder", "tokens by their numbers")
            how = ("special", "lstrip", "rstrip", "normalized", "single_word")
            yield int(number), token["content"], {name: bool(token.get(name, False)) for name in how}
        for text, number in (read_json(path) if path.exists() and not value else {}).items():
            if not isinstance(number, int) or isinstance(number, bool) or number < 0:
                raise FileError("config_value", path=path, name=text, expected="a token id", value=number)
            yield number, text, {"special": True}
