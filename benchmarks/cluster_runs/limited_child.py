"""A child process that measures something under the limits of a simulated host."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks import child_environment, prefer
from tfhet.bench.child_process import AnsweringProcess
from tfhet.container import Limits, sweeper
from tfhet.container.cgroup import Cgroup
from tfhet.planes import with_malloc_tunables

END_S = 20.0
"""Seconds for the process to end, with the processes that it started."""


def ask_limited(module: str, request: Mapping[str, Any], limit_s: float, limits: Limits) -> dict[str, Any]:
    """Starts `python -m MODULE` in a control group, and returns its answer to one request.

    The process uses the allocator settings of a job's processes. It is a new one each time: a process that made other
    batches before may make these with less CPU time than a job does. `limits` hold from the request on, for the process
    and all that it starts.

    Raises:
        UsageError: if this process cannot make control groups.
        TfhetError: if the process fails, or gives no answer within `limit_s` seconds.
    """
    child = AnsweringProcess.of_module(module, env=with_malloc_tunables(child_environment()))
    with _group() as cgroup, child as process:
        cgroup.add(process.pid)
        prefer(cgroup)
        try:
            cgroup.limit(limits)
            return process.ask(request, limit_s)
        finally:
            cgroup.limit(Limits())
            process.close(END_S)


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
