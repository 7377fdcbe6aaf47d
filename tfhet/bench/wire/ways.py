"""Sets up ways over tf.data service, as jobs have it."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Mapping, Sequence

import psutil

from tfhet.bench.child_process import AnsweringProcess
from tfhet.bench.wire.lane import CLIENTS, DISPATCHER, WORKERS, Lane
from tfhet.bench.wire.load import Load
from tfhet.cluster import environment, free_ports
from tfhet.planes import in_huge_pages
from tfhet.planes.tf_service import Fleet

READY_S = 60.0
ANSWER_LIMIT_S = 180.0
GRACE_S = 10.0
"""Time for an end to leave, with the processes that it has started."""
READER = "tfhet.bench.wire.reader:read"


class Ways:
    """Sets up lanes; leaving it ends all their processes, also after an error."""

    def __init__(self) -> None:
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Ways:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._stack.aclose()

    async def open(self, loads: Sequence[Load], size: str) -> list[Lane]:
        """A lane for each load, all with batches of one size. Raises TfhetError."""
        begun = [await self._served(load) for load in loads]  # all of them import TensorFlow and make batches now
        return [await asyncio.to_thread(self.ready, *one) for one in begun]

    def environment(self, load: Load) -> Mapping[str, str]:
        """The environment of a load's processes."""
        return in_huge_pages(quiet(environment()), True)

    async def _served(self, load: Load) -> tuple[Load, dict[str, int], list[AnsweringProcess]]:
        """Its server processes, and its readers, which have been asked to open."""
        env = self.environment(load)
        dispatcher, *ports = free_ports(1 + load.workers)
        fleet = Fleet("bench", "127.0.0.1", env, on_line=lambda line: print(line, file=sys.stderr))
        self._stack.push_async_callback(fleet.stop)
        await fleet.start_dispatcher(dispatcher, READY_S)
        await fleet.start_workers(ports, f"127.0.0.1:{dispatcher}", READY_S)
        readers = [self.end(READER, env) for _ in range(load.ranks)]
        for rank, reader in enumerate(readers):
            wanted = {"dtype": load.dtype, "size": load.bytes, "compression": load.compression}
            where = {"dispatcher": f"127.0.0.1:{dispatcher}", "workers": load.workers, "rank": rank}
            reader.request({"open": {**where, **wanted}})
        return load, fleet.pids, readers

    def ready(self, load: Load, pids: Mapping[str, int], readers: Sequence[AnsweringProcess]) -> Lane:
        """The lane of a load, once its readers have opened."""
        told = [reader.answer() for reader in readers]
        sides = {
            CLIENTS: [reader.pid for reader in readers],
            WORKERS: [pid for name, pid in pids.items() if name != "dispatcher"],
            DISPATCHER: [pids["dispatcher"]],
        }
        ratio = float(told[0]["wire_bytes"]) / load.bytes
        return Lane(load.key, load.bytes, readers, sides, ahead=2 * load.workers + 2, wire_ratio=ratio)

    def end(self, function: str, env: Mapping[str, str]) -> AnsweringProcess:
        """A process that is one end of a way."""
        command = [sys.executable, "-m", "tfhet.bench.wire.end", function]
        process = AnsweringProcess(function, command, env, ANSWER_LIMIT_S)
        self._stack.callback(_end_with_children, process)
        return process


def quiet(env: Mapping[str, str]) -> dict[str, str]:
    """`env` for processes that log little and see no GPU."""
    return {**env, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}


def _end_with_children(process: AnsweringProcess) -> None:
    below: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        below = psutil.Process(process.pid).children(recursive=True)
    process.close(GRACE_S)
    for child in below:
        with contextlib.suppress(psutil.Error):
            child.kill()
    psutil.wait_procs(below, timeout=GRACE_S)
