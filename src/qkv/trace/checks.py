"""What must hold in every model, whatever its weights: checks that need no reference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..models.decoder import Decoder
from ..models.encoder import Encoder
from ..models.inputs import Given, only
from ..ops.precision import Array
from .recording import record
from .trace import Trace

SEED, LENGTH = 0, 13
# Of the largest number: what adding up in another order may change in float32, through all layers.
CLOSE = 1e-4
ROW_SUM = 1e-5


@dataclass(frozen=True)
class Check:
    """One thing that must hold.

    Attributes
    ----------
    name : str
        finite, rows, causal, future, cache, batch or watched.
    holds : bool
    size : float
        How far it is from holding exactly.
    where : str
        The step at which it is farthest; empty where it is the model's answer.
    """

    name: str
    holds: bool
    size: float
    where: str = ""


def self_checks(model: Any, given: Given | None = None) -> list[Check]:
    """Check what must hold in every model.

    Parameters
    ----------
    model : Encoder or Decoder
    given : str or (T,) array_like of int, optional
        Random ids by default.

    Returns
    -------
    list of Check
        finite: no step holds NaN or an infinity, but for scores that are hidden. rows: the weights of a row sum to 1
        (to less where a layer has sinks), or to 0 where it sees nothing. causal: no weight on what comes later.
        future: other tokens later change nothing before. cache: in pieces, with caches, as in one pass. batch: beside
        longer and shorter sequences as alone. watched: recording changes nothing. Those after `rows` as far as they
        mean something for the model.

    Raises
    ------
    ArgumentError
        For a model that is neither an encoder nor a decoder, or what it cannot read.

    Examples
    --------
    >>> import qkv
    >>> [check.name for check in self_checks(qkv.load("tests/data/tiny/llama")) if check.holds]
    ['finite', 'rows', 'causal', 'future', 'cache', 'batch', 'watched']
    """
    if not isinstance(model, Encoder | Decoder):
        raise ArgumentError("not_of_text", kind=type(model).__name__)
    ids = _ids(model, given)
    with record() as trace:
        watched = model.forward(ids)
    plain = model.forward(ids)
    found = [_finite(trace), _rows(trace, model)]
    if isinstance(model, Decoder):
        found += [_causal(trace), _future(model, ids, plain), _cached(model, ids, plain)]
    found += [_batched(model, ids, plain), _same("watched", watched, plain)]
    return found


def _ids(model: Any, given: Given | None) -> Array:
    if given is None:
        length = min(LENGTH, model.settings.n_positions or LENGTH)
        return np.random.default_rng(SEED).integers(0, model.settings.vocab_size, length).astype(np.intp)
    return only(model.read(given))


def _finite(trace: Trace) -> Check:
    """Steps under `masked` hold -inf where a key is hidden."""
    for path, value in trace.items():
        n_bad = np.isnan(value).sum() if path.endswith("masked") else (~np.isfinite(value)).sum()
        if n_bad:
            return Check("finite", False, float(n_bad), path)
    return Check("finite", True, 0.0)


def _weights(trace: Trace) -> Iterator[tuple[int, str, Array]]:
    paths = [path for path in trace if path.endswith("attention.weights")]
    return ((layer, path, trace[path].astype(np.float64)) for layer, path in enumerate(paths))


def _rows(trace: Trace, model: Any) -> Check:
    def off(layer: int, weights: Array) -> float:
        total = weights.sum(axis=-1)
        sinks = model.layers[layer].attention.rules.get("sinks") is not None
        gap = np.maximum(total - 1, 0) if sinks else np.where(total == 0, 0, np.abs(total - 1))
        return _largest(np.where(weights.min(axis=-1) < 0, np.inf, gap))

    return _worst("rows", [(off(layer, w), path) for layer, path, w in _weights(trace)], ROW_SUM)


def _causal(trace: Trace) -> Check:
    later = [(_largest(np.abs(np.triu(w, 1))), path) for _, path, w in _weights(trace)]
    return _worst("causal", later, 0.0)


def _future(model: Decoder, ids: Array, plain: Array) -> Check:
    """The second half is replaced by other tokens; the first must not notice."""
    half = max(len(ids) // 2, 1)
    other = ids.copy()
    other[half:] = (other[half:] + 1) % model.settings.vocab_size
    return _same("future", model.forward(other)[:half], plain[:half])


def _cached(model: Decoder, ids: Array, plain: Array) -> Check:
    """In pieces of one, of several, and the rest; a model whose rotation depends on the length takes one regime."""
    caches, pieces, done = model.new_caches(), [], 0
    for size in (1, max(len(ids) // 3, 1), len(ids)):
        piece = ids[done : done + size]
        if not len(piece):
            break
        if done and model.regime(done) != model.regime(done + len(piece)):
            break
        pieces.append(model.forward(piece, caches))
        done += len(piece)
    whole = plain if done == len(ids) else model.forward(ids[:done])
    return _same("cache", np.concatenate(pieces), whole)


def _batched(model: Any, ids: Array, plain: Array) -> Check:
    """The sequence, its first half and its first token together: the shorter ones stand beside padding."""
    half = max(len(ids) // 2, 1)
    together = model([ids[:half], ids, ids[:1]])
    alone = [model.forward(ids[:half]), plain, model.forward(ids[:1])]
    return _same("batch", np.concatenate(together), np.concatenate(alone))


def _same(name: str, ours: Array, theirs: Array) -> Check:
    scale = _largest(np.abs(theirs[np.isfinite(theirs)])) or 1.0
    size = _largest(np.where(ours == theirs, 0, np.abs(ours.astype(np.float64) - theirs))) / scale
    return Check(name, bool(size <= CLOSE), size)


def _worst(name: str, found: list[tuple[float, str]], allowed: float) -> Check:
    size, path = max(found, key=lambda one: one[0], default=(0.0, ""))
    return Check(name, bool(size <= allowed), size, path)


def _largest(values: Array) -> float:
    """NaN counts as infinite: it is never right."""
    return float(np.nan_to_num(values, nan=np.inf).max(initial=0.0))
