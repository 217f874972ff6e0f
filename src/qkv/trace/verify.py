"""Is a model the same as another implementation of it? Both runs side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentError, FileError
from ..io.config import Config
from ..io.gguf.file import open_gguf
from ..io.gguf.models import written_as
from ..io.modules import Observed, observed
from ..models.decoder import Decoder
from ..models.encoder import Encoder
from ..models.families import family_in
from ..ops.precision import Array
from ..ops.valid import not_negative
from .agreement import Compared, Verified, compare
from .recording import record
from .reference import Reference, read_reference
from .trace import Trace

# In float32: the distance of two right implementations grows with the layers, for each goes on from what the one
# before has rounded. 64 bits: the same of their smaller rounding.
SMALLEST = {"float32": 2e-6, "float64": 2e-14}
GROWTH = 0.5  # of that, for each layer
LOGITS = "logits"
OWN_LOGITS = ".".join(("head", LOGITS))


def verify(model: Any, against: str | os.PathLike[str] | Reference, *, rtol: float | None = None) -> Verified:
    """Run a model on what a reference trace was run on, and compare each step that both know.

    Parameters
    ----------
    model : Encoder or Decoder
        As `qkv.load` gives it.
    against : path_like or Reference
        What `qkv verify --script` makes of a model of transformers; or a trace that `Trace.save` wrote.
    rtol : float, optional
        The error that counts as equal in every step, instead of the rule.

    Returns
    -------
    Verified

    Raises
    ------
    FileError
        When the reference cannot be read, is of another kind of model, or shares no step with this one.
    ArgumentError
        For a model that is neither an encoder nor a decoder, or ids that it does not take.

    Notes
    -----
    The error of a step is |ours - theirs| / |theirs| in the Euclidean norm. Equal is what is at most 2e-6 (1 + l / 2)
    in float32, with l for the layer from 1, one more after the last: two right implementations add up in different
    orders, and each layer hands its rounding on. Between two runs in float64 it is the same with 2e-14.

    Examples
    --------
    >>> import qkv
    >>> model = qkv.load("tests/data/tiny/llama")
    >>> verify(model, "tests/data/verify/llama.safetensors").equal
    True
    """
    if not isinstance(model, Encoder | Decoder):
        raise ArgumentError("not_of_text", kind=type(model).__name__)
    rtol = None if rtol is None else not_negative("rtol", rtol)
    reference = against if isinstance(against, Reference) else read_reference(against)
    ids = _checked(model, reference)
    with record() as trace:
        hidden = model.forward(ids)
        logits = _logits(model, hidden, reference)
    pairs = dict(_pairs(model, reference))
    allowed = _rule(model, reference, rtol)
    steps = tuple(
        compare(path, array, pairs[path](array), allowed(path))
        for path, array in _computed(trace, logits)
        if path in pairs
    )
    if not steps:
        raise FileError("nothing_shared", path=reference.path)
    return Verified(steps, _unseen(trace, steps), ids, dict(reference.about))


def _computed(trace: Trace, logits: Array | None) -> Iterator[tuple[str, Array]]:
    """Every step in order, the logits last."""
    yield from ((path, trace[path]) for path in trace if not path.startswith("head."))
    if logits is not None:
        yield LOGITS, logits


def _logits(model: Any, hidden: Array, reference: Reference) -> Array | None:
    """Over the vocabulary, where both have them."""
    theirs = reference.arrays.get(LOGITS if reference.foreign else OWN_LOGITS)
    if theirs is None or not theirs.ndim or theirs.shape[-1] != model.settings.vocab_size:
        return None
    if isinstance(model, Encoder):
        return None if model.masked_lm is None else model.masked_lm(hidden)
    return None if model.head.W is None else model.head(hidden)


def _checked(model: Any, reference: Reference) -> Array:
    """The ids of the reference, if the model is of its kind and takes them."""
    if reference.foreign and model.directory is not None:
        ours, theirs = _family_of(model).model_type, reference.about.get("model_type")
        if theirs != ours:
            raise FileError("other_model", path=reference.path, other=theirs, model=ours)
    n_layers = sum(name.startswith("hidden_states.") for name in reference.arrays) - 1
    if n_layers >= 0 and n_layers != len(model.layers):
        raise FileError("other_layers", path=reference.path, other=n_layers, n=len(model.layers))
    ids = reference.ids
    sequences, _ = model.read(ids)
    return sequences[0]


def _pairs(model: Any, reference: Reference) -> Iterator[tuple[str, Callable[[Array], Array]]]:
    """For each of our paths, what the reference has there, in the shape of ours."""
    if not reference.foreign:
        for path, array in reference.arrays.items():
            if path != "ids":
                yield (LOGITS if path == OWN_LOGITS else path), partial(_as_it_is, array)
        return
    if model.directory is None:  # made of weights in memory: nobody knows what they are called elsewhere
        return
    family, settings = _family_of(model), model.settings
    for step in observed(family, settings, reference.modules):
        if step.foreign in reference.arrays:
            array = reference.arrays[step.foreign]
            yield step.ours, partial(_shaped, step, array)


def _as_it_is(array: Array, _: Array) -> Array:
    return array


def _family_of(model: Any) -> Any:
    """The row of the model's family: by its config.json, or by the name that a GGUF file shares with transformers."""
    directory = Path(model.directory)
    if directory.is_dir() and (directory / "config.json").exists():
        return family_in(Config(directory / "config.json"))[0][0]
    with open_gguf(directory) as file:
        return written_as(file).family


