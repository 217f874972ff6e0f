"""The set-up of a walk: which sentence, which sizes, which generator, and the arrays drawn from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..layers import SelfAttention, xavier
from ..ops.precision import Array
from ..ops.valid import integer, is_integer, truth

GENERATORS = ("legacy", "pcg64")
LIMIT = 1 << 26  # numbers in one array: half a gigabyte


@dataclass(frozen=True)
class Setup:
    """Sizes and seed of a walk.

    Attributes
    ----------
    text : str
    d_model, d_k, d_v : int
        Widths of a token, of its query and key, of its value.
    heads : int
    seed : int
    rng : {"legacy", "pcg64"}
        "legacy": one stream of `np.random.RandomState(seed)`, standard normal, in the order X, then W_Q, W_K, W_V head
        by head, then W_O. "pcg64": fresh generators `np.random.default_rng`: X standard normal from `seed`, head h with
        Xavier weights from `seed + h`, W_O from `seed + heads`.
    causal : bool
    """

    text: str
    d_model: int = 4
    d_k: int = 4
    d_v: int = 4
    heads: int = 1
    seed: int = 42
    rng: str = "legacy"
    causal: bool = False


@dataclass(frozen=True)
class Drawn:
    """The arrays of a walk: X (n, d_model), one `SelfAttention` per head, W_O (heads * d_v, d_model) or None."""

    X: Array
    heads: list[SelfAttention]
    W_O: Array | None


EXAMPLES = {
    "apple-tree": Setup("远方有颗苹果树"),
    "cat-mat": Setup("The cat sat on the mat", d_model=16, d_k=8, d_v=8, heads=2, rng="pcg64"),
}


def read_setup(
    text: str | None,
    example: str | None,
    *,
    d_model: int | None = None,
    d_k: int | None = None,
    d_v: int | None = None,
    heads: int | None = None,
    **others: Any,
) -> Setup:
    """The set-up that was asked for: an example's, with what is given put in its place.

    Raises
    ------
    ArgumentError
        For an unknown example or generator, what is no integer or below 1, or heads that do not divide d_model.
    """
    if example is not None and example not in list(EXAMPLES):
        raise ArgumentError("choice", name="example", choices=", ".join(EXAMPLES), value=example)
    base = EXAMPLES[example or "apple-tree"]
    given = {"text": text, "d_model": d_model, "d_k": d_k, "d_v": d_v, "heads": heads, **others}
    given = {name: value for name, value in given.items() if value is not None}
    setup = replace(base, **given)
    if not is_integer(setup.seed) or not 0 <= setup.seed < 2**32:
        raise ArgumentError("number", name="seed", expected="from 0 to 2^32 - 1", value=setup.seed)
    names = ("d_model", "d_k", "d_v", "heads")
    sizes: dict[str, Any] = {name: integer(name, getattr(setup, name), 1) for name in names}
    setup = replace(setup, **sizes, seed=int(setup.seed), causal=truth("causal", setup.causal))
    if setup.rng not in GENERATORS:
        raise ArgumentError("choice", name="rng", choices=", ".join(GENERATORS), value=setup.rng)
    if example is None and d_k is None:
        if setup.d_model % setup.heads:
            raise ArgumentError("divides", name="d_model", size=setup.d_model, by="heads", by_size=setup.heads)
        setup = replace(setup, d_k=setup.d_model // setup.heads)
    if example is None and d_v is None:
        setup = replace(setup, d_v=setup.d_k)
    return setup


def check_sizes(setup: Setup, n: int) -> None:
    """Refuse a walk over `n` tokens of which an array, all heads together, would hold more than `LIMIT` numbers."""
    d_model, heads = setup.d_model, setup.heads
    sizes = {
        "X": n * d_model, "W_Q": d_model * heads * setup.d_k, "W_V": d_model * heads * setup.d_v,
        "weights": heads * n * n,
    }  # fmt: skip
    for name, size in sizes.items():
        if size > LIMIT:
            raise ArgumentError("too_many_numbers", name=name, size=size, limit=LIMIT)


def draw(setup: Setup, n: int) -> Drawn:
    """Draw the embeddings of `n` tokens and the weights of every head.

    Raises
    ------
    ArgumentError
        As `check_sizes`.

    Examples
    --------
    >>> draw(EXAMPLES["apple-tree"], 7).X[0].round(4)
    array([ 0.4967, -0.1383,  0.6477,  1.523 ])
    """
    d_model, d_k, d_v = setup.d_model, setup.d_k, setup.d_v
    joined = setup.heads * d_v
    check_sizes(setup, n)
    if setup.rng == "legacy":
        stream = np.random.RandomState(setup.seed)
        X = stream.randn(n, d_model)
        heads = [
            SelfAttention(stream.randn(d_model, d_k), stream.randn(d_model, d_k), stream.randn(d_model, d_v))
            for _ in range(setup.heads)
        ]
        return Drawn(X, heads, stream.randn(joined, d_model) if setup.heads > 1 else None)
    X = np.random.default_rng(setup.seed).normal(0, 1, (n, d_model))
    heads = [SelfAttention.init(d_model, d_k, d_v, seed=setup.seed + h) for h in range(setup.heads)]
    W_O = xavier(np.random.default_rng(setup.seed + setup.heads), joined, d_model) if setup.heads > 1 else None
    return Drawn(X, heads, W_O)
