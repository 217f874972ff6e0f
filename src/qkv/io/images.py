"""Images as arrays of pixels, read through Pillow (extra `models`); whatever a file does, it is one line."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentError, FileError, MissingExtraError, QkvError
from ..ops.precision import Array
from .files import existing

LARGEST = 89_478_485  # pixels: above that, Pillow too takes an image for a bomb
# None that would start another program, or whose reader writes to the terminal itself.
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "PPM")
EXPECTED = "a path, a Pillow image, (H, W, 3) uint8 or ready (channels, H, W) floats"


def pillow() -> Any:
    """The module `PIL.Image`.

    Raises
    ------
    MissingExtraError
    """
    try:
        import PIL.Image
    except ImportError:
        raise MissingExtraError("extra", package="pillow", extra="models") from None
    return PIL.Image


def read_image(given: Any) -> Array:
    """The pixels of one image.

    Parameters
    ----------
    given : path_like, PIL.Image.Image, (H, W, 3) uint8 ndarray or (C, H, W) float ndarray

    Returns
    -------
    (H, W, 3) uint8 ndarray, or the floats as they came
        What can be seen through is laid on white.

    Raises
    ------
    ArgumentError
        For anything else, and for floats that are not finite.
    FileError
        no_file, not_a_file, cannot_read, damaged, or too_many_pixels.
    """
    if isinstance(given, str | os.PathLike):
        return _read(Path(given))
    if isinstance(given, np.ndarray):
        return _checked(given)
    if hasattr(given, "convert") and hasattr(given, "getbands"):
        return _pixels(given, "the image")
    raise ArgumentError("model_input", name="the image", expected=EXPECTED, what=type(given).__name__)


def _checked(image: Array) -> Array:
    if image.ndim == 3 and image.dtype == np.uint8 and image.shape[2] == 3 and image.size:
        return image
    if image.ndim != 3 or image.dtype.kind != "f" or not image.size:
        what = f"shape {image.shape} of {image.dtype}"
        raise ArgumentError("model_input", name="the image", expected=EXPECTED, what=what)
    if not np.isfinite(image).all():
        raise ArgumentError("model_input", name="the image", expected="finite everywhere", what="NaN or inf")
    return image


def _read(path: Path) -> Array:
    """The pixels of a file, upright as its camera held it."""
    module = pillow()
    from PIL import ImageOps

    try:
        with warnings.catch_warnings(), existing(path).open("rb") as file:
            warnings.simplefilter("ignore")  # of Pillow, about what is in the file
            with module.open(file, formats=FORMATS) as image:
                _small_enough(image, path)
                return _pixels(ImageOps.exif_transpose(image), path)
    except QkvError:
        raise
    except module.UnidentifiedImageError:
        raise FileError("damaged", path=path, reason=f"no image of the kinds {', '.join(FORMATS)}") from None
    except module.DecompressionBombError:
        raise FileError("damaged", path=path, reason="far too many pixels") from None
    except OSError as error:
        key = "damaged" if error.errno is None else "cannot_read"
        raise FileError(key, path=path, reason=error.strerror or str(error)) from None
    except Exception as error:  # Pillow's readers raise whatever a damaged file makes them
        raise FileError("damaged", path=path, reason=str(error) or type(error).__name__) from None


def _small_enough(image: Any, path: Any) -> None:
    width, height = image.size
    if width * height > LARGEST:
        raise FileError("too_many_pixels", path=path, height=height, width=width, limit=LARGEST)
    if width * height == 0:
        raise FileError("damaged", path=path, reason="an image without pixels")


def _pixels(image: Any, path: Any) -> Array:
    _small_enough(image, path)
    if image.mode in ("I", "F") or image.mode.startswith("I;"):  # Pillow would cut off what is above 255
        expected = "of at most 8 bits per channel"
        raise ArgumentError("model_input", name="the image", expected=expected, what=f"mode {image.mode}")
    if "A" in image.getbands() or image.info.get("transparency") is not None:
        seen = image.convert("RGBA")
        image = pillow().alpha_composite(pillow().new("RGBA", image.size, (255, 255, 255, 255)), seen)
    return np.array(image.convert("RGB"))
