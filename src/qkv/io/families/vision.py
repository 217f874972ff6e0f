"""The settings of an encoder of images, and the rows of a layer that encoders of images and CLIP's texts share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...ops.precision import Array
from ..config import ACTIVATIONS, Config
from ..weights import MAX_LAYERS, Row, linear, norm

MOST_PATCHES = 1 << 16


@dataclass(frozen=True)
class VisionSettings:
    """What the weights of an encoder of images do not say themselves.

    Attributes
    ----------
    d_model, d_ff, n_heads, n_layers : int
    image_size, patch_size : tuple of int
        Height and width, in pixels.
    n_channels : int
    activation : str
        One of `qkv.layers.parts.ACTIVATIONS`.
    eps : float
        Of the norms.
    qkv_bias : bool
    d_pooled : int
        The width of what the pooler gives, where there is one.
    labels : tuple of str
        What a head that classifies tells apart.
    """

    d_model: int
    d_ff: int
    n_heads: int
    n_layers: int
    image_size: tuple[int, int]
    patch_size: tuple[int, int]
    n_channels: int
    activation: str
    eps: float
    qkv_bias: bool = True
    d_pooled: int = 0
    labels: tuple[str, ...] = ()

    @property
    def patch_height(self) -> int:
        return self.patch_size[0]

    @property
    def patch_width(self) -> int:
        return self.patch_size[1]

    @property
    def patch_grid(self) -> tuple[int, int]:
        """How many patches stand below and beside each other; what is left over at the edges is not looked at."""
        return self.image_size[0] // self.patch_size[0], self.image_size[1] // self.patch_size[1]

    @property
    def n_positions(self) -> int:
        """A position for each patch, and one for the token that stands for the whole image."""
        return self.patch_grid[0] * self.patch_grid[1] + 1

    @property
    def n_labels(self) -> int:
        return len(self.labels)


def vision_settings(config: Config, *, activation: str, eps: float, **known: Any) -> VisionSettings:
    """The settings that ViT and CLIP write alike; `activation` and `eps` are what they have by default."""
    d_model, n_heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    if d_model % n_heads:
        raise config.wrong("hidden_size", f"a multiple of num_attention_heads={n_heads}")
    image, patch = square(config, "image_size", 224), square(config, "patch_size", known.pop("patch"))
    rows, columns = image[0] // patch[0], image[1] // patch[1]
    if not 1 <= rows * columns <= MOST_PATCHES:
        raise config.wrong("patch_size", f"such that an image has from 1 to {MOST_PATCHES} patches")
    return VisionSettings(
        d_model=d_model,
        d_ff=config.integer("intermediate_size"),
        n_heads=n_heads,
        n_layers=config.integer("num_hidden_layers", high=MAX_LAYERS),
        image_size=image,
        patch_size=patch,
        n_channels=config.integer("num_channels", default=3),
        activation=config.choice("hidden_act", ACTIVATIONS, default=activation),
        eps=config.small("layer_norm_eps", default=eps),
        **known,
    )


def square(config: Config, name: str, default: int) -> tuple[int, int]:
    """A height and a width, also where they are given as one number."""
    value = config.raw(name, default)
    sides = value if isinstance(value, list) else [value, value]
    if len(sides) != 2 or not all(isinstance(side, int) and not isinstance(side, bool) and side > 0 for side in sides):
        raise config.wrong(name, "a number of pixels, or height and width")
    return sides[0], sides[1]


def layer_rows(ours: str, foreign: str, parts: Mapping[str, str], of: str = "", qkv_bias: bool = True) -> Iterator[Row]:
    """The tensors of a layer whose norms come before its parts.

    `parts` says what each is called in the file, `of` is the tower whose sizes they have (`image.`), where there are
    two.
    """
    names = {part: f"{foreign}.{name}" for part, name in parts.items()}
    d_model, d_ff = f"{of}d_model", f"{of}d_ff"
    for letter in "QKV":
        yield from linear(f"{ours}.attention", letter, names[letter], d_model, d_model, qkv_bias)
    yield from linear(f"{ours}.attention", "O", names["O"], d_model, d_model)
    yield from linear(f"{ours}.feed_forward", "1", names["1"], d_model, d_ff)
    yield from linear(f"{ours}.feed_forward", "2", names["2"], d_ff, d_model)
    yield from norm(f"{ours}.norm_1", names["norm_1"], d_model)
    yield from norm(f"{ours}.norm_2", names["norm_2"], d_model)


def one_row(kernel: Array) -> Array:
    """The kernel of a convolution, one row for each of its outputs: a patch is as wide as the kernel."""
    return kernel.reshape(len(kernel), -1)


def first_row(x: Array) -> Array:
    """(1, 1, d) -> (d,), and (1, n, d) -> (n, d)."""
    return x.reshape(x.shape[1:]) if x.shape[1] > 1 else x.reshape(x.shape[-1])
