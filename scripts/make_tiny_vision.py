"""Write tests/data/tiny_vision/<family>: random ViT and CLIP as transformers saves them, and what it computes.

Needs torch, transformers and pillow: `python scripts/make_tiny_vision.py`. Run by hand; the files are in git.
Every weight is random, the biases and norms too, so that no mapping can be wrong unseen; stored in float16 to be
small. The results are computed in float64 from those weights and stored in float32; the preprocessed images are those
of the processors that work with Pillow.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import tokenizers
import torch
import transformers
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

if __package__:
    from scripts.make_tiny_models import randomised
else:
    from make_tiny_models import randomised

HERE = Path(__file__).parent.parent / "tests" / "data" / "tiny_vision"
SIZES = ((29, 29), (17, 43), (61, 23), (15, 29))  # of images, height and width; the model's is between them
VIT = {"hidden_size": 21, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 29,
       "image_size": [15, 29], "patch_size": [5, 7], "layer_norm_eps": 1e-6, "pooler_output_size": 13}  # fmt: skip
LABELS = ["cat", "dog", "tree", "cat", "apple"]  # two of one name, as in ImageNet
TEXT = {"vocab_size": 61, "hidden_size": 20, "num_hidden_layers": 2, "num_attention_heads": 5,
        "intermediate_size": 31, "max_position_embeddings": 19, "eos_token_id": 2, "bos_token_id": 0}  # fmt: skip
IMAGE = {"hidden_size": 21, "num_hidden_layers": 3, "num_attention_heads": 3, "intermediate_size": 29,
         "image_size": 17, "patch_size": 5}  # fmt: skip
EAGER = {"attn_implementation": "eager"}
WORDS = ["a", "photo", "of", "cat", "dog", "the", "sat"]


def images() -> list[np.ndarray]:
    """Random pictures that are smooth enough for a resize to keep something of them."""
    random = np.random.default_rng(7)
    found = []
    for height, width in SIZES:
        waves = random.normal(0, 1, (3, 4, 2))
        y, x = np.mgrid[:height, :width] / 7
        smooth = np.stack([sum(np.sin(a * y + b * x) for a, b in channel) for channel in waves], axis=-1)
        noise = random.normal(0, 0.3, smooth.shape)
        found.append(np.clip((smooth + noise) * 40 + 128, 0, 255).astype(np.uint8))
    return found


def made_vit(kind: str = "ViTForImageClassification", **changes: Any) -> Any:
    names = {"id2label": dict(enumerate(LABELS)), "label2id": {name: i for i, name in enumerate(LABELS)}}
    return randomised(getattr(transformers, kind)(transformers.ViTConfig(**VIT | names | EAGER | changes)))


def made_clip(text: dict[str, Any] | None = None, image: dict[str, Any] | None = None) -> Any:
    config = transformers.CLIPConfig(
        text_config=TEXT | EAGER | (text or {}), vision_config=IMAGE | EAGER | (image or {}), projection_dim=11, **EAGER
    )
    return randomised(transformers.CLIPModel(config))


def vit_processor() -> Any:
    return ViTImageProcessorPil(size={"height": 15, "width": 29})


def clip_processor() -> Any:
    return CLIPImageProcessorPil(size={"shortest_edge": 19}, crop_size={"height": 17, "width": 17})


def preprocessed(processor: Any, pictures: list[np.ndarray]) -> np.ndarray:
    return np.stack([processor(picture, return_tensors="np")["pixel_values"][0] for picture in pictures])


def save(model: Any, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    copy.deepcopy(model).half().save_pretrained(directory)
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")


def write_vit() -> None:
    model, pixels = made_vit(), preprocessed(vit_processor(), images())
    save(model, HERE / "vit")
    vit_processor().save_pretrained(HERE / "vit")
    with torch.no_grad():
        out = model(torch.tensor(pixels).double(), output_attentions=True, output_hidden_states=True)
        last = model.vit(torch.tensor(pixels).double()).last_hidden_state
    arrays = {
        "pixels": pixels, "embedded": out.hidden_states[0].numpy(), "hidden": last.numpy(),
        "attention": torch.stack(out.attentions, 1).numpy(), "logits": out.logits.numpy(),
    }  # fmt: skip
    write(HERE / "vit", arrays)


def write_clip() -> None:
    model, pixels = made_clip(), preprocessed(clip_processor(), images())
    save(model, HERE / "clip")
    clip_processor().save_pretrained(HERE / "clip")
    write_tokenizer(HERE / "clip")
    random = np.random.default_rng(5)
    texts = [np.array([58, *random.integers(3, 57, n), 60]) for n in (3, 7, 13)]
    ids = np.stack([np.pad(text, (0, 19 - len(text)), constant_values=60) for text in texts])
    ids[0, -1] = 59  # behind the end: nothing may change
    with torch.no_grad():
        out = model(torch.tensor(ids), torch.tensor(pixels).double(), output_attentions=True)
    arrays = {
        "pixels": pixels, "ids": ids, "lengths": np.array([len(text) for text in texts]),
        "image_hidden": out.vision_model_output.last_hidden_state.numpy(),
        "text_hidden": out.text_model_output.last_hidden_state.numpy(),
        "image_vectors": out.image_embeds.numpy(), "text_vectors": out.text_embeds.numpy(),
        "probabilities": out.logits_per_image.softmax(-1).numpy(),
    }  # fmt: skip
    write(HERE / "clip", arrays)


def write_tokenizer(directory: Path) -> None:
    """Words, letters and two special tokens with the largest ids, put around each text as CLIP does it."""
    letters = [chr(ord("a") + i) for i in range(26)]
    words = ["[UNK]", *dict.fromkeys(WORDS + letters)]
    vocab = {word: i for i, word in enumerate(words)} | {"<|startoftext|>": 58, "<|endoftext|>": 60}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.Lowercase()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<|startoftext|> $A <|endoftext|>", special_tokens=[("<|startoftext|>", 58), ("<|endoftext|>", 60)]
    )
    tokenizer.save(str(directory / "tokenizer.json"))


def write(directory: Path, arrays: dict[str, np.ndarray]) -> None:
    stored = {name: a.astype(np.float32) if a.dtype.kind == "f" else a for name, a in arrays.items()}
    np.savez_compressed(directory / "goldens.npz", **stored)


if __name__ == "__main__":
    write_vit()
    write_clip()
    np.savez_compressed(HERE / "pictures.npz", *images())
    PIL.Image.fromarray(images()[1]).save(HERE / "picture.png")
