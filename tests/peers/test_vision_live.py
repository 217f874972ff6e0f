"""The same random ViT and CLIP in transformers and here: settings that the files in git do not cover."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("PIL")

from scripts.make_tiny_vision import images, made_clip, made_vit, preprocessed  # noqa: E402
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil  # noqa: E402
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil  # noqa: E402

from qkv.io.images import read_image  # noqa: E402
from qkv.io.preprocessing import read_preprocessing  # noqa: E402
from qkv.models import load  # noqa: E402

CLOSE: dict[str, float] = {"rtol": 0, "atol": 1e-4}
EXACT: dict[str, float] = {"rtol": 0, "atol": 1e-6}


@pytest.mark.parametrize(
    "changes",
    [{}, {"qkv_bias": False}, {"image_size": 31, "patch_size": 6}, {"num_channels": 5},
     {"hidden_act": "gelu_new"}, {"image_size": [11, 61], "patch_size": [11, 3]}],
)  # fmt: skip
def test_vit(changes: dict[str, Any], tmp_path: Path) -> None:
    peer = made_vit(**changes).float()
    peer.save_pretrained(tmp_path)
    model, config = load(tmp_path), peer.config
    sides = config.image_size if isinstance(config.image_size, list) else [config.image_size] * 2
    pixels = np.random.default_rng(3).normal(0, 1, (3, config.num_channels, *sides)).astype(np.float32)
    with torch.no_grad():
        out = peer(torch.tensor(pixels), output_hidden_states=True)
        hidden = peer.vit(torch.tensor(pixels)).last_hidden_state
    np.testing.assert_allclose(model(list(pixels)), hidden.numpy(), **CLOSE)
    np.testing.assert_allclose(model.classifier(np.stack(model(pixels))), out.logits.numpy(), **CLOSE)


def test_vit_with_a_pooler(tmp_path: Path) -> None:
    peer = made_vit("ViTModel").float()
    peer.save_pretrained(tmp_path)
    model, pixels = load(tmp_path), np.random.default_rng(3).normal(0, 1, (2, 3, 15, 29)).astype(np.float32)
    with torch.no_grad():
        out = peer(torch.tensor(pixels))
    np.testing.assert_allclose(model.pooler(np.stack(model(pixels))), out.pooler_output.numpy(), **CLOSE)


@pytest.mark.parametrize(
    ("text", "image"),
    [({}, {}), ({"eos_token_id": 60}, {"patch_size": 3}), ({"hidden_act": "gelu"}, {"hidden_act": "gelu"}),
     ({"eos_token_id": 57}, {"image_size": 23, "num_channels": 1})],
)  # fmt: skip
def test_clip(text: dict[str, Any], image: dict[str, Any], tmp_path: Path) -> None:
    peer = made_clip(text, image).float()
    peer.save_pretrained(tmp_path)
    model, config = load(tmp_path), peer.config.vision_config
    random = np.random.default_rng(3)
    pixels = random.normal(0, 1, (3, config.num_channels, *[config.image_size] * 2)).astype(np.float32)
    end = peer.config.text_config.eos_token_id
    ids = np.stack([[58, *random.integers(3, 56, n), end if end > 2 else 60, *[0] * (11 - n)] for n in (2, 7, 11)])
    with torch.no_grad():
        out = peer(torch.tensor(ids), torch.tensor(pixels))
    np.testing.assert_allclose(model.encode_image(pixels), out.image_embeds.numpy(), **CLOSE)
    np.testing.assert_allclose(model.encode_text(list(ids)), out.text_embeds.numpy(), **CLOSE)
    np.testing.assert_allclose(model.match(pixels, list(ids)), out.logits_per_image.softmax(-1).numpy(), **CLOSE)


PROCESSORS: list[tuple[Any, dict[str, Any]]] = [
    (ViTImageProcessorPil, {}),
    (ViTImageProcessorPil, {"size": {"height": 17, "width": 40}, "resample": 3, "do_normalize": False}),
    (ViTImageProcessorPil, {"size": {"shortest_edge": 13}, "resample": 0}),
    (ViTImageProcessorPil, {"do_resize": False, "rescale_factor": 1 / 127.5, "image_mean": [1.0, 0.5, 0.25]}),
    (ViTImageProcessorPil, {"size": {"height": 17, "width": 40}, "do_rescale": False}),
    (CLIPImageProcessorPil, {}),
    (CLIPImageProcessorPil, {"size": {"shortest_edge": 31}, "crop_size": {"height": 23, "width": 37}}),
    (CLIPImageProcessorPil, {"size": {"shortest_edge": 16}, "crop_size": {"height": 41, "width": 19}, "resample": 1}),
    (CLIPImageProcessorPil, {"do_resize": False, "crop_size": {"height": 32, "width": 18}}),
    (CLIPImageProcessorPil, {"do_center_crop": False, "size": {"shortest_edge": 20}, "resample": 5}),
]


@pytest.mark.parametrize(("kind", "changes"), PROCESSORS)
def test_processors(kind: Any, changes: dict[str, Any], tmp_path: Path) -> None:
    processor = kind(**changes)
    processor.save_pretrained(tmp_path)
    ours = read_preprocessing(tmp_path, "ViT")
    assert ours is not None
    for picture in images():
        np.testing.assert_allclose(ours(picture), preprocessed(processor, [picture])[0], **EXACT)


def test_images_with_alpha() -> None:
    from PIL import Image

    alpha = np.dstack([images()[1], np.arange(17 * 43, dtype=np.uint8).reshape(17, 43)])
    processor = CLIPImageProcessorPil(do_resize=False, do_center_crop=False, do_rescale=False, do_normalize=False)
    for given in (
        Image.fromarray(alpha),
        Image.fromarray(images()[1][..., 0]),
        Image.fromarray(images()[1]).quantize(7),
    ):
        theirs = processor(given, return_tensors="np")["pixel_values"][0]
        np.testing.assert_array_equal(read_image(given).transpose(2, 0, 1), theirs)
