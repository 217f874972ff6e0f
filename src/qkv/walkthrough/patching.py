"""Activation patching: which layer and which position carry what tells one prompt from another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import words
from ..errors import ArgumentError, ShapeError
from ..models.decoder import Decoder
from ..models.inputs import only
from ..ops.precision import Array
from ..ops.valid import is_integer
from ..trace import edit, edits, record
from .showing import Shown

Measure = Callable[[Array], float]


@dataclass(frozen=True, eq=False)
class Patching(Shown):
    """What putting one run's values into another does, for each layer and position.

    Attributes
    ----------
    effects : (n_layers, T) ndarray
        0: nothing moves; 1: the patched run says what the clean one says. NaN where both say the same.
    values : (n_layers, T) ndarray
        The measure itself.
    clean, corrupted : float
        The measure of the runs as they are.
    layers : tuple of int
    tokens : list of str
        Where the prompts differ, both tokens.
    path : str
        What was patched, with a star for the layer.
    lang : {"en", "zh"}
    """

    effects: Array
    values: Array
    clean: float
    corrupted: float
    layers: tuple[int, ...]
    tokens: list[str]
    path: str
    lang: str


def patch_effects(
    model: Any,
    clean: Any,
    corrupted: Any,
    measure: tuple[str | int, str | int] | Measure,
    *,
    path: str = "layers.*.resid_post",
    layers: Iterable[int] | None = None,
    head: int | None = None,
    lang: str | None = None,
) -> Patching:
    """Run one prompt over and over, each time with one layer and position from the run of another.

    Parameters
    ----------
    model : Decoder
    clean, corrupted : str or (T,) array_like of int
        Two prompts of the same length in tokens. Values of `clean` are put into the run of `corrupted`.
    measure : (token, token), or callable ((vocab_size,) ndarray) -> float
        Two tokens, as text or id: the logit of the first minus that of the second, after the last position. Or
        anything else of the logits there.
    path : str
        What is patched, with a star for the layer: `layers.*.attention.output`, ...
    layers : iterable of int, optional
        These layers alone.
    head : int, optional
        That head alone, of a value that has heads, such as `layers.*.attention.out`.
    lang : {"en", "zh"}, optional

    Returns
    -------
    Patching

    Raises
    ------
    ShapeError
        For prompts of different lengths.
    ArgumentError
        For a text that is no single token, or a layer that is not there.
    WatchError
        For a path that is not computed.

    Notes
    -----
    Vig et al., arXiv 2004.12265 (causal mediation); Meng et al., arXiv 2202.05262, section 2; effects normalised as by
    Wang et al., arXiv 2211.00593, section 3: (patched - corrupted) / (clean - corrupted).

    Examples
    --------
    >>> import qkv
    >>> from qkv.views import patch_effects
    >>> found = patch_effects(qkv.load("tests/data/tiny/llama"), [3, 1, 4], [3, 5, 4], (40, 25))
    >>> found.effects.shape, found.effects[:, 0].tolist(), found.effects[-1].tolist()
    ((3, 3), [0.0, 0.0, 0.0], [0.0, 0.0, 1.0])
    """
    if not isinstance(model, Decoder):
        raise ArgumentError("not_of_text", kind=type(model).__name__)
    given, other = only(model.read(clean), "clean"), only(model.read(corrupted), "corrupted")
    if len(given) != len(other):
        raise ShapeError("same_size", name="corrupted", axis="T", size=len(other), other="clean", other_size=len(given))
    told = _measure(model, measure)
    n_layers = len(model.layers)
    chosen = tuple(range(n_layers) if layers is None else layers)
    for layer in chosen:
        if not is_integer(layer) or not 0 <= layer < n_layers:
            raise ArgumentError("number", name="layers", expected=f"from 0 to {n_layers - 1}", value=layer)

    def run(ids: Array) -> float:
        return told(model.head(model.forward(ids)[-1]))

    with record(path) as trace:
        best = run(given)
    with record(path) as before:
        worst = run(other)
    values = np.full((len(chosen), len(given)), worst)
    for row, layer in enumerate(chosen):
        where = path.replace("*", str(layer))
        for position in range(len(given)):
            if np.array_equal(trace[where][..., position, :], before[where][..., position, :]):
                continue  # the same value again: nothing can move
            with edit({where: edits.freeze(trace, head=head, position=position)}):
                values[row, position] = run(other)
    gap = best - worst
    effects = (values - worst) / gap + 0.0 if gap else np.full(values.shape, np.nan)
    labels = [a if a == b else f"{a}/{b}" for a, b in zip(_tokens(model, given), _tokens(model, other))]
    return Patching(effects, values, best, worst, chosen, labels, path, words.language(lang))


def _measure(model: Any, measure: Any) -> Measure:
    """What is read off the logits after the last position."""
    if callable(measure):
        return lambda logits: float(measure(logits))
    a, b = (_token(model, token) for token in measure)
    return lambda logits: float(logits[a] - logits[b])


def _token(model: Any, token: str | int) -> int:
    if not isinstance(token, str):
        return int(token)
    ids = model.tokenizer.encode(token, special_tokens=False)
    if len(ids) != 1:
        raise ArgumentError("model_input", name=repr(token), expected="a token", what=f"{len(ids)} tokens")
    return int(ids[0])


def _tokens(model: Any, ids: Array) -> list[str]:
    return [str(i) for i in ids] if model.tokenizer is None else list(model.tokenizer.readable(ids))
