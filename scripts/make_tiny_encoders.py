"""Write tests/data/tiny_encoders/<family>-<task>: random encoders with heads, and what transformers computes with them.

Needs torch, transformers and tokenizers: `python scripts/make_tiny_encoders.py [name ...]`. Run by hand; the files are
in git. Every weight is random, the biases and norms too, so that no mapping can be wrong unseen; stored in float16 to
be small. The values are computed in float64 from those weights and stored in float32.
"""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

if __name__ == "__main__":
    from make_tiny_models import randomised
else:
    from scripts.make_tiny_models import randomised

HERE = Path(__file__).parent.parent / "tests" / "data" / "tiny_encoders"
LENGTHS = (7, 41)  # the second is the longest text that each takes
PAIR = ("the cat sat", "a mat, 苹果树.")
WORDS = ["the", "cat", "sat", "on", "mat", "##s", "##ting", "远", "方", "有", "颗", "苹", "果", "树", ".", ",", "##a"]
BERT_LIKE = {"vocab_size": 97, "hidden_size": 20, "intermediate_size": 29, "num_hidden_layers": 3,
             "num_attention_heads": 5, "max_position_embeddings": 41}  # fmt: skip

# Family: the name of its classes, and settings of which none is its own default.
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("Bert", BERT_LIKE | {"type_vocab_size": 2, "layer_norm_eps": 1e-6}),
    "roberta": ("Roberta", BERT_LIKE | {"vocab_size": 263, "max_position_embeddings": 43, "type_vocab_size": 1,
                                        "layer_norm_eps": 1e-5}),
    "distilbert": ("DistilBert", {"vocab_size": 97, "dim": 20, "hidden_dim": 29, "n_layers": 3, "n_heads": 5,
                                  "max_position_embeddings": 41}),
    "electra": ("Electra", BERT_LIKE | {"embedding_size": 13, "hidden_act": "gelu_new"}),
    "modernbert": ("ModernBert", BERT_LIKE | {
        "num_hidden_layers": 5, "local_attention": 7, "classifier_pooling": "mean",
        "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3,
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 500.0},
                            "sliding_attention": {"rope_type": "default", "rope_theta": 50.0}}}),
}  # fmt: skip
THREE = {"id2label": {0: "bad", 1: "so-so", 2: "好"}, "label2id": {"bad": 0, "so-so": 1, "好": 2}}
# What a directory is called: its family, the class, and what is set besides.
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    **{f"{family}-fill": (family, "MaskedLM", {}) for family in FAMILIES},
    "bert-classify": ("bert", "SequenceClassification", THREE),
    "roberta-classify": ("roberta", "SequenceClassification", THREE | {"problem_type": "multi_label_classification"}),
    "distilbert-classify": ("distilbert", "SequenceClassification", {}),
    "electra-classify": ("electra", "SequenceClassification", {"num_labels": 1}),
    "modernbert-classify": ("modernbert", "SequenceClassification", THREE),
    "electra-detect": ("electra", "PreTraining", {}),
}  # fmt: skip


def made(name: str, **changes: Any) -> Any:
    """A random model, in float64, with weights that float16 holds exactly."""
    family, task, more = MODELS[name]
    classes, values = FAMILIES[family]
    config = getattr(transformers, f"{classes}Config")(**{"attn_implementation": "eager", **values, **more, **changes})
    return randomised(getattr(transformers, f"{classes}For{task}")(config))


def word_pieces() -> tokenizers.Tokenizer:
    """A small WordPiece that knows segments and a mask."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [chr(ord("a") + i) for i in range(26)]
    words = special + WORDS + letters + [f"##{letter}" for letter in letters if letter not in "as"]
    vocab = {word: i for i, word in enumerate(words)}
    assert len(vocab) == len(words) <= 97
    tokenizer = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(special)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])],
    )  # fmt: skip
    return tokenizer


def byte_pieces() -> tokenizers.Tokenizer:
    """Single bytes in RoBERTa's form: its special tokens, its mask that takes the space before it along."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    symbols = special + sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = tokenizers.Tokenizer(models.BPE({symbol: i for i, symbol in enumerate(symbols)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([*special, tokenizers.AddedToken("<mask>", lstrip=True, special=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return tokenizer


TOKENIZERS = {"roberta": byte_pieces}


def write(name: str) -> None:
    directory, model = HERE / name, made(name)
    directory.mkdir(parents=True, exist_ok=True)
    copy.deepcopy(model).half().save_pretrained(directory)
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(config, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    tokenizer = TOKENIZERS.get(MODELS[name][0], word_pieces)()
    tokenizer.save(str(directory / "tokenizer.json"), pretty=False)
    np.savez_compressed(directory / "goldens.npz", **goldens(model, tokenizer))


def goldens(model: Any, tokenizer: tokenizers.Tokenizer) -> dict[str, np.ndarray]:
    """What is computed of random ids, among them the padding's, and of a pair of texts."""
    random, arrays = np.random.default_rng(5), {}
    for length in LENGTHS:
        ids = random.integers(0, model.config.vocab_size, length)
        ids[3] = model.config.pad_token_id  # a RoBERTa does not count it
        arrays[f"{length}.ids"] = ids
        for kind, value in computed(model, ids).items():
            arrays[f"{length}.{kind}"] = value
    encoding = tokenizer.encode(*PAIR)
    arrays["pair.ids"], arrays["pair.types"] = np.array(encoding.ids), np.array(encoding.type_ids)
    arrays["pair.logits"] = computed(model, arrays["pair.ids"], arrays["pair.types"])["logits"]
    return arrays


def computed(model: Any, ids: Any, types: Any = None) -> dict[str, np.ndarray]:
    """Every third column of all hidden states, and the logits; segments are given where the model takes them."""
    given: dict[str, Any] = {"attention_mask": torch.ones(1, len(ids)).long()}
    if types is not None and getattr(model.config, "type_vocab_size", 0) > 1:
        given["token_type_ids"] = torch.tensor(types)[None]
    with torch.no_grad():
        out = model(torch.tensor(ids)[None], output_hidden_states=True, **given)
    stored = {"hidden": torch.cat(out.hidden_states)[..., ::3], "logits": out.logits[0]}
    return {kind: value.numpy().astype(np.float32) for kind, value in stored.items()}


if __name__ == "__main__":
    for name in sys.argv[1:] or MODELS:
        write(name)
