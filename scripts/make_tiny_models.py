"""Write tests/data/tiny/<family>: random decoders as transformers saves them, and what transformers computes with them.

Needs torch and transformers: `python scripts/make_tiny_models.py [family ...]`. Run by hand; the files are in git.
Every weight is random, the biases and norms too, so that no mapping can be wrong unseen; stored in float16 to be
small. The logits are computed in float64 from those weights and stored in float32.
"""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

HERE = Path(__file__).parent.parent / "tests" / "data" / "tiny"
LENGTHS = (7, 23)
N_NEW = 11
SIZES = {"vocab_size": 67, "hidden_size": 20, "intermediate_size": 23, "num_hidden_layers": 3,
         "max_position_embeddings": 41}  # fmt: skip
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 13, "rope_theta": 500.0}  # fmt: skip
LATENT = {"num_attention_heads": 5, "num_key_value_heads": 5, "kv_lora_rank": 8, "qk_nope_head_dim": 6,
          "qk_rope_head_dim": 4, "v_head_dim": 3, "first_k_dense_replace": 1, "n_routed_experts": 9,
          "n_shared_experts": 2, "num_experts_per_tok": 3, "moe_intermediate_size": 5, "rope_parameters": {
              "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 11, "rope_theta": 500.0,
              "mscale": 0.7, "mscale_all_dim": 0.9}}  # fmt: skip

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2", {"vocab_size": 67, "n_embd": 20, "n_inner": 23, "n_layer": 3, "n_head": 5, "n_positions": 41}),
    "llama": ("Llama", SIZES | HEADS | {"rope_parameters": LLAMA3, "attention_bias": True, "mlp_bias": True}),
    "mistral": ("Mistral", SIZES | HEADS | {"sliding_window": 5}),
    "qwen2": ("Qwen2", SIZES | {"num_attention_heads": 5, "num_key_value_heads": 1, "sliding_window": 5,
                                "use_sliding_window": False, "tie_word_embeddings": True}),
    "qwen3": ("Qwen3", SIZES | HEADS | {"sliding_window": 5, "use_sliding_window": True, "max_window_layers": 1}),
    "gemma": ("Gemma", SIZES | HEADS | {"hidden_act": "gelu"}),
    "gemma2": ("Gemma2", SIZES | HEADS | {"sliding_window": 5, "query_pre_attn_scalar": 11,
                                          "attn_logit_softcapping": 3.0, "final_logit_softcapping": 2.0}),
    "gpt_neox": ("GPTNeoX", SIZES | {"hidden_size": 24, "num_attention_heads": 3, "rope_parameters": {
        "rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5}}),
    "opt": ("OPT", {"vocab_size": 67, "hidden_size": 20, "ffn_dim": 23, "num_hidden_layers": 3,
                    "num_attention_heads": 5, "max_position_embeddings": 41, "word_embed_proj_dim": 20}),
    "bloom": ("Bloom", {"vocab_size": 67, "hidden_size": 18, "n_layer": 3, "n_head": 3}),
    "falcon": ("Falcon", {"vocab_size": 67, "hidden_size": 24, "ffn_hidden_size": 23, "num_hidden_layers": 3,
                          "num_attention_heads": 6, "num_kv_heads": 2, "new_decoder_architecture": True, "bias": True,
                          "max_position_embeddings": 41}),
    # Its eager form adds ALiBi twice.
    "falcon_alibi": ("Falcon", {"vocab_size": 67, "hidden_size": 24, "ffn_hidden_size": 23, "num_hidden_layers": 3,
                                "num_attention_heads": 12, "alibi": True, "bias": True, "multi_query": False,
                                "parallel_attn": False, "max_position_embeddings": 41, "attn_implementation": "sdpa"}),
    "phi3": ("Phi3", SIZES | {"num_attention_heads": 5, "num_key_value_heads": 1, "sliding_window": 17,
             "original_max_position_embeddings": 13, "rope_parameters": {
                 "rope_type": "longrope", "rope_theta": 500.0, "short_factor": [1.0, 1.5], "long_factor": [2.0, 7.0]}}),
    "olmo2": ("Olmo2", SIZES | {"num_attention_heads": 5, "num_key_value_heads": 1}),
    "smollm3": ("SmolLM3", SIZES | {"num_hidden_layers": 5, "num_attention_heads": 5, "num_key_value_heads": 1,
                                    "use_sliding_window": True, "sliding_window": 5}),
    "mixtral": ("Mixtral", SIZES | HEADS | {"num_local_experts": 5, "num_experts_per_tok": 2, "intermediate_size": 13}),
    "qwen2_moe": ("Qwen2Moe", SIZES | {
        "num_attention_heads": 5, "num_key_value_heads": 1, "num_experts": 7, "num_experts_per_tok": 3,
        "moe_intermediate_size": 11, "shared_expert_intermediate_size": 13, "mlp_only_layers": [1]}),
    "qwen3_moe": ("Qwen3Moe", SIZES | HEADS | {
        "num_hidden_layers": 4, "decoder_sparse_step": 2, "num_experts": 7, "num_experts_per_tok": 3,
        "moe_intermediate_size": 11, "norm_topk_prob": True}),
    "gpt_oss": ("GptOss", SIZES | HEADS | {
        "num_local_experts": 5, "num_experts_per_tok": 2, "intermediate_size": 13, "sliding_window": 5,
        "swiglu_limit": 0.5, "rope_parameters": {
            "rope_type": "yarn", "rope_theta": 20.0, "factor": 3.0, "original_max_position_embeddings": 13,
            "beta_fast": 4.0, "beta_slow": 0.5, "truncate": False}}),
    "deepseek_v2": ("DeepseekV2", SIZES | LATENT | {
        "q_lora_rank": None, "n_group": 3, "topk_group": 2, "topk_method": "group_limited_greedy",
        "routed_scaling_factor": 1.7, "attention_bias": True}),
    "deepseek_v3": ("DeepseekV3", SIZES | LATENT | {"q_lora_rank": 11, "n_group": 3, "topk_group": 2}),
    "gemma3": ("Gemma3Text", SIZES | HEADS | {"sliding_window": 5, "query_pre_attn_scalar": 11,
               "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
               "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
                                   "full_attention": {"rope_type": "linear", "factor": 3.0, "rope_theta": 5000.0}}}),
}  # fmt: skip


def made(family: str, **changes: Any) -> Any:
    """A random model of a family, in float64, with weights that float16 holds exactly."""
    name, values = FAMILIES[family]
    config = getattr(transformers, f"{name}Config")(**{"eos_token_id": None, "bos_token_id": None, "pad_token_id": None,
                                                      "attn_implementation": "eager", "experts_implementation": "eager",
                                                      **values, **changes})  # fmt: skip
    architecture = f"{name.removesuffix('Text')}{'LMHeadModel' if name == 'GPT2' else 'ForCausalLM'}"
    return randomised(getattr(transformers, architecture)(config))


def randomised(model: Any, seed: int = 11) -> Any:
    """Every weight random, norms around what leaves things as they are."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            centre = 1.0 if weight.ndim == 1 and weight.mean().item() > 0.5 else 0.0
            values = torch.randn(weight.shape, generator=random) * 0.3 + centre
            weight.copy_(values.half())
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer.copy_((torch.randn(buffer.shape, generator=random) * 0.3).half())
    return model.eval().double()


def write(family: str) -> None:
    directory, model = HERE / family, made(family)
    directory.mkdir(parents=True, exist_ok=True)
    copy.deepcopy(model).half().save_pretrained(directory)  # of a copy: its tables of positions are rounded too
    random, arrays = np.random.default_rng(5), {}
    for length in LENGTHS:
        ids = random.integers(0, model.config.vocab_size, length)
        with torch.no_grad():
            out = model(torch.tensor(ids)[None], output_hidden_states=True)
            longer = model.generate(torch.tensor(ids)[None], do_sample=False, max_new_tokens=N_NEW)
        arrays[f"{length}.ids"] = ids
        arrays[f"{length}.logits"] = out.logits[0].numpy().astype(np.float32)
        arrays[f"{length}.hidden"] = out.hidden_states[-1][0].numpy().astype(np.float32)
        arrays[f"{length}.greedy"] = longer[0, length:].numpy()
    np.savez_compressed(directory / "goldens.npz", **arrays)
    generation = directory / "generation_config.json"
    generation.unlink(missing_ok=True)
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")


if __name__ == "__main__":
    for family in sys.argv[1:] or FAMILIES:
        write(family)
