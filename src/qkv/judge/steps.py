"""The first step at which a learner's computation leaves the right one: shown, never judged.

The steps of the right answer are the local variables of the task's formula, in the order of its lines. The learner's
own arrays, under whatever names, are held against them.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import CodeType

import numpy as np

from .bank import own_calls
from .calls import drive
from .compare import Outcome, close, fits_kind
from .task import FORMULAS, Function, Probe, Task
from .watcher import watched
from .wire import Array, decode

# What learners call the steps of attention.
SCORES = ("scores", "score", "s", "S", "qk", "logits", "attn_scores", "similarity", "dots", "分数", "得分", "打分")
ALIASES = {
    "scores": SCORES,
    "scaled": ("scaled", "scaled_scores", "缩放后", *SCORES),
    "masked": ("masked", "masked_scores", "掩码后", *SCORES),
    "weights": (
        "weights",
        "attn",
        "attention",
        "attn_weights",
        "w",
        "W",
        "p",
        "P",
        "A",
        "a",
        "probs",
        "alpha",
        "权重",
        "注意力",
    ),
    "output": ("output", "out", "o", "O", "result", "res", "context", "y", "输出", "结果"),
}


@dataclass(frozen=True)
class Step:
    """A step of the formula where two computations part.

    Attributes
    ----------
    name : str
        The variable of the formula: scores, scaled, masked, weights, ...
    expected : ndarray
    yours : ndarray or None
        The learner's value, if it was seen.
    variable : str
        What the learner calls it.
    line : int or None
        Where it was given.
    """

    name: str
    expected: Array
    yours: Array | None = None
    variable: str = ""
    line: int | None = None


Steps = dict[tuple[str, str], Array]  # by function and variable: a formula within a formula may use the same names


def steps_of(task: Task, function: Function, probe: Probe) -> Steps:
    """The values of formulas' local variables on a probe, in the order of their lines; arguments are left out."""

    def wanted(code: CodeType) -> bool:
        return code in FORMULAS

    found: Steps = {}
    for sight in watched(lambda: drive(function, None, own_calls(task, probe)), wanted):
        arguments = {name for code in FORMULAS if code.co_name == sight.function for name in parameters(code)}
        if sight.name not in arguments and not sight.name.endswith("()"):
            found[sight.function, sight.name] = decode(sight.data)
    return found


def parameters(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def first_step(task: Task, probe: Probe, got: Outcome, mistake: Function | None) -> Step | None:
    """Where the learner's values leave the right ones, on a probe that fails.

    Parameters
    ----------
    got : Outcome
        With what was seen of the learner's variables.
    mistake : callable or None
        What the learner's code is equal to, if that is known: then its own first step is the answer.
    """
    right = steps_of(task, task.formula, probe)
    if mistake is not None:
        wrong = steps_of(task, mistake, probe)
        at = next((key for key, value in right.items() if key in wrong and not equal(value, wrong[key])), None)
        if at is not None:
            found = next((sight for sight in got.seen if equal(wrong[at], sight[3])), None)
            return _step(at[1], right[at], found) if found else Step(at[1], right[at], wrong[at])
    return _by_names(task, right, got)


def _by_names(task: Task, right: Steps, got: Outcome) -> Step | None:
    """Without a known mistake: the first step that the learner has under a usual name, and has differently."""
    computed = [sight for sight in got.seen if sight[1].endswith("()") or sight[1] not in task.parameters]
    reached = [any(equal(value, sight[3]) for sight in computed) for value in right.values()]
    n_right = len(reached) - reached[::-1].index(True) if any(reached) else 0  # what came before was done in one go
    for (_, name), value in list(right.items())[n_right:]:
        usual = task.aliases.get(name, ()) + ALIASES.get(name, (name,))
        named = [s for s in computed if s[1] in usual and s[3].shape == value.shape]
        found = [s for s in named if not any(equal(other, s[3]) for other in right.values())]
        if found:
            return _step(name, value, found[0])
    return None


def _step(name: str, expected: Array, found: tuple[str, str, int, Array]) -> Step:
    _, variable, line, value = found
    return Step(name, expected, value, variable, line)


def equal(expected: Array, got: Array) -> bool:
    """Whether two steps hold the same numbers; a hidden score may be any that weighs nothing."""
    if expected.shape != got.shape or not fits_kind(expected, got):
        return False
    if close(expected, got):
        return True
    hidden = np.isneginf(expected) if expected.dtype.kind == "f" else np.zeros(expected.shape, bool)
    return bool(hidden.any() and (got[hidden] <= -1e9).all() and close(expected[~hidden], got[~hidden]))
