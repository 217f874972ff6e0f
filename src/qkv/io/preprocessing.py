"""From an image to the numbers a model takes, as the `preprocessor_config.json` beside it says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FileError
from ..ops.precision import Array
from .config import Config
from .files import read_json
from .images import LARGEST, pillow

FILES = ("preprocessor_config.json", "processor_config.json")
# What each kind of file may leave out.
DEFAULTS: dict[str, dict[str, Any]] = {
    "ViT": {"size": {"height": 224, "width": 224}, "resample": 2, "image_mean": [0.5] * 3, "image_std": [0.5] * 3},
    "CLIP": {
        "size": {"shortest_edge": 224}, "resample": 3, "crop_size": 224,
        "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
    },
}  # fmt: skip
KINDS = ("ImageProcessor", "ImageProcessorFast", "ImageProcessorPil", "FeatureExtractor")
# How Pillow weighs the pixels that become one, by the numbers that it gives these ways.
RESAMPLES = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")
LONGEST = 1 << 16
UNREAD = {
    "_processor_class", "_valid_processor_keys", "data_format", "device", "disable_grouping", "do_convert_rgb",
    "image_seq_length", "input_data_format", "pad_size", "processor_class", "return_tensors",
}  # fmt: skip


@dataclass(frozen=True)
class Preprocessing:
    """The steps in their order; a step that is not taken is None.

    Attributes
    ----------
    path : Path
        The file that says so.
    size : int or tuple of int or None
        To which size: that of the shorter side, or height and width.
    resample : int
        How pixels become fewer or more; one of `PIL.Image.Resampling`.
    crop : tuple of int or None
        Height and width of the middle that is taken.
    factor : float or None
        What the pixels, from 0 to 255, are multiplied with.
    mean, std : tuple of float or None
        One number per channel: (pixel - mean) / std.
    """

    path: Path
    size: int | tuple[int, int] | None
    resample: int
    crop: tuple[int, int] | None
    factor: float | None
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None

    def __call__(self, image: Array) -> Array:
        """From (H, W, 3) uint8 to (3, H', W') float32."""
        pixels = self._cropped(self._resized(image)).astype(np.float64)
        if self.factor is not None:
            pixels = pixels * self.factor
        pixels = pixels.astype(np.float32)
        if self.mean is not None and self.std is not None:
            pixels = (pixels - np.array(self.mean, np.float32)) / np.array(self.std, np.float32)
        return np.ascontiguousarray(pixels.transpose(2, 0, 1))

    def _resized(self, image: Array) -> Array:
        if self.size is None:
            return image
        height, width = image.shape[:2]
        shorter = min(height, width)
        target = self.size
        if isinstance(target, int):
            target = (int(target * height / shorter), int(target * width / shorter))
        if target == (height, width):
            return image
        if target[0] * target[1] > LARGEST:
            raise FileError("too_many_pixels", path=self.path, height=target[0], width=target[1], limit=LARGEST)
        drawn = pillow().fromarray(image)
        return np.asarray(drawn.resize(target[::-1], resample=self.resample))

    def _cropped(self, image: Array) -> Array:
        """The middle; where the image is smaller, black around it."""
        for axis, size in enumerate(self.crop or ()):
            around = [(0, 0)] * image.ndim
            missing = max(0, size - image.shape[axis])
            around[axis] = ((missing + 1) // 2, missing // 2)
            start = max(0, image.shape[axis] - size) // 2
            image = np.pad(image, around).take(range(start, start + size), axis=axis)
        return image


def read_preprocessing(directory: Path, model: str) -> Preprocessing | None:
    """What the files beside a model say; None where there is no such file.

    Raises
    ------
    FileError
        For a kind of preprocessing that is not known, or a setting that is not understood.
    """
    for name in FILES:
        path = directory / name
        if not path.exists():
            continue
        values = read_json(path)
        if name == FILES[1]:
            values = values.get("image_processor", {})
        if values:
            return _read(Config(path, values), model)
    return None


def _read(config: Config, model: str) -> Preprocessing:
    given, before = config.raw("image_processor_type", None), config.raw("feature_extractor_type", None)
    kind = given or before or f"{model}{KINDS[0]}"
    known = {f"{name}{suffix}": name for name in DEFAULTS for suffix in KINDS}
    if not isinstance(kind, str) or kind not in known:
        raise config.wrong("image_processor_type", f"one of {', '.join(known)}")
    default = DEFAULTS[known[kind]]
    if config.raw("do_pad", None):
        raise config.wrong("do_pad", "false")
    resizes, rescales, normed = (config.flag(f"do_{name}", default=True) for name in ("resize", "rescale", "normalize"))
    crops = config.flag("do_center_crop", default="crop_size" in default)
    square = config.raw("default_to_square", None)
    size = _size(config, "size", default["size"], square="height" in default["size"] if square is None else square)
    crop = _size(config, "crop_size", default.get("crop_size", 224), square=True)
    resample = config.integer("resample", low=0, high=len(RESAMPLES) - 1, default=default["resample"])
    factor = config.number("rescale_factor", 0, 1e6, default=1 / 255)
    mean, std = (_channels(config, name, default[name]) for name in ("image_mean", "image_std"))
    config.finish(harmless=UNREAD)
    return Preprocessing(
        config.path, size if resizes else None, resample, crop if crops and isinstance(crop, tuple) else None,
        factor if rescales else None, mean if normed else None, std if normed else None,
    )  # fmt: skip


def _size(config: Config, name: str, default: Any, square: bool) -> int | tuple[int, int]:
    """That of the shorter side, or height and width; one number alone is one or the other."""
    given = default if config.raw(name, None) is None else config.raw(name)
    if isinstance(given, dict):
        names = ("shortest_edge",) if "shortest_edge" in given else ("height", "width")
        sides = [given[side] for side in names] if set(names) == set(given) else []
    elif isinstance(given, list):
        sides = given if len(given) == 2 else []
    else:
        sides = [given, given] if square else [given]
    if not sides or not all(isinstance(n, int) and not isinstance(n, bool) and 1 <= n <= LONGEST for n in sides):
        raise config.wrong(name, "a number of pixels, or height and width")
    return sides[0] if len(sides) == 1 else (sides[0], sides[1])


def _channels(config: Config, name: str, default: list[float]) -> tuple[float, ...]:
    given = default if config.raw(name, None) is None else config.raw(name)
    numbers = given if isinstance(given, list) else [given] * len(default)
    usable = all(isinstance(n, int | float) and not isinstance(n, bool) and abs(n) < LONGEST for n in numbers)
    if len(numbers) != len(default) or not usable or (name == "image_std" and 0 in numbers):
        raise config.wrong(name, f"{len(default)} numbers, one per channel")
    return tuple(float(n) for n in numbers)
