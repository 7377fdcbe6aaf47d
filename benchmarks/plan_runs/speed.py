"""The speed of this machine: of its CPUs, by work that is always the same, and of its memory."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from benchmarks import child_environment
from tfhet.bench.child_process import AnsweringProcess
from tfhet.bench.cpu import turn
from tfhet.record import median, usable_cores

PASSES, TURNS = 5, 5


@dataclass(frozen=True)
class Speed:
    """Speed of the machine beside a run."""

    pass_ms: float
    """CPU milliseconds of work that stays in the caches, in the mean of before and after."""
    cold_load_ns: float
    """CPU nanoseconds of a load from memory that the caches of a core do not hold, meanwhile."""


def pass_ms() -> float:
    """Median CPU milliseconds of a pass of `tfhet.bench.cpu_work`, on all CPUs at once. Takes a few seconds."""
    with contextlib.ExitStack() as stack:
        work, env = "tfhet.bench.cpu_work", child_environment()
        started = (AnsweringProcess.of_module(work, env=env) for _ in range(usable_cores()))
        processes = [stack.enter_context(process) for process in started]
        turns = [turn(processes, PASSES) for _ in range(1 + TURNS)]
    return median([each.pass_ms(PASSES) for each in turns[1:]])
