"""The same random decoders in transformers and here, made on the spot: settings that the files in git do not cover."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qkv.models import load
from qkv.models.generation import sampling

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from scripts.make_tiny_models import FAMILIES, randomised  # noqa: E402  (needs torch)

LENGTHS = (3, 19, 37)
N_NEW = 9
CLOSE = 1e-4
YARN = {"rope_type": "yarn", "factor": 3.0, "original_max_position_embeddings": 11, "rope_theta": 500.0}
LONG = {"rope_type": "longrope", "rope_theta": 500.0, "original_max_position_embeddings": 13}

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in FAMILIES),
    ("llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}, "head_dim": None, "hidden_size": 24}),
    ("llama", {"rope_parameters": {"rope_type": "linear", "factor": 2.5, "rope_theta": 500.0}}),
    ("llama", {"rope_parameters": {"rope_type": "dynamic", "factor": 3.0, "rope_theta": 500.0},
               "max_position_embeddings": 15}),
    ("llama", {"rope_parameters": YARN}),
    ("llama", {"rope_parameters": YARN | {"beta_fast": 4.0, "beta_slow": 0.5, "truncate": False}}),
    ("llama", {"rope_parameters": YARN | {"mscale": 0.7, "mscale_all_dim": 0.9}}),
    ("llama", {"rope_parameters": YARN | {"attention_factor": 1.3}}),
    ("llama", {"rope_parameters": LONG | {
        "short_factor": [1.0, 1.2, 1.5], "long_factor": [2.0, 5.0, 9.0], "factor": 2.0}}),
    ("llama", {"tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False, "hidden_act": "gelu_new"}),
    ("mistral", {"sliding_window": None}),
    ("mistral", {"sliding_window": 1}),
    ("qwen2", {"use_sliding_window": True, "max_window_layers": 1, "tie_word_embeddings": False}),
    ("qwen3", {"layer_types": ["full_attention", "sliding_attention", "full_attention"], "attention_bias": True}),
    ("gemma2", {"attn_logit_softcapping": None, "final_logit_softcapping": None, "attention_bias": True}),
    ("gemma2", {"layer_types": ["full_attention"] * 3}),
    ("gemma3", {"layer_types": None, "num_hidden_layers": 7, "final_logit_softcapping": 2.0}),
    ("gpt2", {"n_inner": None, "activation_function": "gelu"}),
    ("gpt2", {"tie_word_embeddings": False}),
    ("gpt_neox", {"use_parallel_residual": False}),
    ("gpt_neox", {"attention_bias": False, "tie_word_embeddings": True, "rope_parameters": {
        "rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 1.0}}),
    ("opt", {"do_layer_norm_before": False}),
    ("opt", {"enable_bias": False, "activation_function": "gelu"}),
    ("bloom", {"n_head": 6}),
    ("falcon", {"new_decoder_architecture": False, "multi_query": True, "bias": False}),
    ("falcon", {"new_decoder_architecture": False, "multi_query": False, "num_kv_heads": 6}),
    ("falcon", {"new_decoder_architecture": False, "multi_query": True, "parallel_attn": False}),
    ("falcon", {"num_ln_in_parallel_attn": 1}),
    ("falcon_alibi", {"num_attention_heads": 4, "multi_query": True, "bias": False}),
    ("falcon_alibi", {"new_decoder_architecture": True, "parallel_attn": True, "num_kv_heads": 4}),
    ("gemma", {"hidden_act": "gelu_pytorch_tanh", "attention_bias": True, "tie_word_embeddings": False}),
    ("deepseek_v2", {"topk_method": "greedy", "first_k_dense_replace": 0, "attention_bias": False}),
    ("deepseek_v2", {"q_lora_rank": 11, "n_group": 9, "topk_group": 4, "first_k_dense_replace": 3}),
    ("deepseek_v2", {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}, "qk_nope_head_dim": 2}),
    ("deepseek_v3", {"rope_interleave": False, "attention_bias": True, "q_lora_rank": None}),
    ("deepseek_v3", {"n_group": 1, "topk_group": 1, "norm_topk_prob": False, "tie_word_embeddings": True}),
    ("deepseek_v3", {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 500.0, "mscale": 1.0,
                                         "mscale_all_dim": 1.0, "original_max_position_embeddings": 11}}),
    ("phi3", {"sliding_window": None, "rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}),
    ("phi3", {"hidden_size": 40, "rope_parameters": LONG | {
        "partial_rotary_factor": 0.5, "short_factor": [1.0, 1.5], "long_factor": [2.0, 7.0]}}),
    ("olmo2", {"num_key_value_heads": 5, "attention_bias": True}),
    ("mixtral", {"sliding_window": 5, "num_experts_per_tok": 1}),
    ("mixtral", {"num_experts_per_tok": 5, "tie_word_embeddings": True, "hidden_act": "gelu"}),
    ("qwen2_moe", {"norm_topk_prob": True, "qkv_bias": False, "decoder_sparse_step": 2}),
    ("qwen2_moe", {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 2}),
    ("qwen2_moe", {"use_sliding_window": True, "sliding_window": 3, "layer_types": [
        "full_attention", "sliding_attention", "sliding_attention"]}),
    ("qwen3_moe", {"norm_topk_prob": False, "decoder_sparse_step": 1, "mlp_only_layers": [2]}),
    ("qwen3_moe", {"use_sliding_window": True, "sliding_window": 5, "attention_bias": True}),
    ("gpt_oss", {"swiglu_limit": 7.0, "swiglu_alpha": 1.1, "layer_types": ["full_attention"] * 3}),
    ("gpt_oss", {"attention_bias": False, "num_experts_per_tok": 4, "rope_parameters": {
        "rope_type": "default", "rope_theta": 500.0}}),
    ("smollm3", {"use_sliding_window": False, "no_rope_layers": [0, 1, 1, 0, 1], "attention_bias": True,
                 "mlp_bias": True}),
]  # fmt: skip


def made(family: str, changes: dict[str, Any], directory: Path) -> Any:
    name, values = FAMILIES[family]
    settings = {"eos_token_id": None, "bos_token_id": None, "pad_token_id": None, "attn_implementation": "eager",
                "experts_implementation": "eager"}  # fmt: skip
    config = getattr(transformers, f"{name}Config")(**{**settings, **values, **changes})
    head = "LMHeadModel" if name == "GPT2" else "ForCausalLM"
    peer = randomised(getattr(transformers, f"{name.removesuffix('Text')}{head}")(config), seed=len(changes))
    peer.float().save_pretrained(directory)
    return peer


@pytest.mark.parametrize(("family", "changes"), VARIANTS, ids=[f"{f}-{'-'.join(c)}" for f, c in VARIANTS])
def test_random_decoders(family: str, changes: dict[str, Any], tmp_path: Path) -> None:
    peer = made(family, changes, tmp_path)
    model = load(tmp_path)
    worst = 0.0
    for length in LENGTHS:
        ids = np.random.default_rng(length).integers(0, 67, length)
        with torch.no_grad():
            expected = peer(torch.tensor(ids)[None]).logits[0].numpy()
        worst = max(worst, float(np.abs(model.logits(ids) - expected).max()))
    print(f"{family} {worst:.1e}")
    assert worst < CLOSE


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_and_beside_padding(family: str, tmp_path: Path) -> None:
    """Where both round, a tie could go either way: these seeds have none."""
    peer, prompts = made(family, {}, tmp_path), [np.random.default_rng(n).integers(0, 67, n) for n in (5, 11, 13)]
    model = load(tmp_path)
    expected = []
    for ids in prompts:
        with torch.no_grad():
            out = peer.generate(torch.tensor(ids)[None], do_sample=False, max_new_tokens=N_NEW)
        expected.append(out[0, len(ids) :].tolist())
    assert model.generate(prompts, max_new_tokens=N_NEW) == expected


@pytest.mark.parametrize(
    ("ours", "theirs", "value"),
    [
        (sampling.temperature, "TemperatureLogitsWarper", 0.7), (sampling.top_k, "TopKLogitsWarper", 5),
        (sampling.top_p, "TopPLogitsWarper", 0.6), (sampling.top_p, "TopPLogitsWarper", 0.93),
        (sampling.min_p, "MinPLogitsWarper", 0.15),
    ],
)  # fmt: skip
def test_the_rules_of_sampling(ours: Any, theirs: str, value: Any) -> None:
    for seed in range(50):
        logits = np.random.default_rng(seed).normal(0, 2, 31)
        expected = getattr(transformers, theirs)(value)(None, torch.tensor(logits)[None])[0].numpy()
        np.testing.assert_allclose(ours(logits, value), expected, rtol=1e-12)


def test_the_penalty_of_repetition() -> None:
    logits, seen = np.random.default_rng(0).normal(0, 2, 31), [3, 7, 7, 30]
    theirs = transformers.RepetitionPenaltyLogitsProcessor(1.3)(torch.tensor([seen]), torch.tensor(logits)[None])[0]
    np.testing.assert_allclose(sampling.repetition_penalty(logits, set(seen), 1.3), theirs.numpy(), rtol=1e-12)


def test_parts_as_transformers_writes_them(tmp_path: Path) -> None:
    _, values = FAMILIES["llama"]
    peer = randomised(transformers.LlamaForCausalLM(transformers.LlamaConfig(**values)))
    peer.float().save_pretrained(tmp_path, max_shard_size="20KB")
    assert (tmp_path / "model.safetensors.index.json").exists()
    ids = np.arange(2, 19)
    with torch.no_grad():
        expected = peer(torch.tensor(ids)[None]).logits[0].numpy()
    np.testing.assert_allclose(load(tmp_path).logits(ids), expected, rtol=0, atol=CLOSE)


@pytest.mark.parametrize(
    ("name", "family", "padding"), [("GPT2", "gpt2", None), ("Llama", "llama", 5), ("Mistral", "mistral", 0),
    ("Qwen2", "qwen2", 5), ("Gemma", "gemma", 0), ("DeepseekV3", "deepseek_v3", None), ("Gemma3Text", "gemma3", 5)],
)  # fmt: skip
def test_labels_of_texts(name: str, family: str, padding: int | None, tmp_path: Path) -> None:
    """Also where the text itself ends with the token of padding."""
    labels = {0: "bad", 1: "so so", 2: "good"}
    config = getattr(transformers, f"{name}Config")(
        **FAMILIES[family][1], id2label=labels, pad_token_id=padding, bos_token_id=None, eos_token_id=None,
        attn_implementation="eager", experts_implementation="eager",
    )  # fmt: skip
    peer = randomised(getattr(transformers, f"{name}ForSequenceClassification")(config)).float()
    peer.save_pretrained(tmp_path)
    model, random = load(tmp_path), np.random.default_rng(3)
    texts = [random.integers(6, 67, n) for n in (7, 3, 11)]
    texts[0][-2:] = 5
    for ids, found in zip(texts, model.classify(texts)):
        with torch.no_grad():
            expected = peer(torch.tensor(ids)[None]).logits[0].softmax(-1).numpy()
        assert list(found) == list(labels.values())
        np.testing.assert_allclose(list(found.values()), expected, rtol=0, atol=CLOSE)
        np.testing.assert_allclose(list(model.classify(ids).values()), expected, rtol=0, atol=CLOSE)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_inner_model_alone(family: str, tmp_path: Path) -> None:
    """Saved without its head: the same hidden states, and no prefix before the names."""
    peer = made(family, {}, tmp_path)
    inner = getattr(peer, peer.base_model_prefix)
    inner.save_pretrained(tmp_path)
    ids = np.random.default_rng(17).integers(0, 67, 17)
    with torch.no_grad():
        expected = inner(torch.tensor(ids)[None]).last_hidden_state[0].numpy()
    np.testing.assert_allclose(load(tmp_path)(ids), expected, rtol=0, atol=CLOSE)
