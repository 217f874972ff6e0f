"""What a model's layers look at and remember, read off its settings: the numbers behind its cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from ..io.families.clip import CLIPSettings
from ..io.families.decoders import DecoderSettings
from ..io.families.deepseek import LatentSettings
from ..io.families.encoders import EncoderSettings
from ..io.families.seq2seq import Seq2SeqSettings
from ..io.families.vision import VisionSettings


@dataclass(frozen=True)
class Looking:
    """One attention of one layer.

    Attributes
    ----------
    n_heads : int
    d_score, d_value : int
        How many numbers of a key go into a score, and of a value into the sum, in each head.
    kept : int
        How many numbers a cache keeps for each key, of all heads.
    kept_rows : int
        In how many rows it keeps them: packed in int8, each has a scale.
    window : int, tuple of int, or None
        How many keys a token looks back at, its own included; or how many neighbours on each side. None: all.
    causal : bool
        Whether it looks back alone.
    crossed : bool
        Whether it looks at the other sequence.
    folded : tuple of int or None
        `d_score` and `d_value` where one more token looks at latents, without unfolding keys and values.
    """

    n_heads: int
    d_score: int
    d_value: int
    kept: int = 0
    kept_rows: int = 0
    window: int | tuple[int, int] | None = None
    causal: bool = False
    crossed: bool = False
    folded: tuple[int, int] | None = None

    def pairs(self, n: int, n_source: int) -> int:
        """How many pairs of query and key a sequence of `n` tokens has.

        Examples
        --------
        >>> Looking(1, 1, 1, causal=True).pairs(5, 0), Looking(1, 1, 1, causal=True, window=2).pairs(5, 0)
        (15, 9)
        >>> Looking(1, 1, 1, window=(1, 1)).pairs(5, 0), Looking(1, 1, 1, crossed=True).pairs(5, 7)
        (13, 35)
        """
        if self.crossed:
            return n * n_source
        if self.causal:
            return n + _before(n, n if self.window is None else int(self.window) - 1)  # type: ignore[arg-type]
        left, right = (n, n) if self.window is None else self.window  # type: ignore[misc]
        return n + _before(n, left) + _before(n, right)

    def keys(self, n: int, n_source: int) -> int:
        """How many keys the last of `n` tokens looks at; of neighbours on each side, one in the middle."""
        if self.crossed:
            return n_source
        if self.window is None:
            return n
        return min(n, self.window if isinstance(self.window, int) else sum(self.window) + 1)

    def flops(self, folded: bool = False) -> int:
        """Of one query and one key: a product for the score, a product for the sum."""
        d_score, d_value = self.folded if folded and self.folded else (self.d_score, self.d_value)
        return 2 * self.n_heads * (d_score + d_value)


@dataclass(frozen=True)
class Stack:
    """A stack of layers over one sequence.

    Attributes
    ----------
    name : str
        How the paths of its weights begin; empty for a model of a single stack.
    lookings : tuple of Looking
    longest : int or None
        The longest sequence; None: no end.
    fixed : bool
        Whether every sequence is that long.
    writes : bool
        Whether it goes on token by token.
    """

    name: str
    lookings: tuple[Looking, ...]
    longest: int | None
    fixed: bool = False
    writes: bool = False

    def length(self, asked: int) -> int:
        """How many tokens it computes where so many are asked for of the model."""
        return asked if self.longest is None else self.longest if self.fixed else min(asked, self.longest)


@singledispatch
def stacks_of(settings: Any) -> tuple[Stack, ...]:
    """The stacks of a model with these settings, those of a source first."""
    raise TypeError(f"a family whose settings are {type(settings).__name__} is to be added here")


@stacks_of.register
def _(settings: DecoderSettings) -> tuple[Stack, ...]:
    windows = settings.windows or (None,) * settings.n_layers
    rows, d_k = settings.n_kv_heads, settings.d_k
    layers = (Looking(settings.n_heads, d_k, d_k, 2 * rows * d_k, 2 * rows, w, causal=True) for w in windows)
    return (Stack("", tuple(layers), settings.n_positions, writes=True),)


@stacks_of.register
def _(settings: LatentSettings) -> tuple[Stack, ...]:
    d_latent, d_rope = settings.d_latent, settings.d_rope
    layer = Looking(
        settings.n_heads, settings.d_k + d_rope, settings.d_v, d_latent + d_rope, 2, causal=True,
        folded=(d_latent + d_rope, d_latent),
    )  # fmt: skip
    return (Stack("", (layer,) * settings.n_layers, settings.n_positions, writes=True),)


@stacks_of.register
def _(settings: EncoderSettings) -> tuple[Stack, ...]:
    windows = settings.windows or (None,) * settings.n_layers
    layers = tuple(Looking(settings.n_heads, settings.d_k, settings.d_k, window=window) for window in windows)
    return (Stack("", layers, settings.n_positions),)


@stacks_of.register
def _(settings: Seq2SeqSettings) -> tuple[Stack, ...]:
    d_k = settings.width // settings.encoder_heads
    layer = Looking(settings.encoder_heads, d_k, d_k)
    hears = settings.n_mels is not None  # sound is always filled up to the same length
    encoder = Stack("encoder", (layer,) * settings.n_encoder_layers, settings.n_source, fixed=hears)
    heads, d_k = settings.decoder_heads, settings.width // settings.decoder_heads
    of_each: dict[str, Any] = {
        "n_heads": heads,
        "d_score": d_k,
        "d_value": d_k,
        "kept": 2 * heads * d_k,
        "kept_rows": 2 * heads,
    }
    layers = (Looking(**of_each, causal=True), Looking(**of_each, crossed=True)) * settings.n_decoder_layers
    return (encoder, Stack("decoder", layers, settings.n_target, writes=True))


@stacks_of.register
def _(settings: VisionSettings) -> tuple[Stack, ...]:
    return (_image(settings, ""),)


@stacks_of.register
def _(settings: CLIPSettings) -> tuple[Stack, ...]:
    text = settings.text
    layer = Looking(text.n_heads, text.d_model // text.n_heads, text.d_model // text.n_heads, causal=True)
    return (_image(settings.image, "image"), Stack("text", (layer,) * text.n_layers, text.n_positions))


def _image(settings: VisionSettings, name: str) -> Stack:
    d_k = settings.d_model // settings.n_heads
    layers = (Looking(settings.n_heads, d_k, d_k),) * settings.n_layers
    return Stack(name, layers, settings.n_positions, fixed=True)


def _before(n: int, most: int) -> int:
    """The sum of min(i, most) for i = 0 .. n - 1: how many keys stand before each of `n` tokens, at most `most`.

    Examples
    --------
    >>> _before(5, 2), _before(5, 9), _before(5, 0)
    (7, 10, 0)
    """
    most = min(most, n - 1)
    return most * (most + 1) // 2 + (n - 1 - most) * most
