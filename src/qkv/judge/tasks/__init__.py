"""The tasks of the judge, one file each. Adding a task is adding its file.

A file `name.py` gives `TASK`, a `Task` of that name (`qkv.judge.task` explains every field). Begin with a copy of
`softmax.py`, or of `scaled_dot_product_attention.py` when the task contains attention. In the file stand, in this order:

1. The steps of the formula as small functions, then the formula itself, marked `@formula`: the reference written out.
   Its local variables (bind each once) are the steps a learner is shown, named as in the paper; its keyword-only
   parameters are the steps that a mistake exchanges. For a class the formula takes the list of calls.
2. The steps as they go wrong. A variation is best `partial(formula, step=wrong)`: such changes can be joined into pairs
   and with conventions without a further line. A mistake that fits no step is a function of its own.
3. `TASK`. Its reference calls the public functions of qkv, so a mistake in the formula would show.

A task with attention in it takes mistakes and conventions from `qkv.judge.formulas`: `mistakes("no_scale", ...)` as they
are, or `mistakes(..., inside=(formula, "attend"))` when its formula has attention as the step `attend`; probes and arrays
come from `qkv.judge.probes`. Ids and the words for mistakes that several tasks share stand in `qkv.judge.mistakes`; a task
gives `Mistake(..., explained=say(...))` for its own ids, or to say a shared one better. Conventions, properties and the
rest of the sentences have keys in `words/*/judge.toml` (`judge.note.ID`, `judge.property.ID`).

Probes: an example of two or three tokens first (a person reads it), then few and telling ones, sizes all different but
for one square. A probe with `note="id"` is noted, never failed. Values come from `drawn(seed, ...)`, so they never change.

The test asks of every task, so these need no test of their own: the reference passes and equals the formula; the starter
fails; each variation is caught and named with its id alone; solution and at least three other styles pass without a
flag; no probe but the example is idle (without it something would be missed or less clearly named); the signature is that
of the table; everything is said in both languages. When a variation is named wrongly, two mistakes are the same on your
probes: add the input that tells them apart. When a probe is idle, take it out, or add the mistake that it is there for.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from ..task import Task


@cache
def names() -> tuple[str, ...]:
    """The names of all tasks, in alphabetical order."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


@cache
def load(name: str) -> Task:
    """The task of that name.

    Examples
    --------
    >>> load("softmax").signature
    'softmax(x, axis=-1)'
    """
    task = importlib.import_module(f".{name}", __name__).TASK
    assert isinstance(task, Task)
    return task
