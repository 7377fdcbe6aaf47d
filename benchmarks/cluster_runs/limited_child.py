"""A child process that is kept for as long as a suite runs, and measures under limits when it is asked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks import child_environment, prefer
from tfhet.bench.child_process import AnsweringProcess
from tfhet.clock import SYSTEM
from tfhet.container import Limits, sweeper
from tfhet.container.cgroup import Cgroup
from tfhet.errors import TfhetError
from tfhet.planes import with_malloc_tunables

REST_CPUS, REST_CPU_S = 0.05, 1.0
"""CPUs, and CPU seconds beside these, that the process and what it has started may use while nothing is asked of it."""
END_S = 20.0
"""Time for the process to end, with the processes that it has started."""


class LimitedChild:
    """`python -m MODULE`, kept as long as the context lasts."""

    def __init__(self, process: AnsweringProcess, cgroup: Cgroup):
        self._process, self._cgroup = process, cgroup
        self._answered: tuple[float, float] | None = None
        """When it answered last, and the CPU seconds that it had used by then."""

    @classmethod
    @contextlib.contextmanager
    def started(cls, module: str, *arguments: str) -> Iterator[LimitedChild]:
        """The process, in a control group of its own, with the allocator of the workers and scripts of a job: the
        less CPU a process has, the more that matters. Raises UsageError where there are no control groups."""
        child = AnsweringProcess.of_module(module, *arguments, env=with_malloc_tunables(child_environment()))
        with _group() as cgroup, child as process:
            cgroup.add(process.pid)
            prefer(cgroup)
            try:
                yield cls(process, cgroup)
            finally:  # it removes what it has made, also where the suite fails or is told to end
                cgroup.limit(Limits())
                process.close(END_S)

    def ask(self, request: Mapping[str, Any], limit_s: float, limits: Limits | None = None) -> dict[str, Any]:
        """The answer to a request. limits: of the process and all that it has started, while it answers. Raises
        TfhetError when it has ended, takes longer than `limit_s`, or has not rested since the last one."""
        self._check_rest()
        self._cgroup.limit(limits or Limits())
        answer = self._process.ask(request, limit_s)
        self._answered = SYSTEM.monotonic(), self._cgroup.cpu_s()
        return answer

    def _check_rest(self) -> None:
        """Raises TfhetError where the process has worked between two requests, beside what was measured there."""
        if self._answered is None:
            return
        seconds, cpu_s = SYSTEM.monotonic() - self._answered[0], self._cgroup.cpu_s() - self._answered[1]
        if cpu_s > REST_CPU_S + REST_CPUS * seconds:
            said = f"used {cpu_s:.1f} s of CPU in {seconds:.0f} s in which nothing was asked of it"
            raise TfhetError(f"{self._process.name} {said}: what was measured meanwhile is wrong")


@contextlib.contextmanager
def _group() -> Iterator[Cgroup]:
    owner = sweeper.claim()
    try:
        cgroup = Cgroup.create(f"tfhet-{owner.tag}-apart")
        try:
            yield cgroup
        finally:
            cgroup.remove()
    finally:
        owner.release()
