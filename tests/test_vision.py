"""Encoders of images held to transformers on tiny random models: ViT and CLIP, and the images that go into them."""

from __future__ import annotations

import functools
import json
import math
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.commanded import command
from tests.models_fixture import DATA, goldens

import qkv
from qkv import words
from qkv.errors import ArgumentError, FileError, MissingExtraError, QkvError
from qkv.io import images
from qkv.io.config import Config
from qkv.io.preprocessing import read_preprocessing
from qkv.models import CLIP, ImageEncoder, load
from qkv.models.families import FAMILIES
from qkv.models.patches import cut_patches

TINY = DATA / "tiny_vision"
CLOSE: dict[str, float] = {"rtol": 0, "atol": 1e-4}
EXACT: dict[str, float] = {"rtol": 0, "atol": 1e-6}  # the same float32 arithmetic as that of the processors
WRONG = 1e-3


@functools.cache
def vit() -> ImageEncoder:
    return load(TINY / "vit")


@functools.cache
def clip() -> CLIP:
    return load(TINY / "clip")


@functools.cache
def known(family: str) -> dict[str, np.ndarray]:
    return goldens(TINY / family / "goldens.npz")


@functools.cache
def pictures() -> list[np.ndarray]:
    """(H, W, 3) uint8, none of the size that a model takes but one."""
    return list(goldens(TINY / "pictures.npz").values())


def texts() -> list[np.ndarray]:
    arrays = known("clip")
    return [row[:length] for row, length in zip(arrays["ids"], arrays["lengths"])]


def copied(family: str, directory: Path, name: str = "config.json", **changes: Any) -> Path:
    """A copy of a tiny model with values of a JSON file set; `...` takes one out."""
    target = directory / family
    if not target.exists():
        shutil.copytree(TINY / family, target, ignore=shutil.ignore_patterns("goldens.npz"))
    values = json.loads((target / name).read_text()) | changes
    (target / name).write_text(json.dumps({key: value for key, value in values.items() if value is not ...}))
    return target


# held to transformers


def test_vit_equals_transformers() -> None:
    arrays = known("vit")
    hidden = vit()(list(arrays["pixels"]))
    np.testing.assert_allclose(hidden, arrays["hidden"], **CLOSE)
    np.testing.assert_allclose(vit().classifier(np.stack(hidden)), arrays["logits"], **CLOSE)
    for pixels, embedded, attention, expected in zip(
        *(arrays[n] for n in ("pixels", "embedded", "attention", "hidden"))
    ):
        with qkv.record() as trace:
            np.testing.assert_allclose(vit()(pixels), expected, **CLOSE)
        np.testing.assert_allclose(trace["embeddings.out"], embedded, **CLOSE)
        for i, weights in enumerate(attention):
            np.testing.assert_allclose(trace[f"layers.{i}.attention.weights"], weights, **CLOSE)


def test_clip_equals_transformers() -> None:
    arrays = known("clip")
    np.testing.assert_allclose(clip()(arrays["pixels"]), arrays["image_hidden"], **CLOSE)
    np.testing.assert_allclose(clip().encode_image(arrays["pixels"]), arrays["image_vectors"], **CLOSE)
    np.testing.assert_allclose(clip().encode_text(texts()), arrays["text_vectors"], **CLOSE)
    np.testing.assert_allclose(clip().match(arrays["pixels"], texts()), arrays["probabilities"], **CLOSE)
    for ids, hidden, vector in zip(texts(), arrays["text_hidden"], arrays["text_vectors"]):
        np.testing.assert_allclose(clip().text.forward(ids), hidden[: len(ids)], **CLOSE)
        np.testing.assert_allclose(clip().encode_text(ids), vector, **CLOSE)


@pytest.mark.parametrize("family", ["vit", "clip"])
def test_preprocessing_equals_the_processors(family: str) -> None:
    preprocessing = vit().preprocessing if family == "vit" else clip().image.preprocessing
    assert preprocessing is not None
    for picture, expected in zip(pictures(), known(family)["pixels"], strict=True):
        pixels = preprocessing(picture)
        assert pixels.dtype == np.float32
        np.testing.assert_allclose(pixels, expected, **EXACT)


