"""Whose output a step is: the modules of transformers, found by the rows that say where their weights belong.

A matrix is a module there and a line of a formula here: what `layers.0.self_attn.q_proj` gives is what is computed
with `layers.0.attention.W_Q`. So the table that reads a family's weights also tells its steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from ..ops.precision import Array
from .weights import Family, Row

# The step that a weight gives. A norm of heads gives queries or keys as they are used.
STEPS = {"W_Q": "q", "W_K": "k", "W_V": "v", "W_O": "output", "W_up": "up", "W_down": "output", "W_1": "hidden",
         "W_2": "output", "gamma": "out"}  # fmt: skip
NORMED = {"q_norm": "q", "k_norm": "k"}
LAYER = re.compile(r"layers\.\d+")
IN, OUT = "in.", "out."


@dataclass(frozen=True)
class Observed:
    """A step, and where another library's run has it.

    Attributes
    ----------
    ours : str
        Its path in a trace.
    foreign : str
        The name of the tensor in the other run: `out.` or `in.` and a module, or a name of its own.
    cut : callable (ndarray) -> ndarray, optional
        Takes our part out of an output that holds several, along the last axis.
    of_heads : bool
        It may have its heads before or behind its rows: libraries norm them so or so.
    """

    ours: str
    foreign: str
    cut: Callable[[Array], Array] | None = None
    of_heads: bool = False


def observed(family: Family[Any], settings: Any, modules: Collection[str]) -> Iterator[Observed]:
    """Every step that the outputs of `modules` show, by the names that they have there.

    Parameters
    ----------
    family : Family
    settings : settings of the family
    modules : collection of str
        As `torch.nn.Module.named_modules` calls them.
    """
    known = {family.canonical(f"{name}.weight").removesuffix(".weight"): name for name in modules}
    weights = {f"{name}.{kind}" for name in known for kind in ("weight", "bias")}
    rows = [row for row in family.rows(settings, weights) if row.stacked is None and row.scales is None]
    ours = {row.ours for row in rows}
    yield Observed("embeddings.out", "hidden_states.0")
    layers: dict[str, list[str]] = {}
    for row in rows:
        module = row.foreign.removesuffix(".weight")
        if found := LAYER.match(row.ours):
            layers.setdefault(found[0], []).append(module)
        if module in known:
            yield from _of_row(row, known[module], ours)
    for number, (layer, inside) in enumerate(layers.items()):
        yield Observed(f"{layer}.attention.weights", f"attentions.{number}")
        if (name := _shared(inside)) in known:
            yield Observed(f"{layer}.resid_post", OUT + known[name])
    yield Observed("logits", "logits")


def _shared(names: list[str]) -> str:
    """The module that holds them all."""
    parts = zip(*(name.split(".") for name in names))
    return ".".join(part[0] for part in takewhile(lambda part: len(set(part)) == 1, parts))


def _of_row(row: Row, module: str, ours: Collection[str]) -> Iterator[Observed]:
    """The step that the module of a weight gives; what enters W_O are the heads beside each other."""
    parent, leaf = row.ours.rsplit(".", 1)
    part, _, last = parent.rpartition(".")
    if leaf == "gamma" and last in NORMED and f"{part}.W_K" in ours:
        yield Observed(f"{part}.{NORMED[last]}", OUT + module, of_heads=True)
    elif leaf in STEPS and not _normed_after(parent, leaf, ours):
        yield Observed(f"{parent}.{STEPS[leaf]}", OUT + module, _along_last(row))
    if leaf == "W_O":
        yield Observed(f"{parent}.joined", IN + module)


def _normed_after(parent: str, leaf: str, ours: Collection[str]) -> bool:
    """Whether the queries or keys are used as a norm leaves them, not as the matrix gives them."""
    return f"{parent}.W_K" in ours and f"{parent}.{STEPS[leaf]}_norm.gamma" in ours


def _along_last(row: Row) -> Callable[[Array], Array] | None:
    """The cut of a weight as a cut of what the weight gives."""
    cut = row.cut
    if cut is None:
        return None
    if not row.transposed:  # stored (in, out) already
        return cut
    return lambda output: cut(output.T).T
