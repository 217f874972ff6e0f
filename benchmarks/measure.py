"""Times taken in turns: every contender once, then every contender again, so that all meet the same machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

REPEATS = 7
SHORTEST = 0.02  # seconds per sample; quicker calls are repeated within one
PAUSE = 0.1  # seconds in which the threads of the contender before, which may spin for more work, go to sleep


@dataclass(frozen=True)
class Time:
    """Seconds of a call: the median of the samples and the quartiles around it."""

    median: float
    low: float
    high: float

    @property
    def spread(self) -> float:
        """Half the distance of the quartiles, as a part of the median."""
        return (self.high - self.low) / (2 * self.median)


def interleaved(contenders: Mapping[str, Callable[[], object]], repeats: int = REPEATS) -> dict[str, Time]:
    """The time of each contender. The first call of each is for warming up and does not count."""
    for run in contenders.values():
        run()
    calls = {name: max(1, round(SHORTEST / once(run, 1))) for name, run in contenders.items()}
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, run in contenders.items():
            time.sleep(PAUSE)
            run()  # into the caches, and awake
            samples[name].append(once(run, calls[name]))
    return {name: summary(times) for name, times in samples.items()}


def once(run: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def summary(times: list[float]) -> Time:
    low, median, high = statistics.quantiles(times, n=4, method="inclusive")
    return Time(median, low, high)