def test_from_pictures_to_the_end() -> None:
    np.testing.assert_allclose(vit()(pictures()), known("vit")["hidden"], **CLOSE)
    np.testing.assert_allclose(clip().encode_image(pictures()), known("clip")["image_vectors"], **CLOSE)


@pytest.mark.parametrize("family", ["vit", "clip"])
def test_weights_kept_in_16_bits_compute_in_float32(family: str) -> None:
    """The files hold float16, so keeping it loses nothing."""
    narrow, wide = load(TINY / family, dtype="float16"), vit() if family == "vit" else clip()
    for pixels in known(family)["pixels"]:
        assert narrow(pixels).dtype == np.float32
        np.testing.assert_allclose(narrow(pixels), wide(pixels), **CLOSE)
    if family == "clip":
        np.testing.assert_allclose(narrow.encode_text(texts()), wide.encode_text(texts()), **CLOSE)


# planted faults: each must show


def off(model: Any, family: str) -> float:
    arrays = known(family)
    if family == "vit":
        return float(np.abs(np.array(model(list(arrays["pixels"]))) - arrays["hidden"]).max())
    both = np.concatenate([model.encode_image(arrays["pixels"]), model.encode_text(texts())])
    expected = np.concatenate([arrays["image_vectors"], arrays["text_vectors"]])
    return float(np.abs(both - expected).max())


def columns_first(model: ImageEncoder) -> None:
    """Patches column by column, instead of row by row."""
    rows, columns = model.settings.patch_grid
    table = model.embeddings.W_position
    turned = table[1:].reshape(columns, rows, -1).swapaxes(0, 1).reshape(table[1:].shape)
    model.embeddings.W_position = np.concatenate([table[:1], turned])


def colours_last(model: ImageEncoder) -> None:
    """The numbers of a patch pixel by pixel, instead of colour by colour."""
    W, n = model.embeddings.W_patch, model.settings.n_channels
    model.embeddings.W_patch = W.reshape(-1, n, W.shape[1]).swapaxes(0, 1).reshape(W.shape)


def activation(tower: Any, name: str) -> None:
    for layer in tower.layers:
        layer.feed_forward.activation = name


FAULTS: list[tuple[str, str, Callable[[Any], Any]]] = [
    ("vit", "patches column by column", columns_first),
    ("vit", "a patch pixel by pixel", colours_last),
    ("vit", "no last norm", lambda model: setattr(model, "norm", None)),
    ("vit", "the first token is another", lambda model: setattr(model.embeddings, "cls", -model.embeddings.cls)),
    ("clip", "no norm before the layers", lambda model: setattr(model.image.embeddings, "norm", None)),
    ("clip", "no norm before the projection", lambda model: setattr(model.image_projection, "norm", None)),
    ("clip", "gelu for quick_gelu in images", lambda model: activation(model.image, "gelu")),
    ("clip", "gelu for quick_gelu in texts", lambda model: activation(model.text, "gelu_tanh")),
    ("clip", "patches column by column", lambda model: columns_first(model.image)),
]


@pytest.mark.parametrize(("family", "note", "fault"), FAULTS, ids=[f"{f}-{note}" for f, note, _ in FAULTS])
def test_a_planted_fault_shows(family: str, note: str, fault: Callable[[Any], Any]) -> None:
    model = load(TINY / family)
    fault(model)
    assert off(model, family) > WRONG


def test_a_text_that_looks_ahead_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(TINY / "clip")
    for layer in model.text.layers:
        monkeypatch.setattr(layer, "attention", lambda x, attention=layer.attention, **_: attention(x))
    assert off(model, "clip") > WRONG


def test_a_text_read_off_elsewhere_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CLIP, "_end", lambda *_: 0)
    assert off(clip(), "clip") > WRONG


# where a text is read off


