"""Ways over tf.data service and over the feed, set up with their processes, as jobs have it."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import sys
from collections.abc import Mapping, Sequence

from tfhet.bench.child_process import AnsweringProcess
from tfhet.bench.wire.lane import CLIENTS, DISPATCHER, WORKERS, Lane
from tfhet.bench.wire.load import Load
from tfhet.cluster import environment, free_ports
from tfhet.planes import is_noise, with_malloc_tunables
from tfhet.planes.tf_service import Fleet

READY_S = 60.0
ANSWER_LIMIT_S = 180.0
GRACE_S = 10.0
"""Time for an end to leave."""
END, READER, FEED = "tfhet.bench.wire.end", "tfhet.bench.wire.reader:read", "tfhet.bench.wire.feed"


class Ways(contextlib.AsyncExitStack):
    """Sets up lanes, as jobs have it; leaving it ends all processes, also after an error."""

    async def open(self, loads: Sequence[Load], size: str) -> list[Lane]:
        """Returns a lane over tf.data service for each load. size: of what a subclass adds. Raises TfhetError."""
        begun = [await self._served(load) for load in loads]  # all of them import TensorFlow and make batches now
        return [await asyncio.to_thread(self.ready, *one) for one in begun]

    async def open_feed(self, load: Load) -> Lane:
        """Returns a lane over the feed, from one server to one rank. Raises TfhetError."""
        env = self.environment(load)
        sender, reader = (self.end(env, END, f"{FEED}:{name}") for name in ("send", "receive"))
        facts = await asyncio.to_thread(sender.ask, {"open": {}})
        await asyncio.to_thread(reader.ask, {"open": {"size": load.bytes, **facts}})
        sides = {CLIENTS: [reader.pid], WORKERS: [sender.pid]}
        return Lane(f"feed.{load.size}", load.bytes, [reader], sides, ahead=2)

    def environment(self, load: Load) -> Mapping[str, str]:
        return with_malloc_tunables(quiet(environment()))

    async def _served(self, load: Load) -> tuple[Load, dict[str, int], list[AnsweringProcess]]:
        """Starts servers, and readers that begin to open. Returns the servers' process ids by name, and the readers."""
        env = self.environment(load)
        dispatcher, *ports = free_ports(1 + load.workers)
        address = f"127.0.0.1:{dispatcher}"
        key = secrets.token_bytes(32)
        fleet = Fleet("bench", "127.0.0.1", env, key=key, on_line=_show)
        self.push_async_callback(fleet.stop)
        await fleet.start_dispatcher(dispatcher, READY_S)
        await fleet.start_workers(ports, address, READY_S)
        readers = [self.end(env, END, READER) for _ in range(load.ranks)]
        moved = {"key": key.hex(), "dtype": load.dtype, "size": load.bytes, "compression": load.compression}
        for rank, reader in enumerate(readers):
            reader.request({"open": {**moved, "dispatcher": address, "workers": load.workers, "rank": rank}})
        return load, fleet.pids, readers

    def ready(self, load: Load, pids: Mapping[str, int], readers: Sequence[AnsweringProcess]) -> Lane:
        """Returns the lane of a load once its readers have opened."""
        facts = [reader.answer() for reader in readers]
        sides = {
            CLIENTS: [reader.pid for reader in readers],
            WORKERS: [pid for name, pid in pids.items() if name != "dispatcher"],
            DISPATCHER: [pids["dispatcher"]],
        }
        ratio = float(facts[0]["wire_bytes"]) / load.bytes
        return Lane(load.key, load.bytes, readers, sides, ahead=2 * load.workers + 2, wire_ratio=ratio)

    def end(self, env: Mapping[str, str], module: str, *arguments: str) -> AnsweringProcess:
        words = [module, *arguments]
        process = AnsweringProcess(" ".join(words), [sys.executable, "-m", *words], env, ANSWER_LIMIT_S)
        self.callback(self._end, process)
        return process

    def _end(self, process: AnsweringProcess) -> None:
        process.close(GRACE_S)


def _show(line: str) -> None:
    if not is_noise(line):
        print(line, file=sys.stderr)


def quiet(env: Mapping[str, str]) -> dict[str, str]:
    """Returns `env` for processes that log little and see no GPU."""
    return {**env, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
