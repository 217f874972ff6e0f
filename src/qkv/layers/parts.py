"""The small parts of a block: norms, feed-forward layers, and how weights are first drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ..contract import op
from ..errors import ArgumentError, ShapeError
from ..ops import gelu, layer_norm, rms_norm, silu
from ..ops.precision import Array, number
from ..ops.valid import integer
from .linear import Joined, can_join, linear, plus, products

Seed = int | np.random.Generator


def quick_gelu(x: Array) -> Array:
    """x sigmoid(1.702 x): a rough form of GELU (Hendrycks, Gimpel, arXiv 1606.08415, section 2), which CLIP kept."""
    slope = x.dtype.type(1.702)
    return silu(slope * x) / slope


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "gelu": gelu,
    "gelu_tanh": partial(gelu, approximate="tanh"),
    "relu": lambda x: np.maximum(x, 0),
    "silu": silu,
    "quick_gelu": quick_gelu,
}


def activation(name: str) -> Callable[[Array], Array]:
    """The activation of that name."""
    if name not in ACTIVATIONS:
        raise ArgumentError("choice", name="activation", choices=", ".join(ACTIVATIONS), value=name)
    return ACTIVATIONS[name]


def sizes(**given: int | None) -> None:
    """Refuse sizes that are no integers of at least 1; None is a size that was left out."""
    for name, size in given.items():
        if size is not None:
            integer(name, size, 1)


def generator(seed: Seed) -> np.random.Generator:
    """The generator that a seed begins, or that it is."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        expected = "an integer of at least 0, or a numpy.random.Generator"
        raise ArgumentError("number", name="seed", expected=expected, value=seed) from None


def rows(name: str, x: Array, axes: str = "(..., T, d_model)") -> Array:
    """`x` as an array of floats with at least an axis of rows and one of their features."""
    x = number(name, x)
    if x.ndim < 2:
        raise ShapeError("axes", name=name, expected=2, axes=axes, shape=x.shape)
    return x


def xavier(rng: np.random.Generator, d_in: int, d_out: int) -> Array:
    """A matrix (d_in, d_out) from a normal distribution of variance 2 / (d_in + d_out).

    Such weights keep the size of what passes through them, forward and backward (Glorot, Bengio, "Understanding the
    difficulty of training deep feedforward neural networks", 2010, equation 12).

    Examples
    --------
    >>> xavier(np.random.default_rng(0), 2, 3).shape
    (2, 3)
    """
    return rng.normal(0, np.sqrt(2 / (d_in + d_out)), (d_in, d_out))


@dataclass(eq=False)
class LayerNorm:
    """Layer norm with its weights.

    Attributes
    ----------
    gamma : (d_model,) ndarray
    beta : (d_model,) ndarray or None
    eps : float
    """

    gamma: Array
    beta: Array | None = None
    eps: float = 1e-5

    @classmethod
    def init(cls, d_model: int, eps: float = 1e-5) -> LayerNorm:
        """Changes nothing yet: gamma 1, beta 0."""
        sizes(d_model=d_model)
        return cls(np.ones(d_model), np.zeros(d_model), eps)

    @op(name="layer_norm_part", kernel="layer_norm")
    def __call__(self, x: Array) -> Array:
        return layer_norm(x, self.gamma, self.beta, self.eps)


@dataclass(eq=False)
class RMSNorm:
    """RMS norm with its weight.

    Attributes
    ----------
    gamma : (d_model,) ndarray
    eps : float
    """

    gamma: Array
    eps: float = 1e-6

    @classmethod
    def init(cls, d_model: int, eps: float = 1e-6) -> RMSNorm:
        """Changes nothing yet: gamma 1."""
        sizes(d_model=d_model)
        return cls(np.ones(d_model), eps)

    @op(name="rms_norm_part", kernel="rms_norm")
    def __call__(self, x: Array) -> Array:
        return rms_norm(x, self.gamma, self.eps)


Norm = LayerNorm | RMSNorm


def normed(norm: Norm | None, x: Array) -> Array:
    """`x` through a norm, where there is one."""
    return x if norm is None else norm(x)


@dataclass(eq=False)
class FeedForward:
    """Two matrices with a bend between them, applied to each token by itself.

    Attributes
    ----------
    W_1 : (d_model, d_ff) ndarray
    W_2 : (d_ff, d_model) ndarray
    b_1, b_2 : (d_ff,), (d_model,) ndarray or None
    activation : str
        One of gelu, gelu_tanh, relu, silu.
    """

    W_1: Array
    W_2: Array
    b_1: Array | None = None
    b_2: Array | None = None
    activation: str = "gelu"

    @classmethod
    def init(cls, d_model: int, d_ff: int, seed: Seed = 0, activation: str = "gelu") -> FeedForward:
        """Xavier weights, biases 0."""
        sizes(d_model=d_model, d_ff=d_ff)
        rng = generator(seed)
        return cls(
            xavier(rng, d_model, d_ff), xavier(rng, d_ff, d_model), np.zeros(d_ff), np.zeros(d_model), activation
        )

    @op(name="feed_forward", x="*B T d_model", hidden="*B T d_ff", bent="*B T d_ff", output="*B T d_model")
    def __call__(self, x: Array) -> Array:
        hidden = linear(x, self.W_1, self.b_1)
        bent = activation(self.activation)(hidden)
        output = linear(bent, self.W_2, self.b_2)
        return output


@dataclass(eq=False)
class GatedFeedForward:
    """A feed-forward layer with a gate: SwiGLU with silu, GeGLU with gelu.

    Attributes
    ----------
    W_gate, W_up : (d_model, d_ff) ndarray
    W_down : (d_ff, d_model) ndarray
    activation : str
    b_gate, b_up, b_down : ndarray or None
    joined : Joined or None
        After `join`: W_gate and W_up as parts of one matrix.
    """

    W_gate: Array
    W_up: Array
    W_down: Array
    activation: str = "silu"
    b_gate: Array | None = None
    b_up: Array | None = None
    b_down: Array | None = None
    joined: Joined | None = field(default=None, init=False, repr=False)

    @classmethod
    def init(cls, d_model: int, d_ff: int, seed: Seed = 0, activation: str = "silu") -> GatedFeedForward:
        """Xavier weights."""
        sizes(d_model=d_model, d_ff=d_ff)
        rng = generator(seed)
        return cls(xavier(rng, d_model, d_ff), xavier(rng, d_model, d_ff), xavier(rng, d_ff, d_model), activation)

    @op(
        name="gated_feed_forward", path="feed_forward",
        x="*B T d_model", gate="*B T d_ff", up="*B T d_ff", hidden="*B T d_ff", output="*B T d_model",
    )  # fmt: skip
    def __call__(self, x: Array) -> Array:
        to_gate, to_up = products(self.joined, x, self.W_gate, self.W_up)
        gate = activation(self.activation)(plus(to_gate, self.b_gate))
        up = plus(to_up, self.b_up)
        hidden = gate * up
        output = linear(hidden, self.W_down, self.b_down)
        return output

    def join(self) -> None:
        """Keep W_gate and W_up side by side in memory, so that one product gives both."""
        if can_join(self.W_gate, self.W_up):
            self.joined = Joined(self.W_gate, self.W_up)
            self.W_gate, self.W_up = self.joined.parts