def test_the_end_is_the_largest_id_where_the_file_says_2(tmp_path: Path) -> None:
    assert clip().settings.text.end_id is None
    config = json.loads((TINY / "clip" / "config.json").read_text())
    named = load(copied("clip", tmp_path, text_config=config["text_config"] | {"eos_token_id": 60}))
    assert named.settings.text.end_id == 60
    for ids in texts():
        np.testing.assert_allclose(named.encode_text(ids), clip().encode_text(ids), **CLOSE)
        first = clip().encode_text([*ids[:-1], 59, 60, 60])  # ends twice, and read off at the first
        np.testing.assert_array_equal(first, clip().encode_text([*ids[:-1], 59, 60]))
    other = load(copied("clip", tmp_path, text_config=config["text_config"] | {"eos_token_id": 57}))
    ids = np.array([58, 3, 57, 60])
    at_57 = clip().text_projection(clip().text.forward(ids)[2])
    np.testing.assert_allclose(other.encode_text(ids), at_57, **CLOSE)
    assert np.abs(other.encode_text(ids) - clip().encode_text(ids)).max() > WRONG
    with pytest.raises(ArgumentError, match=r"^text 1 of the list \(counted from 0\) has no end token 57, "):
        other.encode_text([[58, 57], [58, 3, 60]])
    with pytest.raises(ArgumentError, match=r"^the text has 20 tokens, but the model takes at most 19"):
        clip().encode_text(np.arange(3, 23))


def test_texts_with_a_tokenizer() -> None:
    one, other = "a photo of a cat", "the dog"
    ids = clip().tokenizer.encode(one)
    assert (ids[0], ids[-1]) == (58, 60)
    vectors = clip().encode_text([one, other])
    np.testing.assert_allclose(vectors[0], clip().encode_text(ids), **CLOSE)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=-1), 1, rtol=1e-6)
    rows = clip().match(pictures(), [one, other])
    assert rows.shape == (len(pictures()), 2)
    np.testing.assert_allclose(rows.sum(axis=-1), 1, rtol=1e-6)
    np.testing.assert_allclose(clip().match(pictures()[1], [one, other]), rows[1], **CLOSE)
    scale = float(np.exp(clip().logit_scale))
    cosines = clip().encode_image(pictures()) @ vectors.T
    np.testing.assert_allclose(rows, qkv.softmax(cosines * scale), **CLOSE)


# what comes out


def test_classify_ranks_the_labels() -> None:
    found = vit().classify(pictures())
    for row, logits in zip(found, known("vit")["logits"]):
        expected = qkv.softmax(logits)
        names = ["cat (0)", "dog", "tree", "cat (3)", "apple"]
        assert list(row) == [names[i] for i in np.argsort(-expected)]
        np.testing.assert_allclose([row[name] for name in names], expected, **CLOSE)
    assert vit().classify(pictures()[2]) == pytest.approx(found[2], abs=1e-6)


def test_the_grid_lies_as_the_patches_in_the_image() -> None:
    rows, columns = vit().settings.patch_grid
    assert (rows, columns) == (3, 4)
    weights = np.arange(rows * columns + 1)
    laid = vit().grid(weights)
    image = np.zeros((3, 15, 29), np.float32)
    for r in range(rows):
        for c in range(columns):
            image[:, 5 * r : 5 * r + 5, 7 * c : 7 * c + 7] = laid[r, c]
    patches = cut_patches(image, (5, 7))
    np.testing.assert_array_equal(patches, np.broadcast_to(weights[1:, None], patches.shape))
    assert vit().tokens[1 + weights[1:].tolist().index(laid[2, 1])] == "r2c1"
    assert vit().grid(np.zeros((3, 13, 13))).shape == (3, 13, 3, 4)
    assert clip().grid(np.zeros(10)).shape == (3, 3)
    with pytest.raises(
        ArgumentError, match=r"^weights must be \(\.\.\., 13\), one number per token, but shape \(7,\) came"
    ):
        vit().grid(np.zeros(7))


def test_patches_are_seen_in_the_trace() -> None:
    pixels = known("vit")["pixels"][1]
    with qkv.record() as trace:
        vit()(pixels)
    patches = trace["embeddings.patches"]
    assert patches.shape == (12, 3 * 5 * 7)
    np.testing.assert_array_equal(patches[6].reshape(3, 5, 7), pixels[:, 5:10, 14:21])  # r1c2
    with qkv.record() as trace:
        clip().match(pictures(), texts())
    assert trace["image.layers.2.attention.weights"].shape == (4, 3, 10, 10)
    assert trace["text.layers.1.attention.weights"].shape == (3, 5, 15, 15)
    assert {"image_vectors", "text_vectors", "cosines", "probabilities"} <= set(trace)


