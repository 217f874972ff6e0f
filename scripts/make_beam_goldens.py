"""Write tests/data/beam_goldens.json: what beam search of transformers finds with some of the tiny models.

Needs torch and transformers: `python scripts/make_beam_goldens.py`. Run by hand; the file is in git. All beams that are
returned, with their scores, in float64. The ends are tokens that stand in what is found without any, so that beams end
at different lengths.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

DATA = Path(__file__).parent.parent / "tests" / "data"
FAMILIES = ("gpt2", "llama", "mistral", "gemma2")
N_NEW = 11
SETTINGS = (
    {"n_beams": 2, "length_penalty": 1.0, "early_stopping": False},
    {"n_beams": 3, "length_penalty": 0.0, "early_stopping": "never"},
    {"n_beams": 5, "length_penalty": -1.5, "early_stopping": False},
    {"n_beams": 5, "length_penalty": 2.0, "early_stopping": True},
    {"n_beams": 5, "length_penalty": 2.0, "early_stopping": "never"},
    {"n_beams": 3, "length_penalty": 1.0, "early_stopping": False, "repetition_penalty": 1.3},
)
# Where a twelfth of the vocabulary and more ends a text, the three rules of when to stop give different texts.
STOPS = tuple(
    {"n_beams": n_beams, "length_penalty": penalty, "early_stopping": rule}
    for n_beams, penalty in ((2, 2.0), (2, 1.0), (3, 1.0))
    for rule in (True, False, "never")
)


def opened(directory: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float64, attn_implementation="eager"
    ).eval()


def beams(peer: Any, prompt: list[int], settings: dict[str, Any], ends: list[int]) -> list[dict[str, Any]]:
    """Every beam: its ids without the end, and its score."""
    how = {"num_beams": settings["n_beams"], "num_return_sequences": settings["n_beams"], **settings}
    del how["n_beams"]
    with torch.no_grad():
        out = peer.generate(
            torch.tensor(prompt)[None], attention_mask=torch.ones(1, len(prompt), dtype=torch.long), do_sample=False,
            max_new_tokens=N_NEW, eos_token_id=ends or None, pad_token_id=0, return_dict_in_generate=True,
            output_scores=True, **how,
        )  # fmt: skip
    found = []
    for ids, score in zip(out.sequences[:, len(prompt) :].tolist(), out.sequences_scores.tolist()):
        first = next((i for i, token in enumerate(ids) if token in ends), len(ids))
        found.append({"ids": ids[:first], "score": score})
    return found


def made(peer: Any, family: str) -> list[dict[str, Any]]:
    cases = []
    for length in (5, 13):
        prompt = np.random.default_rng(length).integers(0, 67, length).tolist()
        free = beams(peer, prompt, dict(SETTINGS[0]), [])[0]["ids"]
        many = sorted(set(np.random.default_rng(12).permutation(67)[:12].tolist()) - {free[0]})
        few = ([], [free[2]], [free[4], free[7], (free[0] + 1) % 67])
        for ends, all_settings in (*((ends, SETTINGS) for ends in few), (many, STOPS)):
            for settings in all_settings:
                found = beams(peer, prompt, dict(settings), ends)
                cases.append({"family": family, "prompt": prompt, "ends": ends, **settings, "beams": found})
    return cases


if __name__ == "__main__":
    cases = [case for family in FAMILIES for case in made(opened(DATA / "tiny" / family), family)]
    lines = ",\n".join(json.dumps(case) for case in cases)
    (DATA / "beam_goldens.json").write_text(f"[\n{lines}\n]\n")
