"""Where an encoder of images begins: a picture cut into patches, and a vector for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..contract import op
from ..layers import LayerNorm
from ..layers.linear import linear
from ..ops.precision import Array


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
