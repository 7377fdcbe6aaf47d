"""Batches of a known pipeline, made on each CPU in the time that nobody else wants, while others are measured there:
`python -m benchmarks.plan.yardstick CPU`.

They keep the CPUs from sleeping, as `awake` does, and tell how fast these are meanwhile. Those of a virtual machine
change by a quarter from one second to the next, with what its neighbours do, so that what was measured a minute before
says little of now.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cluster_runs import batch_cpu as spent
from benchmarks.cluster_runs.kept_process import MARK, Apart
from tfhet.clock import SYSTEM
from tfhet.errors import TfhetError

BEGIN_LIMIT_S, END_LIMIT_S = 120.0, 60.0
"""It has to import TensorFlow the first time, and to finish a batch, with what others leave it."""
EVERY_S = 0.2
_LOOPS = 100_000


@dataclass(frozen=True)
class Pace:
    """What each CPU did: rows of seconds on the machine's monotonic clock, and CPU seconds and batches by then."""

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

    def __init__(self, each: Sequence[Apart]):
        self._each = each

    @contextlib.contextmanager
    def beside(self, chain: str, batch_size: int, channel: Path) -> Iterator[list[Pace]]:
        """Makes batches of the whole pipeline as long as the context lasts; the list has the pace then. Between two
        contexts the CPUs are kept awake only. Raises TfhetError."""
        asked = json.dumps({"chain": chain, "batch_size": batch_size, "channel": str(channel)})
        found: list[Pace] = []
        for apart in self._each:
            apart.ask(BEGIN_LIMIT_S, what=asked)
        try:
            yield found
        finally:
            said = [json.loads(apart.ask(END_LIMIT_S)) for apart in self._each]
        found.append(Pace(said))


@contextlib.contextmanager
def yardstick() -> Iterator[Yardstick]:
    """The processes, which end with the context."""
    with contextlib.ExitStack() as stack:
        cpus = sorted(os.sched_getaffinity(0))
        # In no control group of their own: against the hosts' groups they are to weigh as little as they can.
        each = [stack.enter_context(Apart.kept("benchmarks.plan.yardstick", str(cpu), alone=False)) for cpu in cpus]
        yield Yardstick(each)


def main(argv: Sequence[str] | None = None) -> None:
    """Works until its input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cpu", type=int)
    given = parser.parse_args(argv)
    os.sched_setaffinity(0, {given.cpu})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    pipelines: dict[str, Iterator[Any]] = {}
    batches: Iterator[Any] | None = None
    rows: list[tuple[float, float, float]] = []
    count = 0
    while True:
        if select.select([sys.stdin], [], [], 0.0)[0]:
            line = sys.stdin.readline()
            if not line:
                return
            if line.strip():
                batches, rows, count = _batches(pipelines, json.loads(line)), [], 0
                rows.append((SYSTEM.monotonic(), SYSTEM.cpu(), count))
                print(MARK, flush=True)
            else:
                print(MARK + json.dumps(rows), flush=True)
                batches = None
        elif batches is None:
            for _ in range(_LOOPS):
                pass
        else:
            next(batches)
            count += 1
            if SYSTEM.monotonic() - rows[-1][0] >= EVERY_S:
                rows.append((SYSTEM.monotonic(), SYSTEM.cpu(), count))


def _batches(pipelines: dict[str, Iterator[Any]], asked: Mapping[str, Any]) -> Iterator[Any]:
    """Of what is asked for; the first ones are made already."""
    channel = str(asked["channel"])
    if channel not in pipelines:
        pipelines[channel] = spent.whole(spent.pipeline_of(asked))
        for _ in range(spent.FIRST_BATCHES):
            next(pipelines[channel])
    return pipelines[channel]


if __name__ == "__main__":
    main()
