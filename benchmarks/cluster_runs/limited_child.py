"""A child process that is kept for as long as a suite runs, and measures under limits when it is asked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks import child_environment, prefer
from tfhet.bench.child_process import AnsweringProcess
from tfhet.container import Limits, sweeper
from tfhet.container.cgroup import Cgroup

END_S = 20.0
"""Time for the process to end, with the processes that it has started."""


class LimitedChild:
    """`python -m MODULE`, kept as long as the context lasts."""

    def __init__(self, process: AnsweringProcess, cgroup: Cgroup):
        self._process, self._cgroup = process, cgroup

    @classmethod
    @contextlib.contextmanager
    def started(cls, module: str, *arguments: str) -> Iterator[LimitedChild]:
        """The process, in a control group of its own. Raises UsageError where there are no control groups."""
        child = AnsweringProcess.of_module(module, *arguments, env=child_environment())
        with _group() as cgroup, child as process:
            cgroup.add(process.pid)
            prefer(cgroup)
            yield cls(process, cgroup)
            cgroup.limit(Limits())
            process.close(END_S)

    def ask(self, request: Mapping[str, Any], limit_s: float, limits: Limits | None = None) -> dict[str, Any]:
        """The answer to a request. limits: of the process and all that it has started, while it answers. Raises
        TfhetError when it has ended, or takes longer than `limit_s`."""
        self._cgroup.limit(limits or Limits())
        return self._process.ask(request, limit_s)


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