def _shaped(step: Observed, array: Array, ours: Array) -> Array:
    """Without the axis of a batch of one: our part of it alone, and split into heads where ours is."""
    if array.ndim > 2 and array.shape[0] == 1:
        array = array[0]
    if step.cut is not None:
        try:
            array = step.cut(array)
        except (IndexError, ValueError):  # another width: that is said of the whole
            return array
    if ours.ndim != 3:
        return array
    n_heads, n, width = ours.shape
    if array.shape == (n, n_heads * width):
        return array.reshape(n, n_heads, width).swapaxes(0, 1)
    if step.of_heads and array.shape == (n, n_heads, width):
        turned = array.swapaxes(0, 1)
        if array.shape != ours.shape:
            return turned
        return min((turned, array), key=lambda one: float(np.abs(one - ours).sum()))  # as many heads as rows
    return array


def _rule(model: Any, reference: Reference, rtol: float | None) -> Callable[[str], float]:
    """The error that each step may have."""
    n_layers = len(model.layers)
    wide = all(array.dtype == np.float64 for array in reference.arrays.values() if array.dtype.kind == "f")
    precise = wide and model.forward(reference.ids[:1]).dtype == np.float64
    smallest = SMALLEST["float64" if precise else "float32"]

    def allowed(path: str) -> float:
        if rtol is not None:
            return rtol
        parts = path.split(".")
        depth = int(parts[1]) + 1 if parts[0] == "layers" else 0 if parts[0] == "embeddings" else n_layers + 1
        return smallest * (1 + GROWTH * depth)

    return allowed


def _unseen(trace: Trace, steps: tuple[Compared, ...]) -> tuple[str, ...]:
    """What was computed on the way to the first step that differs, and is not in the reference."""
    at = next((i for i, step in enumerate(steps) if not step.equal), None)
    if at is None:
        return ()
    paths, first = list(trace), steps[at].path
    start = paths.index(steps[at - 1].path) + 1 if at else 0
    end = paths.index(first) if first in trace else len(paths)
    part, known = _part(first), {step.path for step in steps}
    parts = {_part(path) for path in known}  # inside of which an op may compute more, as rope does
    near = [path for i, path in enumerate(paths[:end]) if i >= start or _part(path) == part != ""]
    return tuple(path for path in near if path not in known and _part(path) in parts)


def _part(path: str) -> str:
    return path.rpartition(".")[0]
