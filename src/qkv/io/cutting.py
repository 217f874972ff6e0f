"""Parts of a `tokenizer.json`: how a text is cut into words, which tokens are found before, which stand around."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Part = dict[str, Any]


def split(pattern: str) -> Part:
    """Each match of a pattern is a word, and so is what lies between."""
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def _by_script(digits: str) -> Part:
    """The pattern of GPT-4's tokenizer: runs of letters, of digits as long as `digits` says, of signs, of spaces."""
    return split(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
        + digits
        + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
GPT2_WORDS = BYTES | {"use_regex": True}
DIGITS = {"type": "Digits", "individual_digits": True}
LLAMA3, QWEN2 = [_by_script(r"\p{N}{1,3}"), BYTES], [_by_script(r"\p{N}"), BYTES]
# How a text is cut into words before pairs are merged, by the name that llama.cpp gives it.
WORDS = {
    "gpt-2": [GPT2_WORDS],
    "mpt": [GPT2_WORDS],
    "olmo": [GPT2_WORDS],
    "smollm": [DIGITS, GPT2_WORDS],
    "starcoder": [DIGITS, GPT2_WORDS],
    "refact": [DIGITS, GPT2_WORDS],
    "llama3": LLAMA3,
    "llama-v3": LLAMA3,
    "llama-bpe": LLAMA3,
    "dbrx": LLAMA3,  # OLMo 2
    "smaug-bpe": LLAMA3,  # SmolLM3
    "qwen2": QWEN2,
}


def sequence(name: str, *parts: Part) -> Part:
    """Several parts one after the other; `name` is what the format calls them."""
    return {"type": "Sequence", name: list(parts)}


def replaced(pattern: Mapping[str, str], content: str) -> Part:
    """Every match, of a `Regex` or a `String`, becomes another text."""
    return {"type": "Replace", "pattern": dict(pattern), "content": content}


def added(number: int, text: str, *, special: bool, **how: bool) -> Part:
    """A token that is found in a text before it is cut."""
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": number, "content": text, "special": special, **plain, **how}


def around(numbers: Mapping[str, int], before: str | None, after: str | None) -> Part:
    """One token before a text and one after it; either may be None."""
    parts: list[Part] = [{"Sequence": {"id": "A", "type_id": 0}}]
    if before is not None:
        parts.insert(0, {"SpecialToken": {"id": before, "type_id": 0}})
    if after is not None:
        parts.append({"SpecialToken": {"id": after, "type_id": 0}})
    put = {text: {"id": text, "ids": [numbers[text]], "tokens": [text]} for text in (before, after) if text is not None}
    pair = [*parts, {"Sequence": {"id": "B", "type_id": 0}}]
    return {"type": "TemplateProcessing", "single": parts, "pair": pair, "special_tokens": put}


def numbers_of(described: Part) -> dict[str, int]:
    """The number of each token of a `tokenizer.json`, the added ones included."""
    own = described["model"]["vocab"]
    found = dict(own) if isinstance(own, dict) else {text: i for i, (text, _) in enumerate(own)}
    return found | {one["content"]: one["id"] for one in described["added_tokens"]}
