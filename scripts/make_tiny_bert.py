"""Write tests/data/tiny_bert: a random BERT as transformers saves it, and what transformers computes with it.

Needs torch, transformers and tokenizers: `python scripts/make_tiny_bert.py`. Run by hand; the files are in git.
Every weight is random, the biases and norms too, so that no mapping can be wrong unseen; the values are computed in
float64 and stored in float32.
"""

import json
from pathlib import Path

import numpy as np
import tokenizers
import torch
from transformers import BertConfig, BertModel

HERE = Path(__file__).parent.parent / "tests" / "data" / "tiny_bert"
LENGTHS = (5, 11, 37)
WORDS = ["the", "cat", "sat", "on", "mat", "##s", "##ting", "远", "方", "有", "颗", "苹", "果", "树", ".", ",", "##a"]


def write_model() -> BertModel:
    torch.manual_seed(11)
    config = BertConfig(
        vocab_size=97, hidden_size=21, num_hidden_layers=2, num_attention_heads=3, intermediate_size=29,
        max_position_embeddings=37, type_vocab_size=2, layer_norm_eps=1e-6, attn_implementation="eager",
    )  # fmt: skip
    model = BertModel(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(1.0 if name.endswith("LayerNorm.weight") else 0.0, 0.3)
    model.save_pretrained(HERE)
    return model


def write_tokenizer() -> None:
    """A small WordPiece that asks for truncation and padding, as tokenizers of real models do."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [chr(ord("a") + i) for i in range(26)]
    words = special + WORDS + letters + [f"##{letter}" for letter in letters if letter not in "as"]
    vocab = {word: i for i, word in enumerate(words)}
    assert len(vocab) == len(words) <= 97
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = tokenizers.decoders.WordPiece()
    tokenizer.add_special_tokens(special)
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])],
    )  # fmt: skip
    tokenizer.enable_truncation(max_length=7)
    tokenizer.enable_padding(length=19)
    tokenizer.save(str(HERE / "tokenizer.json"))


def write_sentence_files() -> None:
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds)
    ]
    pooling = {"word_embedding_dimension": 21, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False,
               "pooling_mode_max_tokens": True, "pooling_mode_mean_sqrt_len_tokens": True}  # fmt: skip
    (HERE / "1_Pooling").mkdir(exist_ok=True)
    for name, value in {
        "modules.json": modules,
        "1_Pooling/config.json": pooling,
        "sentence_bert_config.json": {"max_seq_length": 13, "do_lower_case": False},
    }.items():
        (HERE / name).write_text(json.dumps(value, indent=2) + "\n")


def write_goldens(model: BertModel) -> None:
    random, arrays = np.random.default_rng(5), {}
    for length in LENGTHS:
        ids = random.integers(5, 97, length)
        with torch.no_grad():
            out = model.double()(torch.tensor(ids)[None], output_attentions=True, output_hidden_states=True)
        arrays[f"{length}.ids"] = ids
        arrays[f"{length}.hidden"] = torch.cat(out.hidden_states)
        arrays[f"{length}.attention"] = torch.cat(out.attentions)
        arrays[f"{length}.pooled"] = out.pooler_output[0]
    stored = {n: a.numpy().astype(np.float32) if isinstance(a, torch.Tensor) else a for n, a in arrays.items()}
    np.savez_compressed(HERE / "goldens.npz", **stored)


if __name__ == "__main__":
    HERE.mkdir(parents=True, exist_ok=True)
    write_tokenizer()
    write_sentence_files()
    write_goldens(write_model())
