"""Write tests/data/tiny_seq2seq/<family>: random encoder-decoders as transformers saves them, and what it computes.

Needs torch and transformers: `python scripts/make_tiny_seq2seq.py [family ...]`. Run by hand; the files are in git.
Weights, precision and tolerance are those of make_tiny_models.py. The greedy answers come from a plain loop over the
whole model, so that no rule of a search has a say in them.
"""

from __future__ import annotations

import copy
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

sys.path.insert(0, str(Path(__file__).parent.parent))
from scripts.make_tiny_models import randomised

HERE = Path(__file__).parent.parent / "tests" / "data" / "tiny_seq2seq"
LENGTHS = ((7, 5), (23, 11))  # of the source, of what has been written
N_NEW = 11
SECONDS = 1
WORDS = """
a the cat dog bird house tree river sea sky sun moon star red blue green black white big small old new sees
likes eats finds loves is was on in under over with and or not good bad hot cold slow fast my your his her one two three
four five day night water fire wind door road hand book . ?
"""
VOCAB_SIZE = 67

T5 = {"vocab_size": VOCAB_SIZE, "d_model": 20, "d_kv": 6, "d_ff": 23, "num_layers": 2, "num_decoder_layers": 3,
      "num_heads": 3, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 17,
      "decoder_start_token_id": 0}  # fmt: skip
BART = {"vocab_size": VOCAB_SIZE, "d_model": 20, "encoder_layers": 2, "decoder_layers": 3, "encoder_ffn_dim": 23,
        "decoder_ffn_dim": 29, "encoder_attention_heads": 5, "decoder_attention_heads": 4,
        "max_position_embeddings": 41, "decoder_start_token_id": 2, "scale_embedding": True}  # fmt: skip