def test_an_edit_reaches_a_tower() -> None:
    before = clip().encode_image(pictures())
    with qkv.edit({"image.layers.1.attention.weights": qkv.edits.zero(head=2)}):
        after = clip().encode_image(pictures())
    assert np.abs(after - before).max() > WRONG


# what may be put in


def test_every_form_of_an_image_gives_the_same(tmp_path: Path) -> None:
    module = pytest.importorskip("PIL.Image")
    picture = pictures()[1]
    expected, path = vit()(picture), tmp_path / "远方.png"
    module.fromarray(picture).save(path)
    for given in (path, str(path), module.open(path), vit().preprocessing(picture), picture[:, ::1].copy()):
        np.testing.assert_array_equal(vit()(given), expected)
    for one, alone in zip(vit()([path, picture]), (expected, expected)):
        np.testing.assert_allclose(one, alone, **CLOSE)


def test_what_can_be_seen_through_is_laid_on_white(tmp_path: Path) -> None:
    module = pytest.importorskip("PIL.Image")
    clear = np.dstack([pictures()[0], np.full(pictures()[0].shape[:2], 0, np.uint8)])
    module.fromarray(clear).save(tmp_path / "clear.png")
    np.testing.assert_array_equal(images.read_image(tmp_path / "clear.png"), 255)
    grey = module.fromarray(pictures()[0][..., 0])
    np.testing.assert_array_equal(images.read_image(grey), np.repeat(pictures()[0][..., :1], 3, axis=2))


def test_a_photo_stands_as_its_camera_held_it(tmp_path: Path) -> None:
    module = pytest.importorskip("PIL.Image")
    image, exif = module.fromarray(pictures()[1]), module.Exif()
    exif[0x0112] = 6  # turned by a quarter
    image.save(tmp_path / "turned.png", exif=exif)
    np.testing.assert_array_equal(images.read_image(tmp_path / "turned.png"), np.rot90(pictures()[1], -1))


REFUSED: list[tuple[Any, str]] = [
    (7, "the image must be a path, a Pillow image, (H, W, 3) uint8 or ready (channels, H, W) floats, but int came"),
    (np.zeros((5, 7), np.uint8), "the image must be .*, but shape (5, 7) of uint8 came"),
    (np.zeros((3, 5, 7), np.int64), "the image must be .*, but shape (3, 5, 7) of int64 came"),
    (np.zeros((0, 7, 3), np.uint8), "the image must be .*, but shape (0, 7, 3) of uint8 came"),
    (np.full((3, 15, 29), np.nan), "the image must be finite everywhere, but NaN or inf came"),
    ([], "the input must be at least one image, but an empty list came"),
    (np.zeros((3, 29, 15)),
     "the image is 29 x 15 pixels with 3 channels, but the model takes 15 x 29 with 3"),
    (np.zeros((1, 15, 29)), "the image is 15 x 29 pixels with 1 channels, but the model takes 15 x 29 with 3"),
    ("no/such.png", "no such file: no/such.png"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "said"), REFUSED)
def test_what_is_no_image_is_one_line(given: Any, said: str) -> None:
    pytest.importorskip("PIL")
    with pytest.raises(QkvError) as refused:
        vit()(given)
    head, _, tail = said.partition(".*")
    assert str(refused.value).startswith(head)
    assert str(refused.value).endswith(tail)
    assert "\n" not in words.message(refused.value, "zh")


def test_without_what_is_needed_it_says_so(tmp_path: Path) -> None:
    directory = copied("vit", tmp_path, architectures=["ViTModel"])
    (directory / "preprocessor_config.json").unlink()
    tensors = load_file(directory / "model.safetensors")
    save_file({n: v for n, v in tensors.items() if "classifier" not in n}, directory / "model.safetensors")
    bare = load(directory)
    np.testing.assert_array_equal(bare(known("vit")["pixels"][0]), vit()(known("vit")["pixels"][0]))
    with pytest.raises(FileError, match=r"has no preprocessor_config\.json to say how an image becomes numbers"):
        bare(pictures()[0])
    with pytest.raises(FileError, match="has no head that classifies"):
        bare.classify(known("vit")["pixels"][0])


