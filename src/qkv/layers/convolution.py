"""A convolution over time: each new row is read from a few neighbouring rows, everywhere with the same weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..contract import op
from ..errors import ShapeError
from ..ops.precision import Array
from .linear import linear
from .parts import Seed, generator, rows, sizes, xavier


@dataclass(eq=False)
class Convolution:
    """A convolution in one dimension.

    Attributes
    ----------
    W : (width, d_in, d_out) ndarray
        How each of `width` neighbouring rows counts.
    b : (d_out,) ndarray or None
    stride : int
        How far apart the rows stand around which is read: 2 halves their number.
    padding : int
        How many rows of zeros are thought before the first and behind the last.

    Notes
    -----
    out[t] = b + Σ_w x[t · stride + w - padding] W[w], not mirrored, as all frameworks do it; T becomes
    (T + 2 · padding - width) // stride + 1.

    Examples
    --------
    >>> mean = Convolution(np.full((3, 1, 1), 1 / 3), padding=1)
    >>> mean(np.array([[3.0], [6.0], [0.0], [9.0]]))[:, 0]
    array([3., 3., 5., 3.])
    >>> Convolution.init(d_in=5, d_out=7, width=3, stride=2, padding=1)(np.ones((2, 11, 5))).shape
    (2, 6, 7)
    """

    W: Array
    b: Array | None = None
    stride: int = 1
    padding: int = 0

    @classmethod
    def init(
        cls, d_in: int, d_out: int, width: int, *, stride: int = 1, padding: int = 0, seed: Seed = 0
    ) -> Convolution:
        """Xavier weights, bias 0."""
        sizes(d_in=d_in, d_out=d_out, width=width, stride=stride)
        W = xavier(generator(seed), width * d_in, d_out).reshape(width, d_in, d_out)
        return cls(W, np.zeros(d_out), stride, padding)

    @op(name="convolution", x="*B T d_in", windows="*B T_out width*d_in", output="*B T_out d_out")
    def __call__(self, x: Array) -> Array:
        """`x` (..., T, d_in) to (..., T_out, d_out)."""
        x = rows("x", x, "(..., T, d_in)")
        width, d_in, d_out = self.W.shape
        if x.shape[-1] != d_in:
            raise ShapeError("width", name="x", size=x.shape[-1], weights=self.W.shape, expected=d_in)
        around = [(0, 0)] * (x.ndim - 2) + [(self.padding, self.padding), (0, 0)]
        wide = np.pad(x, around)
        if wide.shape[-2] < width:
            expected = f"(..., T >= {width - 2 * self.padding}, {d_in})"
            raise ShapeError("shape", name="x", expected=expected, shape=x.shape)
        seen = np.lib.stride_tricks.sliding_window_view(wide, width, axis=-2)[..., :: self.stride, :, :]
        windows = np.ascontiguousarray(seen.swapaxes(-1, -2)).reshape(*seen.shape[:-2], width * d_in)
        output = linear(windows, self.W.reshape(width * d_in, d_out), self.b)
        return output
