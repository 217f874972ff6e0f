"""An encoder of images: a picture cut into patches, each a token, and a transformer over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..contract import op
from ..errors import ArgumentError, FileError
from ..io.config import Config
from ..io.families.vision import VisionSettings
from ..io.images import read_image
from ..io.preprocessing import Preprocessing, read_preprocessing
from ..io.tokens.tokenizer import Tokenizer
from ..layers import Block, FeedForward, LayerNorm, MultiHeadAttention
from ..layers.linear import linear
from ..ops import softmax
from ..ops.precision import Array
from .heads import Pooler


@dataclass(eq=False)
class PatchEmbeddings:
    """A vector for each patch of an image, one more for the whole of it, and for each where it stands.

    Attributes
    ----------
    W_patch : (n_channels * patch_height * patch_width, d_model) ndarray
    W_position : (n_patches + 1, d_model) ndarray
    cls : (d_model,) ndarray
        The token that stands for the whole image, and comes first.
    patch_size : tuple of int
        Height and width.
    b_patch : (d_model,) ndarray or None
    norm : LayerNorm or None
    """

    W_patch: Array
    W_position: Array
    cls: Array
    patch_size: tuple[int, int]
    b_patch: Array | None = None
    norm: LayerNorm | None = None

    @op(
        name="patch_embeddings", path="embeddings",
        image="*B n_channels height width", patches="*B n_patches d_patch", vectors="*B n_patches d_model",
        summed="*B T d_model", out="*B T d_model",
    )  # fmt: skip
    def __call__(self, image: Array) -> Array:
        """Vectors (..., n_patches + 1, d_model) of images (..., n_channels, height, width).

        Notes
        -----
        A convolution that steps by its own width looks at each patch once: it is one product of all patches with a
        matrix (Dosovitskiy et al., arXiv 2010.11929, section 3.1).
        """
        patches = cut_patches(image, self.patch_size)
        vectors = linear(patches, self.W_patch, self.b_patch)
        first = np.broadcast_to(self.cls, (*vectors.shape[:-2], 1, len(self.cls)))
        summed = np.concatenate([first, vectors], axis=-2) + self.W_position
        out = summed if self.norm is None else self.norm(summed)
        return out


@dataclass(eq=False)
class Classifier:
    """From the vector of the whole image to a number for each label.

    Attributes
    ----------
    W : (d_model, n_labels) ndarray
    b : (n_labels,) ndarray
    """

    W: Array
    b: Array

    @op(name="image_classifier", path="classifier", first="*B d_model", logits="*B n_labels")
    def __call__(self, hidden: Array) -> Array:
        first = hidden[..., 0, :]
        logits = linear(first, self.W, self.b)
        return logits


@dataclass(eq=False)
class ImageEncoder:
    """ViT, and the tower of CLIP that looks at images.

    Attributes
    ----------
    embeddings : PatchEmbeddings
    layers : list of Block
    norm : LayerNorm or None
        Of every vector after the last layer.
    settings : VisionSettings
    pooler : Pooler or None
        Loaded where the file has one; `model(...)` does not use it.
    classifier : Classifier or None
    preprocessing : Preprocessing or None
        How an image becomes numbers.
    directory : Path or None
        Where it was loaded from.
    tokenizer : None
        It reads no text.

    Notes
    -----
    Dosovitskiy et al., arXiv 2010.11929, section 3.
    """

    embeddings: PatchEmbeddings
    layers: list[Block]
    norm: LayerNorm | None
    settings: VisionSettings
    pooler: Pooler | None = None
    classifier: Classifier | None = None
    preprocessing: Preprocessing | None = None
    directory: Path | None = None
    tokenizer: Tokenizer | None = None

    def __repr__(self) -> str:
        shape = f"{len(self.layers)} layers, {self.settings.n_heads} heads, d_model {self.settings.d_model}"
        return f"<{type(self).__name__}: {shape}>"

    @classmethod
    def from_weights(cls, settings: VisionSettings, weights: dict[str, Any]) -> ImageEncoder:
        """The model of these settings and of weights in nested dicts, by the names of the fields."""
        table = dict(weights["embeddings"])
        norm = table.pop("norm", None)
        embeddings = PatchEmbeddings(
            **table, patch_size=settings.patch_size, norm=LayerNorm(**norm, eps=settings.eps) if norm else None
        )
        last = LayerNorm(**weights["norm"], eps=settings.eps) if "norm" in weights else None
        pooler, classifier = weights.get("pooler"), weights.get("classifier")
        return cls(
            embeddings, blocks(settings, weights["layers"]), last, settings,
            Pooler(**pooler) if pooler else None, Classifier(**classifier) if classifier else None,
        )  # fmt: skip

    def read_beside(self, directory: Path, config: Config) -> None:
        """What files beside the weights say: how an image becomes numbers."""
        self.preprocessing = read_preprocessing(directory, "ViT")

    @op(name="image_encoder", path="", image="*B n_channels height width", out="*B T d_model")
    def forward(self, image: Array) -> Array:
        """Hidden states (..., n_patches + 1, d_model) of images (..., n_channels, height, width), unchecked."""
        x = self.embeddings(image)
        for layer in self.layers:
            x = layer(x)
        out = x if self.norm is None else self.norm(x)
        return out

    def __call__(self, given: Any) -> Any:
        """The hidden states of the last layer: of the whole image first, then of each patch, row by row.

        Parameters
        ----------
        given : image, or a list of images
            Each a path, a Pillow image, an (H, W, 3) uint8 ndarray, or floats (n_channels, height, width) that are
            ready as the model takes them.

        Returns
        -------
        (n_patches + 1, d_model) ndarray, or a list of them
            For one, or for a list.

        Raises
        ------
        ArgumentError
            For what is no image, or one of another size.
        FileError
            For a file that is damaged or no image; and when nothing says how an image becomes numbers.
        """
        images, single = self.read(given)
        hidden = self.forward(images[0] if single else images)
        return hidden if single else list(hidden)

    def classify(self, given: Any) -> Any:
        """How likely each label is, the likeliest first.

        Parameters
        ----------
        given : image, or a list of images
            As in a call of the model.

        Returns
        -------
        dict of str to float, or a list of them
            Labels of the same name are told apart by their numbers.

        Raises
        ------
        FileError
            When the model came without a head that classifies.
        """
        if self.classifier is None:
            raise FileError("no_labels", path=self.directory)
        images, single = self.read(given)
        found = [self._ranked(softmax(self.classifier(hidden))) for hidden in self.forward(images)]
        return found[0] if single else found

    def _ranked(self, probabilities: Array) -> dict[str, float]:
        labels, times = self.settings.labels, Counter(self.settings.labels)
        names = [f"{label} ({i})" if times[label] > 1 else label for i, label in enumerate(labels)]
        return {names[i]: float(probabilities[i]) for i in np.argsort(-probabilities, kind="stable")}

    def grid(self, weights: Array) -> Array:
        """What a token gives to the patches, laid out as they stand in the image.

        Parameters
        ----------
        weights : (..., n_patches + 1) ndarray
            Rows of a head's weights, such as the first one, of the token that stands for the whole image.

        Returns
        -------
        (..., rows, columns) ndarray
            Without what goes to that token itself.
        """
        weights = np.asarray(weights)
        if weights.ndim == 0 or weights.shape[-1] != self.settings.n_positions:
            expected = f"(..., {self.settings.n_positions}), one number per token"
            raise ArgumentError("model_input", name="weights", expected=expected, what=f"shape {weights.shape}")
        return weights[..., 1:].reshape(*weights.shape[:-1], *self.settings.patch_grid)

    @property
    def tokens(self) -> list[str]:
        """What its tokens are called: `[CLS]`, then each patch by its row and column."""
        rows, columns = self.settings.patch_grid
        return ["[CLS]", *(f"r{row}c{column}" for row in range(rows) for column in range(columns))]

    def read(self, given: Any) -> tuple[Array, bool]:
        """Images as one batch of floats, checked, and whether it was a single one, not a list."""
        several = isinstance(given, list | tuple) or (isinstance(given, np.ndarray) and given.ndim == 4)
        if several and not len(given):
            raise ArgumentError("model_input", name="the input", expected="at least one image", what="an empty list")
        return np.stack([self._ready(read_image(one)) for one in (given if several else [given])]), not several

    def _ready(self, image: Array) -> Array:
        if image.dtype == np.uint8:
            if self.preprocessing is None:
                raise FileError("no_preprocessing", path=self.directory)
            image = self.preprocessing(image)
        channels, height, width = image.shape
        expected = (self.settings.n_channels, *self.settings.image_size)
        if image.shape != expected:
            raise ArgumentError(
                "image_size", height=height, width=width, channels=channels,
                expected_height=expected[1], expected_width=expected[2], expected_channels=expected[0],
            )  # fmt: skip
        return image.astype(np.result_type(self.embeddings.W_patch.dtype, np.float32), copy=False)


def cut_patches(image: Array, patch_size: Sequence[int]) -> Array:
    """(..., C, H, W) -> (..., n_patches, C * h * w): patches row by row, in each first its channels.

    What is left over on the right and below is not looked at.

    Examples
    --------
    >>> cut_patches(np.arange(16).reshape(1, 4, 4), (2, 2))[1]
    array([2, 3, 6, 7])
    """
    (height, width), (*lead, channels, _, _) = patch_size, image.shape
    rows, columns = image.shape[-2] // height, image.shape[-1] // width
    inside = image[..., : rows * height, : columns * width]
    pieces = inside.reshape(*lead, channels, rows, height, columns, width)
    n = len(lead)
    order = (*range(n), n + 1, n + 3, n, n + 2, n + 4)
    return pieces.transpose(order).reshape(*lead, rows * columns, channels * height * width)


def blocks(settings: Any, weights: dict[str, Any]) -> list[Block]:
    """Layers whose norms come before their parts; `settings` are those of an encoder of images, or of CLIP's texts."""

    def norm(part: dict[str, Array]) -> LayerNorm:
        return LayerNorm(**part, eps=settings.eps)

    return [
        Block(
            MultiHeadAttention(**layer["attention"], n_heads=settings.n_heads),
            FeedForward(**layer["feed_forward"], activation=settings.activation),
            norm(layer["norm_1"]), norm(layer["norm_2"]),
        )
        for layer in (weights[str(i)] for i in range(settings.n_layers))
    ]  # fmt: skip
