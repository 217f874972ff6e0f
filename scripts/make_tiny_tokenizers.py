"""Write tests/data/tokenizers/: small vocabularies in their older files, and what others make of tricky texts.

Needs sentencepiece and transformers: `python scripts/make_tiny_tokenizers.py`. Run by hand; the files are in git.
The texts are those of tests/data/smollm2_goldens.json. Pieces are trained on what this repository's documentation
says; their ids are those of sentencepiece itself, the others those of transformers.
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from pathlib import Path

import sentencepiece
import tokenizers
import transformers

DATA = Path(__file__).parent.parent / "tests" / "data"
HERE = DATA / "tokenizers"
TEXTS = json.loads((DATA / "smollm2_goldens.json").read_text())["texts"]
# Replaced before a text is cut: code points on the left become those on the right. A real model's table has 240 KB.
RULES = [("A0", "20"), ("3000", "20"), ("9", "20"), ("A", "20"), ("FF21", "41"), ("E9", "65"), ("65 301", "65"),
         ("2460", "31"), ("DF", "73 73"), ("FB01", "66 69"), ("130", "69")]  # fmt: skip
PLAIN = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}
KINDS = {
    "unigram": {"model_type": "unigram", "vocab_size": 500, "rules": True},
    "unigram_bytes": {"model_type": "unigram", "vocab_size": 700, "byte_fallback": True, **PLAIN},
    "bpe": {"model_type": "bpe", "vocab_size": 800, "byte_fallback": True, "user_defined_symbols": ["<tag>", "¤"],
            "split_digits": True, "allow_whitespace_only_pieces": True, **PLAIN},
    "bpe_no_prefix": {"model_type": "bpe", "vocab_size": 420, "add_dummy_prefix": False, "pad_id": 3, **PLAIN},
    "char": {"model_type": "char", "vocab_size": 120, "rules": True},
}  # fmt: skip


def corpus() -> list[str]:
    """The documentation's lines, in both languages."""
    docs = sorted((DATA.parent.parent / "docs").glob("*.md"))
    lines = [line.strip() for path in docs[:12] for line in path.read_text().splitlines()]
    return [line for line in lines if 0 < len(line) < 400]


def train(lines: list[str], rules: bool = False, **how: object) -> bytes:
    written = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # the model notes the name of the table
        if rules:
            table = Path("replacing_before.tsv")
            table.write_text("".join(f"{left}\t{right}\n" for left, right in RULES))
            how["normalization_rule_tsv"] = table.name
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=written, minloglevel=2, num_threads=1, hard_vocab_limit=False,
            character_coverage=0.99, self_test_sample_size=0, **how,
        )  # fmt: skip
    return written.getvalue()


def byte_pairs(directory: Path, lines: list[str], *specials: str, lower: bool = False) -> None:
    """vocab.json and merges.txt; in lower case with a sign at the end of each word, as CLIP's are."""
    inner = tokenizers.Tokenizer(tokenizers.models.BPE(end_of_word_suffix="</w>" if lower else ""))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if lower:
        inner.normalizer = tokenizers.normalizers.Lowercase()
        words = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", True)
        in_bytes = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        inner.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([words, in_bytes])
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=640 if lower else 400, show_progress=False, special_tokens=list(specials),
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
        end_of_word_suffix="</w>" if lower else "",
    )  # fmt: skip
    inner.train_from_iterator(lines, trainer)
    inner.model.save(str(directory))


def word_pieces(directory: Path, lines: list[str], cased: bool) -> None:
    inner = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    inner.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=not cased, strip_accents=False)
    inner.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    names = [f"[{name}]" for name in ("PAD", "UNK", "CLS", "SEP", "MASK")]
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=600, special_tokens=names, show_progress=False, limit_alphabet=200
    )
    inner.train_from_iterator(lines, trainer)
    inner.model.save(str(directory))


END = "<|endoftext|>"
ROBERTA = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
DIRECTORIES = {
    "bert": (lambda at, lines: word_pieces(at, lines, False), {}),
    "bert_cased": (lambda at, lines: word_pieces(at, lines, True), {"do_lower_case": False}),
    "bert_accents": (lambda at, lines: word_pieces(at, lines, False),
                     {"do_lower_case": True, "strip_accents": False, "tokenize_chinese_chars": False}),
    "gpt2": (lambda at, lines: byte_pairs(at, lines, END), {}),
    "gpt2_space": (lambda at, lines: byte_pairs(at, lines, END), {"add_prefix_space": True}),
    "roberta": (lambda at, lines: byte_pairs(at, lines, *ROBERTA), {}),
    "qwen2": (lambda at, lines: byte_pairs(at, lines, END), {"added_tokens_decoder": {
        "400": {"content": "<|im_start|>", "special": True}, "401": {"content": "<|im_end|>", "special": True}}}),
    "clip": (lambda at, lines: byte_pairs(at, lines, "<|startoftext|>", END, lower=True), {"unk_token": END}),
}  # fmt: skip
CLASSES = {"bert": "BertTokenizer", "gpt2": "GPT2Tokenizer", "roberta": "RobertaTokenizer", "qwen2": "Qwen2Tokenizer",
           "clip": "CLIPTokenizer"}  # fmt: skip


def main() -> None:
    HERE.mkdir(exist_ok=True)
    lines, ids = corpus(), {}
    for name, how in KINDS.items():
        model = train(lines, **how)
        (HERE / f"{name}.model").write_bytes(model)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        ids[name] = [processor.encode(text) for text in TEXTS]
        print(name, len(model), processor.get_piece_size())
    for name, (save, settings) in DIRECTORIES.items():
        directory, kind = HERE / name, CLASSES[name.split("_")[0]]
        directory.mkdir(exist_ok=True)
        save(directory, lines)
        (directory / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind} | settings) + "\n")
        theirs = getattr(transformers, kind).from_pretrained(directory)
        ids[name] = [theirs(text).input_ids for text in TEXTS]
    (HERE / "ids.json").write_text(json.dumps(ids, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
