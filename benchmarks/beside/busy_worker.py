"""A worker that never has enough: a pipeline that is read for ever, from the first request on."""

from __future__ import annotations

import itertools
import os
import sys
import threading
from typing import Any

from tfhet.bench.child_process import answer_requests

CHAIN, BATCH = "aws-cifar", 128


def main(way: str) -> None:
    """way: `gives_way`, or anything else for a worker that is an equal of the training."""
    from tfhet.placement import Pipeline, one_epoch
    from tfhet.planes.cpus import give_way
    from tfhet.source import SyntheticSource

    os.setsid()  # a worker of a job has a session, and so a scheduling group, of its own
    pipeline = Pipeline(SyntheticSource(1 << 20, 64), CHAIN, batch_size=BATCH)
    batches = (batch for epoch in itertools.count() for batch in one_epoch(pipeline, epoch))

    def read() -> None:
        for _ in batches:
            pass

    def begin(request: dict[str, Any]) -> dict[str, Any]:
        for _ in range(3):
            next(batches)
        if way == "gives_way":
            give_way()
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        threading.Thread(target=read, daemon=True).start()
        return {}

    answer_requests(begin)


if __name__ == "__main__":
    main(sys.argv[1])
