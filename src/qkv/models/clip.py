"""CLIP: an encoder of images and one of texts, whose vectors meet in one space."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..contract import op
from ..errors import ArgumentError
from ..io.config import Config
from ..io.families.clip import CLIPSettings, TextSettings
from ..io.preprocessing import read_preprocessing
from ..io.tokens.tokenizer import Tokenizer
from ..layers import Block, LayerNorm
from ..layers.linear import linear
from ..ops import softmax
from ..ops.precision import Array
from .inputs import Given, padded, read_ids
from .vision import ImageEncoder
from .vocabulary import TokenEmbeddings


@dataclass(eq=False)
class TextEncoder:
    """The tower that reads texts: every token looks back at those before it.

    Attributes
    ----------
    embeddings : TokenEmbeddings
    layers : list of Block
    norm : LayerNorm
    settings : TextSettings
    """

    embeddings: TokenEmbeddings
    layers: list[Block]
    norm: LayerNorm
    settings: TextSettings

    @op(name="text_encoder", path="", ids="*B T", out="*B T d_model")
    def forward(self, ids: Array) -> Array:
        """Hidden states (..., T, d_model) of `ids` (..., T), unchecked; what is behind a text's end never matters."""
        x = self.embeddings(ids, np.arange(ids.shape[-1]))
        for layer in self.layers:
            x = layer(x, causal=True)
        out = self.norm(x)
        return out


@dataclass(eq=False)
class Projection:
    """From a tower's vector into the space where images and texts are compared.

    Attributes
    ----------
    W : (d_model, d_joint) ndarray
    norm : LayerNorm or None
    """

    W: Array
    norm: LayerNorm | None = None

    @op(name="projection", pooled="*B d_model", projected="*B d_joint", out="*B d_joint")
    def __call__(self, pooled: Array) -> Array:
        """Vectors (..., d_joint) of length 1."""
        normed = pooled if self.norm is None else self.norm(pooled)
        projected = linear(normed, self.W)
        out = projected / np.linalg.norm(projected, axis=-1, keepdims=True)
        return out


@dataclass(eq=False)
class CLIP:
    """Two towers, and where their vectors meet.

    Attributes
    ----------
    image : ImageEncoder
    text : TextEncoder
    image_projection, text_projection : Projection
    logit_scale : () ndarray
        The logarithm of what the cosines are multiplied with before the softmax.
    settings : CLIPSettings
    directory : Path or None
        Where it was loaded from.
    tokenizer : Tokenizer or None

    Notes
    -----
    Radford et al., arXiv 2103.00020, section 2.3 and figure 3.
    """

    image: ImageEncoder
    text: TextEncoder
    image_projection: Projection
    text_projection: Projection
    logit_scale: Array
    settings: CLIPSettings
    directory: Path | None = None
    tokenizer: Tokenizer | None = None

    def __repr__(self) -> str:
        shapes = ", ".join(
            f"{name} {tower.n_layers} layers of {tower.n_heads} heads, d_model {tower.d_model}"
            for name, tower in (("image", self.settings.image), ("text", self.settings.text))
        )
        return f"<{type(self).__name__}: {shapes}>"

    def read_beside(self, directory: Path, config: Config) -> None:
        """What files beside the weights say: how an image becomes numbers."""
        self.image.preprocessing = read_preprocessing(directory, "CLIP")
        self.image.directory = directory

    @property
    def grid(self) -> Any:
        """As `ImageEncoder.grid`."""
        return self.image.grid

    @property
    def tokens(self) -> list[str]:
        """As `ImageEncoder.tokens`."""
        return self.image.tokens

    @op(name="clip_hidden", path="", out="*B T d_model")
    def forward(self, image: Array) -> Array:
        """Hidden states of images (..., n_channels, height, width), unchecked."""
        out = self.image.forward(image)
        return out

    def __call__(self, given: Any) -> Any:
        """The hidden states of the last layer of the tower for images.

        Parameters
        ----------
        given : image, or a list of images
            As in a call of `ImageEncoder`.

        Returns
        -------
        (n_patches + 1, d_model) ndarray, or a list of them
        """
        images, single = self.image.read(given)
        hidden = self.forward(images[0] if single else images)
        return hidden if single else list(hidden)

    def encode_image(self, given: Any) -> Array:
        """A vector of length 1 for each image.

        Parameters
        ----------
        given : image, or a list of images

        Returns
        -------
        (n, d_joint) ndarray, or (d_joint,) for a single image
        """
        images, single = self.image.read(given)
        vectors = self._image_vectors(images)
        return vectors[0] if single else vectors

    def encode_text(self, given: Given) -> Array:
        """A vector of length 1 for each text.

        Parameters
        ----------
        given : str, (T,) array_like of int, or a list of such
            Token ids with those that the tokenizer puts around a text.

        Returns
        -------
        (n, d_joint) ndarray, or (d_joint,) for a single text

        Raises
        ------
        ArgumentError
            For a text of too many tokens, which is not cut; and for ids without the end at which a text is read off.
        """
        ids, ends, single = self.read_texts(given)
        vectors = self._text_vectors(ids, ends)
        return vectors[0] if single else vectors

    def match(self, images: Any, texts: Given) -> Array:
        """Which of the texts an image shows, as probabilities.

        Parameters
        ----------
        images : image, or a list of images
        texts : list of str, or of token ids

        Returns
        -------
        (n_images, n_texts) ndarray, or (n_texts,) for a single image
            Rows sum to 1.
        """
        pixels, single = self.image.read(images)
        ids, ends, _ = self.read_texts(texts)
        probabilities = self._compare(pixels, ids, ends)
        return probabilities[0] if single else probabilities

    @op(name="clip_image", path="", vectors="*B d_joint")
    def _image_vectors(self, image: Array) -> Array:
        vectors = self.image_projection(self.image.forward(image)[..., 0, :])
        return vectors

    @op(name="clip_text", path="", vectors="*B d_joint")
    def _text_vectors(self, ids: Array, ends: Array) -> Array:
        vectors = self.text_projection(self.text.forward(ids)[np.arange(len(ids)), ends])
        return vectors

    @op(
        name="clip_match", path="",
        image_vectors="n_images d_joint", text_vectors="n_texts d_joint", cosines="n_images n_texts",
        logits="n_images n_texts", probabilities="n_images n_texts",
    )  # fmt: skip
    def _compare(self, image: Array, ids: Array, ends: Array) -> Array:
        image_vectors = self.image_projection(self.image.forward(image)[..., 0, :])
        text_vectors = self.text_projection(self.text.forward(ids)[np.arange(len(ids)), ends])
        cosines = image_vectors @ text_vectors.T
        logits = cosines * np.exp(self.logit_scale)
        probabilities = softmax(logits)
        return probabilities

    def read_texts(self, given: Given) -> tuple[Array, Array, bool]:
        """Token ids (n, T), where each text is read off (n,), and whether it was a single one, not a list."""
        settings = self.settings.text
        sequences, single = read_ids(self, given, settings.vocab_size, settings.n_positions)
        ends = [self._end(ids, index) for index, ids in enumerate(sequences)]
        return padded(sequences)[0], np.array(ends, np.intp), single

    def _end(self, ids: Array, index: int) -> int:
        end = self.settings.text.end_id
        if end is None:  # the end has the largest id of a vocabulary to which nothing was added
            return int(ids.argmax())
        if end not in ids:
            raise ArgumentError("no_end_token", index=index, end=end)
        return int((ids == end).argmax())
