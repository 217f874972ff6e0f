"""What the judge says of one attempt, as data. How it reads is for the views."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .. import words
from .compare import Failure
from .mistakes import explained
from .steps import Step
from .task import Task, Text

STATUSES = ("pass", "wrong", "error", "timeout")
# Filled by qkv.views: a verdict does not know how it is drawn.
VIEWS: dict[str, Callable[[Any], str]] = {}


@dataclass(frozen=True)
class ProbeResult:
    """How one probe went: whether it passed, and in one word (a key of `judge.why`) why not."""

    name: str
    tries: Text
    passed: bool
    why: str = ""


@dataclass(frozen=True)
class Shown:
    """The smallest failing input, what was expected and what came."""

    probe: str
    arguments: list[list[Any]]
    expected: Any
    yours: Any


@dataclass(frozen=True, eq=False)
class Verdict:
    """The judge's answer.

    Attributes
    ----------
    task : Task
    status : {"pass", "wrong", "error", "timeout"}
    mistakes : tuple of str
        Ids: the known mistakes that were found; `wrong_shape`, `wrong_dtype`, or `no_match` when none fits.
    match : {"exact", "pair", "none"}
    results : tuple of ProbeResult
        Every probe that counts, in order.
    first_step : Step or None
    notes : tuple of str
        Ids of the conventions seen.
    shown : Shown or None
    properties : tuple of str
        Ids of what every right answer has and this one has not.
    nearest : str or None
        A mistake that agrees where the answer is wrong, but not where it is right.
    reason : str
        A key of `judge.reason`: why there is no full judgement (an error, a limit); empty otherwise.
    facts : dict
        What the reason names: probe, names, seconds.
    failure : Failure or None
        The error in the learner's code with its file and line.
    printed : str
        The end of what the program printed.
    lang : {"en", "zh"}
    """

    task: Task
    status: str
    lang: str
    mistakes: tuple[str, ...] = ()
    match: str = "none"
    results: tuple[ProbeResult, ...] = ()
    first_step: Step | None = None
    notes: tuple[str, ...] = ()
    shown: Shown | None = None
    properties: tuple[str, ...] = ()
    nearest: str | None = None
    reason: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    failure: Failure | None = None
    printed: str = ""

    @property
    def passed(self) -> bool:
        return self.status == "pass"

    @property
    def failed(self) -> int:
        """How many probes did not pass."""
        return sum(not result.passed for result in self.results)

    @property
    def exit_code(self) -> int:
        """0 pass, 1 wrong, 2 an error in the learner's code, 3 a limit."""
        return STATUSES.index(self.status)

    @property
    def message(self) -> str:
        """The one line."""
        line = words.say(f"judge.status.{self.status}", self.lang, failed=self.failed, total=len(self.results))
        named = [m for m in self.mistakes if m != "no_match"]
        said = [explained(self.task, name).means[self.lang] for name in named] if self.status == "wrong" else []
        return (" " if self.lang == "en" else "").join(filter(None, [line, *(said or [self.because])]))

    @property
    def because(self) -> str:
        """Why there is no full judgement, in one line; empty where there is."""
        if not self.reason:
            return ""
        facts = {**self.facts, **({} if self.failure is None else vars(self.failure))}
        return words.say(f"judge.reason.{self.reason}", self.lang, **facts)

    def hint(self, rung: int) -> str:
        """The hint for the first mistake: 1 asks, 2 points to the place, 3 gives the fix."""
        known = [name for name in self.mistakes if name != "no_match"]
        return explained(self.task, known[0]).hints[rung - 1][self.lang] if known else ""

    def to_json(self) -> str:
        """One object: task, status, mistakes, match, probes, first_step, notes, message."""
        return json.dumps(
            {
                "task": self.task.name,
                "status": self.status,
                "mistakes": list(self.mistakes),
                "match": self.match,
                "probes": {"total": len(self.results), "failed": self.failed},
                "first_step": self.first_step.name if self.first_step else None,
                "notes": list(self.notes),
                "message": self.message,
            },
            ensure_ascii=False,
        )

    def __repr__(self) -> str:
        return VIEWS["Verdict.text"](self) if VIEWS else self.message

    def _repr_html_(self) -> str:
        return VIEWS["Verdict.html"](self)