def test_without_pillow_floats_still_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    vit()(known("vit")["pixels"][0])
    np.testing.assert_allclose(vit()(pictures()[3]), known("vit")["hidden"][3], **CLOSE)  # of the right size already
    for given in (pictures()[0], "cat.png"):
        with pytest.raises(MissingExtraError, match=r"pip install 'qkv\[models\]'"):
            vit()(given)


# preprocessing as it is written


OLD = {"feature_extractor_type": "CLIPFeatureExtractor", "size": 19, "crop_size": 17, "do_resize": True,
       "do_center_crop": True, "do_normalize": True, "resample": 3, "image_mean": [0.48145466, 0.4578275, 0.40821073],
       "image_std": [0.26862954, 0.26130258, 0.27577711]}  # fmt: skip


def written(directory: Path, values: dict[str, Any], name: str = "preprocessor_config.json") -> Path:
    (directory / name).write_text(json.dumps(values))
    return directory


def test_old_and_nested_forms_mean_the_same(tmp_path: Path) -> None:
    new = json.loads((TINY / "clip" / "preprocessor_config.json").read_text())
    for i, values in enumerate([OLD, new, {"image_processor": new, "processor_class": "CLIPProcessor"}]):
        directory = tmp_path / str(i)
        directory.mkdir()
        name = "processor_config.json" if "image_processor" in values else "preprocessor_config.json"
        read = read_preprocessing(written(directory, values, name), "CLIP")
        assert read is not None
        for picture, expected in zip(pictures(), known("clip")["pixels"]):
            np.testing.assert_allclose(read(picture), expected, **EXACT)
    square = read_preprocessing(
        written(tmp_path, {"size": 13, "feature_extractor_type": "ViTFeatureExtractor"}), "CLIP"
    )
    assert square is not None
    assert (square.size, square.crop, square.resample, square.mean) == ((13, 13), None, 2, (0.5, 0.5, 0.5))
    assert read_preprocessing(tmp_path / "0" / "none", "ViT") is None


