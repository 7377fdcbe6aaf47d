"""The speed of this machine's CPUs, by work that is always the same."""

from __future__ import annotations

import contextlib

from benchmarks import child_environment
from tfhet.bench.child_process import AnsweringProcess
from tfhet.bench.cpu import turn
from tfhet.record import median, usable_cores

PASSES, TURNS = 5, 5


def pass_ms() -> float:
    """Median CPU milliseconds of a pass of `tfhet.bench.cpu_work`, on all CPUs at once. Takes a few seconds."""
    with contextlib.ExitStack() as stack:
        work, env = "tfhet.bench.cpu_work", child_environment()
        started = (AnsweringProcess.of_module(work, env=env) for _ in range(usable_cores()))
        processes = [stack.enter_context(process) for process in started]
        turns = [turn(processes, PASSES) for _ in range(1 + TURNS)]
    return median([each.pass_ms(PASSES) for each in turns[1:]])
