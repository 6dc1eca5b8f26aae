"""Timing in turns: each repetition runs every contestant once, so all of them meet the same noise.

A ratio is formed within a repetition and its median taken over them; the medians of the times
themselves are for orientation only.
"""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

# Idle BLAS threads spin for some 25 ms before they sleep. A contestant that calls another copy of
# the library must not compete with those of the one before it.
PAUSE = 0.1


@dataclass(frozen=True)
class Contestant:
    """Something to be timed.

    Parameters
    ----------
    name : str
    run : callable
        Called with what ``prepare`` returned; this call is timed.
    prepare : callable, default=None
        Makes fresh arguments where ``run`` overwrites them; not timed.
    repeat : int, default=None
        Repetitions at most, for contestants that take long; None: all.
    """

    name: str
    run: Callable[[Any], Any]
    prepare: Callable[[], Any] | None = None
    repeat: int | None = None


Times = dict[str, list[float]]


def take_turns(
    contestants: list[Contestant], repeat: int, clock: Callable[[], float] = time.perf_counter
) -> Times:
    """Seconds of every contestant in every repetition, after one untimed round.

    Contestants with a ``repeat`` of their own are not warmed up: they are the slow ones.
    """
    for contestant in contestants:
        if contestant.repeat is None:
            _seconds(contestant, clock)
    times: Times = {contestant.name: [] for contestant in contestants}
    for repetition in range(repeat):
        for contestant in contestants:
            if contestant.repeat is None or repetition < contestant.repeat:
                times[contestant.name].append(_seconds(contestant, clock))
    return times


def _seconds(contestant: Contestant, clock: Callable[[], float]) -> float:
    argument = None if contestant.prepare is None else contestant.prepare()
    gc.collect()
    time.sleep(PAUSE)
    start = clock()
    contestant.run(argument)
    return clock() - start


def median(times: Times, name: str) -> float:
    """Median seconds of one contestant."""
    return float(np.median(times[name]))


def ratio(times: Times, name: str, *others: str) -> float:
    """Median over repetitions of the contestant's time by the sum of the others' times."""
    pairs = zip(times[name], *(times[other] for other in others), strict=False)
    return float(np.median([first / sum(rest) for first, *rest in pairs]))