WHISPER = {"vocab_size": VOCAB_SIZE, "d_model": 20, "encoder_layers": 2, "decoder_layers": 3, "encoder_ffn_dim": 23,
           "decoder_ffn_dim": 29, "encoder_attention_heads": 5, "decoder_attention_heads": 4, "num_mel_bins": 80,
           "max_source_positions": 50 * SECONDS, "max_target_positions": 41, "decoder_start_token_id": 3}  # fmt: skip

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "t5": ("T5ForConditionalGeneration", T5),
    "t5_v1_1": ("T5ForConditionalGeneration", T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    "mt5": ("MT5ForConditionalGeneration", T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    "bart": ("BartForConditionalGeneration", BART),
    "mbart": ("MBartForConditionalGeneration", BART),
    "marian": ("MarianMTModel", BART | {"activation_function": "swish"}),
    "whisper": ("WhisperForConditionalGeneration", WHISPER),
}
NO_ENDS = dict.fromkeys(
    ("eos_token_id", "bos_token_id", "forced_bos_token_id", "forced_eos_token_id", "begin_suppress_tokens")
)


def made(family: str, seed: int = 11, **changes: Any) -> Any:
    """A random model of a family, in float64, with weights that float16 holds exactly."""
    name, values = FAMILIES[family]
    config_class = getattr(transformers, name).config_class
    config = config_class(**{**NO_ENDS, "pad_token_id": 1, "attn_implementation": "eager", **values, **changes})
    model = randomised(getattr(transformers, name)(config), seed)
    if family == "whisper":
        fixed(model.model.encoder.embed_positions)
    if hasattr(model, "final_logits_bias"):
        bias = torch.randn(model.final_logits_bias.shape, generator=torch.Generator().manual_seed(seed))
        model.final_logits_bias.copy_(bias.half())
    if family == "marian":
        for side in (model.model.encoder, model.model.decoder):
            side.embed_positions.weight.data.copy_(sinusoids(*side.embed_positions.weight.shape))
    if family in ("t5_v1_1", "mt5") and not changes.get("tie_word_embeddings", False):
        model.lm_head.weight = torch.nn.Parameter((model.lm_head.weight.detach().roll(1, 0) * -0.5).half().double())
    return model


def fixed(embedding: Any) -> None:
    """Whisper's positions are sines and cosines; rounded, so that float16 holds them."""
    n, width = embedding.weight.shape
    angles = torch.arange(n)[:, None] * torch.exp(-math.log(10000) / (width // 2 - 1) * torch.arange(width // 2))
    embedding.weight.data.copy_(torch.cat([angles.sin(), angles.cos()], dim=1).half())


def sinusoids(n: int, width: int) -> Any:
    angles = np.arange(n)[:, None] / 10000 ** (2 * np.arange(width // 2) / width)
    return torch.tensor(np.concatenate([np.sin(angles), np.cos(angles)], axis=1))


def sound(seed: int, seconds: float) -> np.ndarray:
    """A tone that rises, in noise."""
    random, n = np.random.default_rng(seed), int(16000 * seconds)
    time = np.arange(n) / 16000
    return (0.4 * np.sin(2 * np.pi * (200 + 900 * seed * time) * time) + 0.02 * random.normal(size=n)).astype(
        np.float32
    )


def features_of(samples: np.ndarray, n_mels: int = 80, seconds: int = SECONDS) -> Any:
    extractor = transformers.WhisperFeatureExtractor(feature_size=n_mels, chunk_length=seconds)
    return extractor(samples, sampling_rate=16000, return_tensors="pt").input_features.double()


def greedy(model: Any, source: dict[str, Any], start: int) -> list[int]:
    ids = [start]
    for _ in range(N_NEW):
        logits = model(**source, decoder_input_ids=torch.tensor([ids])).logits[0, -1]
        ids.append(int(logits.argmax()))
    return ids[1:]


@torch.no_grad()
def computed(model: Any, source: dict[str, Any], written: np.ndarray, start: int) -> dict[str, np.ndarray]:
    """Encoder states, decoder states, logits, the weights of cross attention and a greedy answer."""
    out = model(**source, decoder_input_ids=torch.tensor(written)[None], output_attentions=True,
                output_hidden_states=True)  # fmt: skip
    return {
        "encoder": out.encoder_last_hidden_state[0].numpy().astype(np.float32),
        "logits": out.logits[0].numpy().astype(np.float32),
        "cross": torch.stack(out.cross_attentions)[:, 0].numpy().astype(np.float32),
        "greedy": np.array(greedy(model, source, start)),
    }


def write_tokenizer(directory: Path) -> None:
    """A word is a token; </s> is put behind every text."""
    import tokenizers

    names = ["<s>", "<pad>", "</s>", "<unk>", *WORDS.split()][:VOCAB_SIZE]
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({name: i for i, name in enumerate(names)}, "<unk>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    inner.post_processor = tokenizers.processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 2)])
    inner.add_special_tokens(names[:4])
    inner.save(str(directory / "tokenizer.json"), pretty=False)


def write(family: str) -> None:
    directory, model = HERE / family, made(family)
    directory.mkdir(parents=True, exist_ok=True)
    copy.deepcopy(model).half().save_pretrained(directory)
    random, arrays, start = np.random.default_rng(5), {}, model.config.decoder_start_token_id
    for n, (length, n_written) in enumerate(LENGTHS, 1):
        written = np.concatenate([[start], random.integers(2, VOCAB_SIZE, n_written - 1)])
        if family == "whisper":
            samples = sound(n, 0.11 * n)
            arrays[f"{length}.samples"] = samples.astype(np.float16)
            source = {"input_features": features_of(samples.astype(np.float16).astype(np.float32))}
            arrays[f"{length}.features"] = source["input_features"][0].numpy().astype(np.float16)
        else:
            ids = random.integers(2, VOCAB_SIZE, length)
            source = {"input_ids": torch.tensor(ids)[None]}
            arrays[f"{length}.ids"] = ids
        arrays[f"{length}.written"] = written
        found = computed(model, source, written, start)
        arrays.setdefault("cross", found.pop("cross"))
        arrays |= {f"{length}.{name}": value for name, value in found.items()}
    np.savez_compressed(directory / "goldens.npz", **arrays)
    if family == "whisper":
        values = {"chunk_length": SECONDS, "n_samples": 16000 * SECONDS, "nb_max_frames": 100 * SECONDS}
        extractor = transformers.WhisperFeatureExtractor(feature_size=80, chunk_length=SECONDS)
        extractor.save_pretrained(directory)
        path = directory / "preprocessor_config.json"
        written_values = json.loads(path.read_text()) | values
        path.write_text(json.dumps({k: v for k, v in written_values.items() if k != "mel_filters"}, indent=1) + "\n")
    if family == "bart":
        write_tokenizer(directory)
    for name in ("config.json", "generation_config.json"):
        if (path := directory / name).exists():
            path.write_text(json.dumps(json.loads(path.read_text()), indent=1) + "\n")


if __name__ == "__main__":
    for family in sys.argv[1:] or FAMILIES:
        write(family)
