"""How a text is to be continued, and how the next token follows from the logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import ArgumentError
from ...ops import softmax
from ...ops.precision import Array
from . import sampling

STRONGEST, LONG = 1e6, 10.0  # penalties beyond which a quotient or a power may be no finite number
# What has no meaning where nothing is drawn and no text is certain before the end.
DRAWING = ("temperature", "top_k", "top_p", "min_p", "seed", "stop", "slide")


@dataclass(frozen=True)
class Asked:
    """How to continue.

    Attributes
    ----------
    max_new_tokens : int
    temperature : float
        0: always the likeliest token. Otherwise one is drawn.
    top_k : int or None
    top_p, min_p : float or None
        Which tokens may be drawn, in this order after the temperature: see `qkv.models.generation.sampling`.
    repetition_penalty : float
        1: none. Counts before everything else. From 1e-6 to 1e6.
    stop : str or sequence of str
        Texts at which to stop. They are not given out; of ids, the one that completed the text is.
    seed : int or None
        None: another result each time. In a batch each sequence is drawn as it would be alone.
    slide : bool
        Once the model's positions are used up, forget the older half and go on; by default that is refused beforehand.
    n_beams : int
        Above 1: keep so many continuations beside each other and give the best, see
        `qkv.models.generation.beams`. Nothing is drawn then.
    length_penalty : float
        Of beams: above 0 longer ones gain, below 0 shorter ones. From -10 to 10.
    early_stopping : bool or "never"
        When beams end: True, once n_beams have; False, once none seems to become better; "never", once none can.
    """

    max_new_tokens: int = 128
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0
    stop: str | Sequence[str] = ()
    seed: int | None = None
    slide: bool = False
    n_beams: int = 1
    length_penalty: float = 1.0
    early_stopping: bool | str = False

    def __post_init__(self) -> None:
        for name, least in (("max_new_tokens", 0), ("top_k", 1), ("seed", 0), ("n_beams", 1)):
            value = getattr(self, name)
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= least
            if not whole and (value is not None or name in ("max_new_tokens", "n_beams")):
                raise ArgumentError("number", name=name, expected=f"an integer of at least {least}", value=value)
        for name in ("top_p", "min_p"):
            if (value := getattr(self, name)) is not None and not (_is_number(value) and 0 <= value <= 1):
                raise ArgumentError("number", name=name, expected="from 0 to 1", value=value)
        if not (_is_number(self.temperature) and self.temperature >= 0):
            raise ArgumentError("number", name="temperature", expected="a number of at least 0", value=self.temperature)
        for name, low, high in (("repetition_penalty", 1 / STRONGEST, STRONGEST), ("length_penalty", -LONG, LONG)):
            if not (_is_number(value := getattr(self, name)) and low <= value <= high):
                raise ArgumentError("number", name=name, expected=f"from {low} to {high}", value=value)
        words = (self.stop,) if isinstance(self.stop, str) else self.stop
        if not isinstance(words, list | tuple) or not all(isinstance(word, str) and word for word in words):
            raise ArgumentError("model_input", name="stop", expected="text, or a list of texts", what=repr(self.stop))
        object.__setattr__(self, "stop", tuple(words))
        self._check_beams()

    def _check_beams(self) -> None:
        if not isinstance(self.early_stopping, bool | str) or self.early_stopping not in (True, False, "never"):
            choices = "True, False, never"
            raise ArgumentError("choice", name="early_stopping", choices=choices, value=self.early_stopping)
        alone = ("length_penalty", "early_stopping") if self.n_beams == 1 else DRAWING
        for name in alone:
            if getattr(self, name) != type(self).__dataclass_fields__[name].default:
                if self.n_beams == 1:
                    raise ArgumentError("unused", name=name, reason="n_beams is 1")
                raise ArgumentError("together", one=name, other="n_beams")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.floating) and not isinstance(value, bool) and bool(np.isfinite(value))


def pick(logits: Array, seen: Sequence[int], asked: Asked, rng: np.random.Generator) -> int:
    """The next token: the likeliest, or one that is drawn."""
    if asked.temperature == 0:
        return int(_penalised(logits, seen, asked).argmax())
    return sampling.drawn(_drawable(logits, seen, asked), rng)


def odds(logits: Array, seen: Sequence[int], asked: Asked) -> Array:
    """How likely `pick` takes each token (vocab_size,)."""
    if asked.temperature == 0:
        return np.eye(1, len(logits), int(_penalised(logits, seen, asked).argmax()))[0]
    return softmax(_drawable(logits, seen, asked))


def _penalised(logits: Array, seen: Sequence[int], asked: Asked) -> Array:
    if asked.repetition_penalty == 1:
        return logits
    return sampling.repetition_penalty(logits, set(seen), asked.repetition_penalty)


def _drawable(logits: Array, seen: Sequence[int], asked: Asked) -> Array:
    """The logits to draw from: -inf for what must not come."""
    logits = _penalised(logits, seen, asked).astype(np.float64)
    logits = sampling.temperature(logits - logits.max(), asked.temperature)  # the likeliest stays finite: it is 0
    if asked.top_k is not None:
        logits = sampling.top_k(logits, asked.top_k)
    if asked.top_p is not None:
        logits = sampling.top_p(logits, asked.top_p)
    if asked.min_p is not None:
        logits = sampling.min_p(logits, asked.min_p)
    return logits
