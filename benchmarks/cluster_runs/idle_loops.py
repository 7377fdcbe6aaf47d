"""Keeps every CPU of the machine busy with work of the lowest priority while hosts with quotas are measured.

CPUs of a virtual machine are threads that share cores: one is slower while its neighbour works, and a CPU that slept
has cold caches. With these loops, jobs and the costs measured outside them run under the same conditions.

Linux moves no waiting thread to a CPU that runs something, so each simulated host must fit on one CPU.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

_LOOPS = 100_000
"""Iterations between two looks at the parent: some milliseconds."""


@contextlib.contextmanager
def idle_loops() -> Iterator[None]:
    """Runs a loop on each CPU that this process may use. The loops also end if this process dies."""
    with contextlib.ExitStack() as stack:
        for cpu in sorted(os.sched_getaffinity(0)):
            command = [sys.executable, "-m", "benchmarks.cluster_runs.idle_loops", str(cpu), str(os.getpid())]
            child = stack.enter_context(subprocess.Popen(command, stdin=subprocess.DEVNULL))
            stack.callback(child.kill)
        yield


def main(argv: Sequence[str]) -> None:
    """Loops on a CPU until the parent is gone."""
    cpu, parent = map(int, argv)
    os.sched_setaffinity(0, [cpu])
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    while os.getppid() == parent:
        for _ in range(_LOOPS):
            pass


if __name__ == "__main__":
    main(sys.argv[1:])
