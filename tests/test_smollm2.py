"""The real SmolLM2-135M-Instruct out of its GGUF, held to transformers (`scripts/make_smollm2_goldens.py`)."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from click.testing import CliRunner
from tests.gguf_fixture import smollm2, smollm2_file
from tests.models_fixture import DATA, goldens

import qkv
from qkv.cli.commands import qkv as command

KNOWN = json.loads((DATA / "smollm2_goldens.json").read_text())
ARRAYS = goldens(DATA / "smollm2_goldens.npz")
PROMPTS = range(len(KNOWN["greedy"]))
STRIDE = 101
# float32 here and there through 30 layers; the logits reach 30, and 1.1e-4 is what was measured.
CLOSE = {"rtol": 0, "atol": 5e-4}


@pytest.mark.parametrize("i", PROMPTS)
def test_logits(i: int) -> None:
    logits = smollm2().logits(ARRAYS[f"{i}.ids"])
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits[:, ::STRIDE], ARRAYS[f"{i}.logits"], **CLOSE)


@pytest.mark.parametrize("i", PROMPTS)
def test_greedy(i: int) -> None:
    known = KNOWN["greedy"][i]
    assert smollm2().tokenizer.encode(known["prompt"]) == ARRAYS[f"{i}.ids"].tolist()
    assert smollm2().generate(known["prompt"], max_new_tokens=48) == known["text"]


def test_the_capital_of_france() -> None:
    assert smollm2().generate("The capital of France is", max_new_tokens=5).startswith(" Paris.")


def test_tokens() -> None:
    tokenizer = smollm2().tokenizer
    assert tokenizer is not None
    texts, ids, own = KNOWN["texts"], KNOWN["ids"], KNOWN["own_words"]
    assert len(set(texts)) == 200
    assert 5 < len(own) < 40
    found = [tokenizer.encode(text) for text in texts]
    assert found == [own.get(str(i), ids[i]) for i in range(200)]
    assert [tokenizer.decode(found[i], special_tokens=True) for i in range(200)] == texts


def test_only_numbers_after_a_space_are_cut_otherwise_than_transformers_does() -> None:
    """What it makes of the file reads nothing of `tokenizer.ggml.pre`, which sets each digit apart."""
    for text in (KNOWN["texts"][int(i)] for i in KNOWN["own_words"]):
        assert any(before.isspace() and after.isnumeric() for before, after in itertools.pairwise(text))


def test_ends_and_chat() -> None:
    model = smollm2()
    assert model.end_ids == {2}
    prompt = model.chat_prompt([{"role": "user", "content": "What is gravity?"}])
    assert prompt == KNOWN["greedy"][3]["prompt"]
    assert model.tokenizer.encode(prompt) == ARRAYS["3.ids"].tolist()
    assert model.chat_prompt([{"role": "system", "content": "a"}], answer=False) == "<|im_start|>system\na<|im_end|>\n"


def test_a_cache_in_any_chunks_gives_what_one_pass_gives() -> None:
    ids = ARRAYS["3.ids"]
    caches = smollm2().new_caches()
    parts = [smollm2().logits(part, caches) for part in np.split(ids, [1, 2, 13, 14])]
    np.testing.assert_allclose(np.concatenate(parts)[:, ::STRIDE], ARRAYS["3.logits"], **CLOSE)


def test_generate_from_the_command_line() -> None:
    options = ["--model", str(smollm2_file()), "--max-new-tokens", "6"]
    run = CliRunner().invoke(command("en"), ["generate", "The capital of France is", *options])
    assert run.output.startswith(" Paris.")
    assert run.stderr == ""  # nobody watches a pipe: no progress


def test_see_from_the_command_line() -> None:
    run = CliRunner().invoke(command("en"), ["see", "The cat sat", "--model", str(smollm2_file()), "--layer", "3"])
    assert run.exit_code == 0
    for text in ("30", "9", "The", "Ġcat"):
        assert text in run.output


def test_looking_changes_nothing() -> None:
    with qkv.record("layers.7.attention.weights") as trace:
        logits = smollm2().logits(ARRAYS["0.ids"])
    assert trace["layers.7.attention.weights"].shape == (9, 5, 5)
    np.testing.assert_allclose(logits[:, ::STRIDE], ARRAYS["0.logits"], **CLOSE)