def test_what_is_too_small_for_the_crop_gets_black_around_it(tmp_path: Path) -> None:
    """Of an odd number of rows or columns, the one more stands above and on the left, as transformers has it."""
    plain = {"do_resize": False, "do_normalize": False, "do_rescale": False, "crop_size": {"height": 5, "width": 3}}
    read = read_preprocessing(written(tmp_path, OLD | plain), "CLIP")
    assert read is not None
    pixels = read(np.ones((2, 2, 3), np.uint8))[0]
    np.testing.assert_array_equal(pixels, [[0, 0, 0], [0, 0, 0], [0, 1, 1], [0, 1, 1], [0, 0, 0]])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"image_processor_type": [None]}, "'image_processor_type' must be one of ViTImage"),
        ({"image_processor_type": "ConvNextImageProcessor"}, "'image_processor_type' must be one of ViTImage"),
        ({"crop_pct": 0.9}, "'crop_pct' is not a setting that is understood"),
        ({"do_pad": True}, "'do_pad' must be false, but it is True"),
        ({"size": {"longest_edge": 9}}, "'size' must be a number of pixels, or height and width"),
        ({"size": {"shortest_edge": 9, "longest_edge": 19}}, "'size' must be a number of pixels, or height and width"),
        ({"size": 10**9}, "'size' must be a number of pixels, or height and width"),
        ({"crop_size": -3}, "'crop_size' must be a number of pixels, or height and width"),
        ({"resample": 9}, "'resample' must be an integer from 0 to 5"),
        ({"image_std": [0.5, 0, 0.5]}, "'image_std' must be 3 numbers, one per channel"),
        ({"image_mean": [0.5]}, "'image_mean' must be 3 numbers, one per channel"),
        ({"rescale_factor": "x"}, "'rescale_factor' must be a number from 0 to "),
    ],
)  # fmt: skip
def test_preprocessing_that_is_not_understood_is_refused(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(FileError) as refused:
        read_preprocessing(written(tmp_path, OLD | changes | {"feature_extractor_type": None}), "CLIP")
    assert said in str(refused.value)


# hostile files


def png(width: int, height: int) -> bytes:
    """A file that announces so many pixels and holds none."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


HOSTILE: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("a bomb", lambda _: png(60_000, 60_000), "is damaged or not what it says: far too many pixels"),
    ("a smaller bomb", lambda _: png(10_000, 10_000),
     "asks for an image of 10000 x 10000 pixels, but at most 89478485 are computed"),
    ("without pixels", lambda _: png(29, 15), "is damaged or not what it says: "),
    ("truncated", lambda whole: whole[: len(whole) // 2], "is damaged or not what it says: "),
    ("within its header", lambda whole: whole[:20], "is damaged or not what it says: "),
    ("empty", lambda _: b"", "is damaged or not what it says: no image of the kinds PNG, JPEG, "),
    ("text", lambda _: b"The cat sat on the mat", "is damaged or not what it says: no image of the kinds PNG, "),
    ("PostScript", lambda _: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", ": no image of the kinds PNG, "),
    ("bytes changed", lambda whole: whole[:60] + bytes(40) + whole[100:], "is damaged or not what it says: "),
]  # fmt: skip


@pytest.mark.parametrize(("what", "spoil", "said"), HOSTILE, ids=[row[0] for row in HOSTILE])
def test_a_hostile_image_is_one_line(what: str, spoil: Callable[[bytes], bytes], said: str, tmp_path: Path) -> None:
    module = pytest.importorskip("PIL.Image")
    path = tmp_path / "image.png"
    module.fromarray(pictures()[1]).save(path)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(FileError) as refused:
        vit()(path)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_thin_image_cannot_become_a_huge_one(tmp_path: Path) -> None:
    """One pixel wide: made 19 wide it would be 19 times as long."""
    thin = np.zeros((3_000_000, 1, 3), np.uint8)
    with pytest.raises(FileError, match=r"asks for an image of 57000000 x 19 pixels, but at most"):
        clip()(thin)


def test_more_than_8_bits_are_refused(tmp_path: Path) -> None:
    module = pytest.importorskip("PIL.Image")
    module.fromarray(np.full((9, 9), 40_000, np.uint16)).save(tmp_path / "deep.png")
    with pytest.raises(ArgumentError, match="the image must be of at most 8 bits per channel, but mode I;16 came"):
        vit()(tmp_path / "deep.png")


# settings


OLD_TOWER = {"_name_or_path": "", "add_cross_attention": False, "bad_words_ids": None, "num_beams": 1, "top_k": 50,
             "decoder_start_token_id": None, "is_decoder": False, "cross_attention_hidden_size": None}  # fmt: skip


def test_older_files_of_clip_load(tmp_path: Path) -> None:
    config = json.loads((TINY / "clip" / "config.json").read_text())
    parts = {f"{name}_config": config[f"{name}_config"] | OLD_TOWER for name in ("text", "vision")}
    before = {"vision_config_dict": None, "text_config_dict": {k: v for k, v in config["text_config"].items()
                                                               if k not in ("eos_token_id", "hidden_act")}}  # fmt: skip
    directory = copied("clip", tmp_path, **parts, **before)
    path = directory / "model.safetensors"
    save_file({**load_file(path), "text_model.embeddings.position_ids": np.arange(19)[None]}, path)
    model = load(directory)
    assert model.settings.text.end_id == 49407  # what `text_config_dict` leaves out has its default
    np.testing.assert_allclose(model.encode_image(pictures()), clip().encode_image(pictures()), **CLOSE)


@pytest.mark.parametrize(
    ("family", "changes", "said"),
    [
        ("vit", {"pooler_act": "relu"}, "'pooler_act' must be 'tanh'"),
        ("vit", {"patch_size": 40}, "'patch_size' must be such that an image has from 1 to 65536 patches"),
        ("vit", {"image_size": [15, 29, 3]}, "'image_size' must be a number of pixels, or height and width"),
        ("vit", {"id2label": {"1": "cat"}}, "'id2label' must be a name for each number from 0"),
        ("vit", {"hidden_size": 22}, "'hidden_size' must be a multiple of num_attention_heads=3"),
        ("vit", {"with_dreams": 1}, "'with_dreams' is not a setting that is understood"),
        ("clip", {"text_config": 3}, "'text_config' must be an object, but it is 3"),
        ("clip", {"vision_config": ...}, "has no 'vision_config'"),
        ("clip", {"vision_config": {"dreams": 1}}, "'dreams' is not a setting that is understood"),
        ("clip", {"text_config_dict": {"dreams": 1}}, "'dreams' is not a setting that is understood"),
        ("clip", {"projection_dim": 12}, "tensor 'visual_projection.weight' must have shape (12, 21)"),
        ("clip", {"architectures": ["CLIPTextModel"]}, "asks for architecture 'CLIPTextModel'"),
    ],
)  # fmt: skip
def test_settings_that_are_not_understood_are_refused(
    family: str, changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(FileError) as refused:
        load(copied(family, tmp_path, **changes))
    assert said in str(refused.value)


PUBLISHED = json.loads((DATA / "published_vision.json").read_text())


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_size_of_published_models(name: str) -> None:
    """Their settings are understood, and the tensors that are asked for hold as many numbers as is known of them."""
    config = Config(Path("config.json"), PUBLISHED[name]["config"])
    family = FAMILIES[config.raw("model_type")][0]
    settings = family.settings(config)
    count = sum(math.prod(row.shape(settings)) for row in family.rows(settings, ()))
    assert count == PUBLISHED[name]["parameters"]


def test_pillow_is_imported_when_an_image_is_read() -> None:
    program = "import sys, qkv.models; print('PIL' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


# looking into them


@pytest.mark.parametrize(("family", "last", "rows"), [("vit", "r2c3", 13), ("clip", "r2c2", 10)])
def test_see_names_the_patches(family: str, last: str, rows: int, tmp_path: Path) -> None:
    module = pytest.importorskip("PIL.Image")
    module.fromarray(pictures()[1]).save(tmp_path / "cat.png")
    model = load(TINY / family)
    seen = qkv.see(model, str(tmp_path / "cat.png"), layer=1, head=2, row="r1c2", lang="en")
    assert (seen.tokens[0], seen.tokens[-1], len(seen.tokens)) == ("[CLS]", last, rows)
    with qkv.record() as trace:
        getattr(model, "image", model)(pictures()[1])
    for layer, weights in enumerate(seen.weights):
        np.testing.assert_allclose(weights, trace[f"layers.{layer}.attention.weights"], **CLOSE)
    text = str(seen)
    assert "For the token r1c2 (row " in text
    assert "within the text" in text


def test_classify_on_the_command_line() -> None:
    picture = TINY / "picture.png"
    found = list(vit().classify(picture).items())
    shown = command("classify", picture, "--model", TINY / "vit", "--labels", 2)
    assert shown.out.splitlines() == [f"{p:.4f}  {label}" for label, p in found[:2]]
    whole = json.loads(command("classify", picture, picture, "--model", TINY / "vit", "--json").out)
    assert whole["labels"] == [pytest.approx(dict(found), abs=1e-6)] * 2
    refused = command("classify", "a cat", "--model", TINY / "clip")
    assert (refused.code, refused.err.count("\n")) == (2, 1)


def test_see_on_the_command_line(tmp_path: Path) -> None:
    module = pytest.importorskip("PIL.Image")
    path = tmp_path / "a cat.png"
    module.fromarray(pictures()[1]).save(path)
    done = command("see", str(path), "--model", str(TINY / "vit"), "--json")
    assert done.code == 0
    assert json.loads(done.out)["tokens"][5] == "r1c0"
    refused = command("see", str(tmp_path / "none.png"), "--model", str(TINY / "vit"))
    assert refused.code == 2
    assert refused.err == f"Error: no such file: {tmp_path / 'none.png'}\n"
