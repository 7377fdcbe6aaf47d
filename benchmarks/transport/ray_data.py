"""Ray Data: a task for each batch puts it, from its process's memory, into the object store, and this process reads it
there. A turn is a data set of its own, because Ray Data has none without end."""

from __future__ import annotations

import functools
import tempfile
from typing import Any

import numpy as np
import psutil

from benchmarks.transport.raw_socket import contents
from tfhet.bench.wire.end import End

TASKS = 2
"""At a time."""
WARM_UP = 4
"""Batches that are read before all, so that its processes have started."""


def read(size: int) -> End:
    """Starts a Ray of its own and tells the process ids of its `workers`: all that belongs to it but this process."""
    import ray
    import ray.data

    folder = tempfile.TemporaryDirectory(prefix="tfhet-ray-")
    ray.init(
        address="local",
        num_cpus=TASKS,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        _temp_dir=folder.name,
    )
    ray.data.DataContext.get_current().enable_progress_bars = False

    def pull(count: int) -> None:
        if not count:
            return
        numbers = ray.data.range(count, override_num_blocks=count)
        data = numbers.map_batches(functools.partial(_made, size=size), batch_size=None)
        got = sum(batch["batch"].nbytes for batch in data.iter_batches(batch_size=None, batch_format="numpy"))
        if got != count * size:
            raise AssertionError(f"{got} bytes came instead of {count} times {size}")

    def close() -> None:
        ray.shutdown()
        folder.cleanup()

    pull(WARM_UP)
    return End(pull, {"workers": [child.pid for child in psutil.Process().children(recursive=True)]}, close)


def _made(batch: dict[str, np.ndarray], size: int) -> dict[str, Any]:
    held = _held(size)
    return {"batch": held[int(batch["id"][0]) % len(held)][None]}


@functools.lru_cache(maxsize=1)
def _held(size: int) -> list[np.ndarray]:
    return [np.frombuffer(batch, np.uint8) for batch in contents(size)]
