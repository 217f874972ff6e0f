"""The comparison with the known mistakes: which of them gives exactly what the learner's code gave?

A mistake is named when it agrees on every probe, those where the answer is right included. One that agrees only where
the answer is wrong is a weaker second and is not named as found. Pairs are tried when no single one agrees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np

from .calls import Calls, run_probe
from .compare import Outcome, same
from .task import Function, Probe, Task, joined
from .wire import arrays

Outcomes = Mapping[str, Outcome]


@dataclass(frozen=True)
class Match:
    """What the comparison found.

    Attributes
    ----------
    kind : {"right", "exact", "pair", "none"}
    ids : tuple of str
        The mistakes; two for a pair. Several for "exact" when they are one and the same on these probes.
    notes : tuple of str
        The conventions under which they agree.
    function : callable or None
        What the learner's code is equal to.
    nearest : str or None
        With "none": a mistake that agrees where the answer is wrong, but not where it is right.
    """

    kind: str
    ids: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    function: Function | None = None
    nearest: str | None = None


class Bank:
    """The known answers to a task's probes, computed when they are asked for and kept."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.known: dict[tuple[int, str], Outcome] = {}
        self.functions: dict[int, Function] = {}
        self.ways = list(ways(task))
        self.joins: dict[tuple[int, int], Function | None] = {}

    def outcome(self, function: Function, probe: Probe) -> Outcome:
        """What a function of the judge's gives on a probe."""
        key = (id(function), probe.name)
        if key not in self.known:
            self.functions[id(function)] = function  # kept, so that its number stays its own
            self.known[key] = known_outcome(self.task, function, probe)
        return self.known[key]

    def agrees(self, function: Function, got: Outcomes, probes: list[Probe]) -> bool:
        """Whether a function gives what came, on all of these probes."""
        return all(same(self.outcome(function, probe), got[probe.name]) for probe in probes)

    def match(self, got: Outcomes, probes: list[Probe]) -> Match:
        """Find what the outcomes are equal to.

        Parameters
        ----------
        got : mapping of str to Outcome
        probes : list of Probe
            Those that count: outcomes of all of them are there.
        """
        for way, notes in self.ways:
            if self.agrees(way, got, probes):
                return Match("right", notes=notes, function=way)
        wrong = [probe for probe in probes if not self.is_right(got[probe.name], probe)]
        singles = [(m.id, v) for m in self.task.mistakes for v in m.variations] + self._fitted(got, probes)
        found = self._exact(singles, got, probes, wrong) or self._pair(singles, got, probes, wrong)
        return found or Match("none", nearest=self._nearest(singles, got, wrong))

    def is_right(self, got: Outcome, probe: Probe) -> bool:
        """Whether an outcome is right under some convention."""
        return any(same(self.outcome(way, probe), got) for way, _ in self.ways)

    def _fitted(self, got: Outcomes, probes: list[Probe]) -> list[tuple[str, Function]]:
        """The variations that learners' own numbers suggest."""
        found = []
        for mistake in self.task.mistakes:
            if mistake.fit is not None:
                fits = (mistake.fit(probe, got[probe.name].value) for probe in probes)
                found += [(mistake.id, f) for f in [next((f for f in fits if f is not None), None)] if f is not None]
        return found

    def _exact(
        self, singles: list[tuple[str, Function]], got: Outcomes, probes: list[Probe], wrong: list[Probe]
    ) -> Match | None:
        agree: dict[str, tuple[Function, tuple[str, ...]]] = {}
        for name, variation in singles:
            for function, notes in self._under_conventions(variation):
                if name not in agree and self.agrees(function, got, probes):
                    agree[name] = (function, notes)
        if not agree:
            return None
        function, notes = next(iter(agree.values()))
        shows = self._shows(function, wrong) or self._only_fails(function, wrong, probes)
        if not shows and (len(agree) > 1 or not self._is_nan_at_times(function, wrong, probes)):
            return None
        return Match("exact", tuple(agree), notes, function)

    def _pair(
        self, singles: list[tuple[str, Function]], got: Outcomes, probes: list[Probe], wrong: list[Probe]
    ) -> Match | None:
        for (one, a), (other, b) in combinations(singles, 2):
            both = None if one == other else self._joined(a, b)
            for function, notes in self._under_conventions(both) if both else ():
                if self.agrees(function, got, probes) and self._shows(function, wrong):
                    return Match("pair", (one, other), notes, function)
        return None

    def _nearest(self, singles: list[tuple[str, Function]], got: Outcomes, wrong: list[Probe]) -> str | None:
        for name, variation in singles:
            for function, _ in self._under_conventions(variation):
                if self.agrees(function, got, wrong) and self._shows(function, wrong):
                    return name
        return None

    def _under_conventions(self, variation: Function) -> Iterator[tuple[Function, tuple[str, ...]]]:
        """A variation as it is, then with each convention that it leaves room for."""
        yield variation, ()
        for way, notes in self.ways:
            both = self._joined(variation, way)
            if both is not None:
                yield both, notes

    def _joined(self, one: Function, other: Function) -> Function | None:
        key = (id(one), id(other))
        if key not in self.joins:
            self.functions |= {id(one): one, id(other): other}
            self.joins[key] = joined(one, other)
        return self.joins[key]

    def _shows(self, function: Function, wrong: list[Probe]) -> bool:
        """Whether the agreement rests on numbers somewhere: that both give nothing but NaN, or only fail, is little."""
        values = [value for probe in wrong for value in arrays(self.outcome(function, probe).value)]
        return any(np.isfinite(value).any() for value in values)

    def _only_fails(self, function: Function, wrong: list[Probe], probes: list[Probe]) -> bool:
        """Whether the mistake is to fail on some inputs, and to be right on most."""
        failures = [self.outcome(function, probe).failure for probe in wrong]
        return all(failures) and 2 * len(wrong) <= len(probes)

    def _is_nan_at_times(self, function: Function, wrong: list[Probe], probes: list[Probe]) -> bool:
        """Whether a mistake that shows nothing where it is wrong shows numbers elsewhere: much else gives NaN."""
        right = [probe for probe in probes if probe not in wrong]
        return self._shows(function, right) and not any(self.outcome(function, probe).failure for probe in wrong)


def known_outcome(task: Task, function: Function, probe: Probe) -> Outcome:
    """What one of the judge's own functions gives: run like the learner's, on copies, through the same wire."""
    return Outcome.read(run_probe(function, None, own_calls(task, probe)))


def own_calls(task: Task, probe: Probe) -> Calls:
    """The arguments of the judge's functions: for a class they take all of its calls as one list."""
    calls = task.calls(probe)
    return [[calls]] if task.method else calls


def ways(task: Task) -> Iterator[tuple[Function, tuple[str, ...]]]:
    """The right answers with the conventions that they follow: the reference, each convention, two that go together."""
    yield task.reference, ()
    for convention in task.conventions:
        yield convention.variation, (convention.id,)
    for one, other in combinations(task.conventions, 2):
        both = joined(one.variation, other.variation) if one.id != other.id else None
        if both is not None:
            yield both, (one.id, other.id)


@cache
def bank_of(task_name: str) -> Bank:
    """The bank of a task, one in a process."""
    from .tasks import load

    return Bank(load(task_name))
