"""A real dispatcher and real workers in this process, and jobs that use them."""

from __future__ import annotations

import contextlib
import gc
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from own_wire import WIRE, _own_wire  # noqa: F401

from tfhet.cluster import free_ports
from tfhet.planes.tf_service.engine import whole_engine
from tfhet.strategies import JobContext

_jobs = itertools.count()
ENGINE = whole_engine()


@dataclass(frozen=True)
class Cluster:
    """A dispatcher with some workers."""

    dispatcher: str
    workers: int

    def job(self, rank: int = 0, size: int = 1, job_id: str = "") -> JobContext:
        """A rank of a job of its own, or of `job_id`."""
        return JobContext(
            job_id or f"job-{next(_jobs)}",
            "heterogeneous",
            rank=rank,
            size=size,
            local_rank=rank,
            local_size=size,
            plane="tf_service",
            order={"dispatcher": self.dispatcher, "workers": self.workers},
        )

    def ranks(self, size: int) -> list[JobContext]:
        """All ranks of one new job."""
        job_id = f"job-{next(_jobs)}"
        return [self.job(rank, size, job_id) for rank in range(size)]


@pytest.fixture(autouse=True, scope="module")
def _workers_report_often() -> Iterator[None]:
    """A new data set reaches a worker with its next report: each epoch would wait for up to 1 s."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tfhet.planes.tf_service.engine.HEARTBEAT_MS", 100)
        yield


@contextlib.contextmanager
def serving(workers: int) -> Iterator[Cluster]:
    ports = free_ports(workers + 1)
    dispatcher = ENGINE.dispatcher(WIRE, ports[0])
    running = []
    try:
        address = f"127.0.0.1:{ports[0]}"
        running += [ENGINE.worker(WIRE, port, "127.0.0.1", address) for port in ports[1:]]
        yield Cluster(address, workers)
    finally:
        gc.collect()  # else readers that nobody holds any more call for their dispatcher when it has gone
        for worker in running:
            worker.stop()
        dispatcher.stop()


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[[int], Cluster]]:
    """Gives a cluster with that many workers; all of them end with the module."""
    with contextlib.ExitStack() as stack:
        known: dict[int, Cluster] = {}

        def get(workers: int) -> Cluster:
            if workers not in known:
                known[workers] = stack.enter_context(serving(workers))
            return known[workers]

        yield get


@pytest.fixture(scope="module")
def served(serve: Callable[[int], Cluster]) -> Cluster:
    """Three workers."""
    return serve(3)
