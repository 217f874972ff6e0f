"""An encoder of images: a picture cut into patches, each a token, and a transformer over them."""

from __future__ import annotations

from collections import Counter
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
from ..layers import Block, LayerNorm
from ..layers.linear import linear
from ..ops import softmax
from ..ops.precision import Array
from .heads import Pooler
from .patches import PatchEmbeddings


@dataclass(eq=False)
class ImageClassifier:
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
    classifier : ImageClassifier or None
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
    classifier: ImageClassifier | None = None
    preprocessing: Preprocessing | None = None
    directory: Path | None = None
    tokenizer: Tokenizer | None = None

    def __repr__(self) -> str:
        shape = f"{len(self.layers)} layers, {self.settings.n_heads} heads, d_model {self.settings.d_model}"
        return f"<{type(self).__name__}: {shape}>"

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
