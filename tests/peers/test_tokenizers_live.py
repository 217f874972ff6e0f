"""Tokenizers beside sentencepiece and transformers themselves, with the large table of replacements of real models."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import pytest

from qkv.io.tokens.tokenizer import read_tokenizer

sentencepiece = pytest.importorskip("sentencepiece")
transformers = pytest.importorskip("transformers")

ROOT = Path(__file__).parent.parent.parent
TEXTS = json.loads((ROOT / "tests" / "data" / "smollm2_goldens.json").read_text())["texts"]
PLAIN = [text for text in TEXTS if "<s>" not in text and "</s>" not in text]


def trained(**how: Any) -> bytes:
    """A small vocabulary of what the documentation says, with the replacements of real models."""
    written = io.BytesIO()
    lines = [line for path in sorted((ROOT / "docs").glob("*.md")) for line in path.read_text().splitlines()]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line.strip() for line in lines if 0 < len(line) < 400]), model_writer=written,
        minloglevel=2, num_threads=1, vocab_size=1500, hard_vocab_limit=False, **how,
    )  # fmt: skip
    return written.getvalue()


def saved(directory: Path, model: bytes, kind: str, name: str) -> Path:
    (directory / name).write_bytes(model)
    (directory / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind}))
    return directory


def tied(theirs: Any, kind: str, one: list[int], other: list[int]) -> bool:
    """Whether two ways to cut a text into the pieces of a unigram model are equally likely: either may be taken."""
    totals = [sum(map(theirs.get_score, ids)) for ids in (one, other)]
    return kind == "unigram" and math.isclose(*totals, abs_tol=1e-4)


@pytest.mark.parametrize("how", [{"model_type": "unigram"}, {"model_type": "bpe", "byte_fallback": True}])
@pytest.mark.parametrize("rule", ["nmt_nfkc", "nmt_nfkc_cf", "identity"])
def test_pieces_are_those_of_sentencepiece(tmp_path: Path, how: dict[str, Any], rule: str) -> None:
    model = trained(normalization_rule_name=rule, **how)
    ours = read_tokenizer(saved(tmp_path, model, "LlamaTokenizer", "tokenizer.model"))
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model)
    pairs = {text: (ours.encode(text, special_tokens=False), theirs.encode(text)) for text in PLAIN}
    different = [text for text, (a, b) in pairs.items() if a != b and not tied(theirs, how["model_type"], a, b)]
    assert all("Z\u0337\u0351" in text or "e\u0301\u0302" in text for text in different)
    assert len(different) <= 5


def test_xlm_roberta(tmp_path: Path) -> None:
    saved(tmp_path, trained(model_type="unigram"), "XLMRobertaTokenizer", "sentencepiece.bpe.model")
    ours, theirs = read_tokenizer(tmp_path), transformers.XLMRobertaTokenizer.from_pretrained(tmp_path)
    different = [text for text in TEXTS if ours.encode(text) != theirs(text).input_ids]
    assert all("\x85" in text for text in different)  # a space to transformers, to sentencepiece a character
