"""Keeps all of the machine's CPUs busy while hosts with quotas are measured, with what any other process goes before.

The CPUs of a virtual machine are threads that share cores: one is slower while its neighbour works. Where a step is
compared with costs that were measured apart, all of it has to happen beside a busy neighbour, and a CPU that sleeps
while a host has used up its quota comes back with cold caches besides.

The kernel moves no waiting thread to a CPU that has something to run, so processes of a host of more than one CPU may
share one, and leave a part of their quota. Suites of such hosts only keep CPUs awake (awake_cpus.py).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

_LOOPS = 100_000
"""Between two looks at the parent: some milliseconds."""


@contextlib.contextmanager
def idle_loops() -> Iterator[None]:
    """On each CPU that this process may use, a loop that any other process goes before; it ends with this process."""
    with contextlib.ExitStack() as stack:
        for cpu in sorted(os.sched_getaffinity(0)):
            command = [sys.executable, "-m", "benchmarks.cluster_runs.idle_loops", str(cpu), str(os.getpid())]
            child = stack.enter_context(subprocess.Popen(command, stdin=subprocess.DEVNULL))
            stack.callback(child.kill)
        yield


def main(argv: Sequence[str]) -> None:
    """Loops on a CPU until its parent is gone."""
    cpu, parent = map(int, argv)
    os.sched_setaffinity(0, [cpu])
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    while os.getppid() == parent:
        for _ in range(_LOOPS):
            pass


if __name__ == "__main__":
    main(sys.argv[1:])
