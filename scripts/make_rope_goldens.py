"""Write tests/data/rope_goldens.npz: RoPE frequencies as the transformers library computes them.

Run it by hand, with torch and transformers installed: `python scripts/make_rope_goldens.py`.

Each case stores the inverse frequencies (float32, as transformers keeps them), its attention factor (what cos and sin
are multiplied with) and, under `cases`, the settings as JSON: how `qkv.ops.scaling` spells them, and the length.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import transformers
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

TARGET = Path(__file__).parent.parent / "tests" / "data" / "rope_goldens.npz"
SCALING = {"linear": "Linear", "dynamic": "DynamicNTK", "yarn": "Yarn", "longrope": "LongRoPE", "llama3": "Llama3"}
SHORT, LONG = [1.0 + 0.03 * i for i in range(13)], [1.0 + 0.7 * i for i in range(13)]

# name, kind, rotary_dim, base, length in use or None, settings by the names of qkv.ops.scaling
CASES: list[tuple[str, str, int, float, int | None, dict[str, Any]]] = [
    ("linear", "linear", 26, 10000.0, None, {"factor": 4.0}),
    ("dynamic_short", "dynamic", 26, 10000.0, 700, {"factor": 2.0, "original_length": 2048}),
    ("dynamic_long", "dynamic", 26, 10000.0, 7919, {"factor": 2.0, "original_length": 2048}),
    ("dynamic_base", "dynamic", 62, 500000.0, 4099, {"factor": 8.0, "original_length": 4096}),
    ("yarn", "yarn", 64, 10000.0, None, {"factor": 16.0, "original_length": 4096}),
    ("yarn_base", "yarn", 128, 1000000.0, None, {"factor": 4.0, "original_length": 32768}),
    ("yarn_betas", "yarn", 62, 10000.0, None,
     {"factor": 8.0, "original_length": 2048, "beta_fast": 17.0, "beta_slow": 2.0}),
    ("yarn_stated", "yarn", 26, 10000.0, None, {"factor": 8.0, "original_length": 2048, "attention_factor": 0.75}),
    ("yarn_deepseek_equal", "yarn", 64, 10000.0, None,
     {"factor": 40.0, "original_length": 4096, "mscale": 0.707, "mscale_all_dim": 0.707}),
    ("yarn_deepseek", "yarn", 64, 10000.0, None,
     {"factor": 40.0, "original_length": 4096, "mscale": 1.0, "mscale_all_dim": 0.5}),
    ("yarn_not_truncated", "yarn", 64, 150000.0, None, {"factor": 32.0, "original_length": 4096, "truncate": False}),
    ("longrope_short", "longrope", 26, 10000.0, 4096,
     {"short_factor": SHORT, "long_factor": LONG, "original_length": 4096, "factor": 32.0}),
    ("longrope_long", "longrope", 26, 10000.0, 4097,
     {"short_factor": SHORT, "long_factor": LONG, "original_length": 4096, "factor": 32.0}),
    ("longrope_stated", "longrope", 26, 10000.0, 8191,
     {"short_factor": SHORT, "long_factor": LONG, "original_length": 4096, "factor": 32.0, "attention_factor": 1.25}),
    ("llama3_1", "llama3", 128, 500000.0, None,
     {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_length": 8192}),
    ("llama3_2", "llama3", 64, 500000.0, None,
     {"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_length": 8192}),
]  # fmt: skip


def golden(kind: str, rotary_dim: int, base: float, length: int | None, settings: dict[str, Any]) -> tuple[Any, float]:
    original = settings.get("original_length", 2048)
    # Dynamic NTK reads the length of training from max_position_embeddings, the others from a setting of their own.
    longest = original if kind == "dynamic" else int(original * settings["factor"])
    theirs = {name: value for name, value in settings.items() if name != "original_length"}
    if kind not in ("linear", "dynamic"):
        theirs["original_max_position_embeddings"] = original
    config = LlamaConfig(
        hidden_size=rotary_dim,
        num_attention_heads=1,
        head_dim=rotary_dim,
        max_position_embeddings=longest,
        rope_parameters={"rope_type": kind, "rope_theta": base, **theirs},
    )
    frequencies, attention_factor = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=length)
    return frequencies.numpy(), float(attention_factor)


def main() -> None:
    goldens: dict[str, np.ndarray] = {}
    described = {}
    for name, kind, rotary_dim, base, length, settings in CASES:
        frequencies, attention_factor = golden(kind, rotary_dim, base, length, settings)
        assert frequencies.dtype == np.float32
        assert frequencies.shape == (rotary_dim // 2,)
        goldens[name] = frequencies
        described[name] = {
            "scaling": SCALING[kind], "settings": settings, "rotary_dim": rotary_dim, "base": base, "length": length,
            "attention_factor": attention_factor,
        }  # fmt: skip
    np.savez_compressed(TARGET, cases=np.array(json.dumps(described)), **goldens)
    print(f"{TARGET.name}: {len(CASES)} cases, {TARGET.stat().st_size} bytes, transformers {transformers.__version__}")


if __name__ == "__main__":
    main()
