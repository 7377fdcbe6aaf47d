"""Batches of a known pipeline, made on each CPU in the time that nobody else wants, while others are measured there:
`python -m benchmarks.plan.yardstick CPU`.

They keep the CPUs from sleeping, as `awake` does, and tell how fast these are meanwhile. Those of a virtual machine
change by a quarter from one second to the next, with what its neighbours do, so that what was measured a minute before
says little of now.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from benchmarks.cluster_runs import batch_cpu
from benchmarks.cluster_runs.limited_child import LimitedChild
from tfhet.bench.child_process import answer_line, output_for_answers
from tfhet.clock import SYSTEM
from tfhet.errors import TfhetError

BEGIN_LIMIT_S, END_LIMIT_S = 120.0, 60.0
"""It has to import TensorFlow the first time, and to finish a batch, with what others leave it."""
EVERY_S = 0.2
_LOOPS = 100_000


@dataclass(frozen=True)
class Pace:
    """Progress of each CPU: rows of seconds on the machine's monotonic clock, and CPU seconds and batches by then."""

    cpus: Sequence[Sequence[tuple[float, float, float]]]

    def batch_s(self, begin_s: float, end_s: float) -> float:
        """CPU seconds of a batch between two moments, on all CPUs. Raises TfhetError where none was made."""
        spent_s = batches = 0.0
        for rows in self.cpus:
            at_s, cpu_s, count = np.asarray(rows, np.float64).reshape(-1, 3).T
            if at_s.size:
                ends = np.array([begin_s, end_s])
                spent_s += float(np.diff(np.interp(ends, at_s, cpu_s))[0])
                batches += float(np.diff(np.interp(ends, at_s, count))[0])
        if not batches > 0:
            raise TfhetError(f"no batch of the yardstick was made in {end_s - begin_s:.1f} s: others took all the CPU")
        return spent_s / batches


class Yardstick:
    """The processes, one on each CPU."""

    def __init__(self, each: Sequence[LimitedChild]):
        self._each = each

    @contextlib.contextmanager
    def beside(self, chain: str, batch_size: int, channel: Path) -> Iterator[list[Pace]]:
        """Makes batches of the whole pipeline as long as the context lasts; the list has the pace then. Between two
        contexts the CPUs are kept awake only. Raises TfhetError."""
        found: list[Pace] = []
        for child in self._each:
            child.ask({"chain": chain, "batch_size": batch_size, "channel": str(channel)}, BEGIN_LIMIT_S)
        try:
            yield found
        finally:
            rows = [child.ask({}, END_LIMIT_S)["rows"] for child in self._each]
        found.append(Pace(rows))


@contextlib.contextmanager
def yardstick() -> Iterator[Yardstick]:
    """The processes, which end with the context."""
    with contextlib.ExitStack() as stack:
        cpus = sorted(os.sched_getaffinity(0))
        # In no control group of their own: against the hosts' groups they are to weigh as little as they can.
        each = [
            stack.enter_context(LimitedChild.started("benchmarks.plan.yardstick", str(cpu), alone=False))
            for cpu in cpus
        ]
        yield Yardstick(each)


def main(argv: Sequence[str] | None = None) -> None:
    """Works until its input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cpu", type=int)
    given = parser.parse_args(argv)
    os.sched_setaffinity(0, {given.cpu})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with output_for_answers() as answers:
        _work(answers)


def _work(answers: IO[str]) -> None:
    pipelines: dict[str, Iterator[Any]] = {}
    batches: Iterator[Any] | None = None
    rows: list[tuple[float, float, float]] = []

    def handle(asked: dict[str, Any]) -> dict[str, Any]:
        nonlocal batches, rows
        if not asked:
            batches = None
            return {"rows": rows}
        batches, rows = _batches(pipelines, asked), []
        rows.append((SYSTEM.monotonic(), SYSTEM.cpu(), 0))
        return {}

    count = 0
    while True:
        if select.select([sys.stdin], [], [], 0.0)[0]:
            line = sys.stdin.readline()
            if not line:
                return
            answer_line(handle, line, answers)
            count = 0
        elif batches is None:
            for _ in range(_LOOPS):
                pass
        else:
            next(batches)
            count += 1
            if SYSTEM.monotonic() - rows[-1][0] >= EVERY_S:
                rows.append((SYSTEM.monotonic(), SYSTEM.cpu(), count))


def _batches(pipelines: dict[str, Iterator[Any]], asked: Mapping[str, Any]) -> Iterator[Any]:
    """Batches of the load that is asked for; the first ones are made already."""
    channel = str(asked["channel"])
    if channel not in pipelines:
        pipelines[channel] = batch_cpu.whole(batch_cpu.pipeline_of(asked))
        for _ in range(batch_cpu.FIRST_BATCHES):
            next(pipelines[channel])
    return pipelines[channel]


if __name__ == "__main__":
    main()
