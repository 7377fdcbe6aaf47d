"""Keeps the machine's CPUs from sleeping while hosts with quotas are measured.

A host that has used its quota leaves its CPU to nobody. A virtual CPU that has nothing to do is taken away by the
hypervisor, and comes back with cold caches: measured, the same batch takes 166 to 272 ms of CPU then, and 149 to 161 ms
beside a loop that never stops; 144 ms without a quota. Real hosts are not put to sleep a hundred times a second.
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
def awake() -> Iterator[None]:
    """On each CPU that this process may use, a loop that any other process goes before; it ends with this process."""
    with contextlib.ExitStack() as stack:
        for cpu in sorted(os.sched_getaffinity(0)):
            command = [sys.executable, "-m", "benchmarks.cluster_runs.awake_cpus", str(cpu), str(os.getpid())]
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
