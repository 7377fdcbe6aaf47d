"""A way over tf.data service that is set up, and the cost of a turn on it: CPU seconds of each side, and the rate."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import psutil

from tfhet.bench.child_process import AnsweringProcess
from tfhet.bench.harness import in_rounds
from tfhet.bench.wire.load import Load
from tfhet.clock import SYSTEM, Clock, cpu_of
from tfhet.cluster import environment, free_ports
from tfhet.errors import TfhetError
from tfhet.events import Observer
from tfhet.planes import in_huge_pages
from tfhet.planes.tf_service import Fleet
from tfhet.units import GB

CLIENTS, WORKERS, DISPATCHER = "clients", "workers", "dispatcher"
LEAST = 4
"""Minimum number of batches of a turn, for each client."""
LOOK_S = 0.05
IDLE_SHARE = 0.1
"""Share of one CPU: the processes of a lane are idle when they use less for two looks."""
SETTLE_LIMIT_S = 60.0
READY_S = 60.0
ANSWER_LIMIT_S = 180.0
GRACE_S = 10.0
"""Time for an end to leave, with the processes that it has started."""
READER = "tfhet.bench.wire.reader:read"


@dataclass(frozen=True)
class Turn:
    """Batches that were moved at one go, and their cost."""

    bytes: int
    """Bytes of tensors, of all clients together, those that were taken ahead included."""
    cpu_s: Mapping[str, float]
    """CPU seconds by side: clients, workers, dispatcher."""
    gb_per_s: float
    """Rate of all clients together, without the batches taken ahead."""

    def per_gb(self, side: str) -> float:
        """Returns the CPU seconds of a side per GB; 0 for a side that this way lacks."""
        return self.cpu_s.get(side, 0.0) * GB / self.bytes

    @property
    def all_per_gb(self) -> float:
        """CPU seconds of all sides per GB."""
        return sum(self.cpu_s.values()) * GB / self.bytes


@dataclass(frozen=True)
class Lane:
    """One way with its processes."""

    key: str
    """Name in figures."""
    bytes: int
    """Bytes of one batch."""
    clients: Sequence[AnsweringProcess]
    """The processes that take batches on request."""
    pids: Mapping[str, Sequence[int]]
    """Processes whose CPU time counts, by side. They stay the same."""
    ahead: int = 0
    """Batches that may lie ready between turns, for each client; they are taken before the clock starts."""
    wire_ratio: float = 1.0
    """Bytes on the wire over bytes of tensors."""

    def turn(self, count: int, clock: Clock = SYSTEM) -> Turn:
        """Moves `count` batches to each client after those ahead. Raises TfhetError.

        It waits until the processes have filled their buffers again, so that as much lies ready after it as before.
        """
        before = self._cpu_s()
        for client in self.clients:
            client.request({"ahead": self.ahead, "count": count})
        took = [float(client.answer()["seconds"]) for client in self.clients]
        self._settle(clock)
        spent = {side: now - before[side] for side, now in self._cpu_s().items()}
        moved = (self.ahead + count) * len(self.clients) * self.bytes
        return Turn(moved, spent, sum(count * self.bytes / seconds for seconds in took) / GB)

    def fitting(self, seconds: float, clock: Clock = SYSTEM) -> int:
        """Returns the number of batches for each client that take about `seconds`, at least LEAST, after trying."""
        count = LEAST
        while True:
            rate = self.turn(count, clock).gb_per_s * GB / self.bytes / len(self.clients)
            fits = max(LEAST, round(seconds * rate))
            if fits <= 4 * count:
                return fits
            count = min(fits, 16 * count)

    def _cpu_s(self) -> dict[str, float]:
        try:
            return {side: sum(map(cpu_of, pids)) for side, pids in self.pids.items()}
        except OSError:
            raise TfhetError(f"{self.key}: one of its processes has ended") from None

    def _settle(self, clock: Clock) -> None:
        end_s = clock.monotonic() + SETTLE_LIMIT_S
        idle, looked_s, spent_s = 0, clock.monotonic(), sum(self._cpu_s().values())
        while idle < 2:
            if looked_s > end_s:
                raise TfhetError(f"{self.key}: its processes work for {SETTLE_LIMIT_S:g} s after the last batch")
            clock.sleep(LOOK_S)
            now_s, used_s = clock.monotonic(), sum(self._cpu_s().values())
            idle = idle + 1 if used_s - spent_s < IDLE_SHARE * (now_s - looked_s) else 0
            looked_s, spent_s = now_s, used_s


def rounds(
    lanes: Sequence[Lane], seconds: float, warmup: int, repeats: int, observer: Observer, clock: Clock = SYSTEM
) -> dict[str, list[Turn]]:
    """Returns turns of about `seconds` on all lanes, A B C A B C, by key, without the first `warmup` rounds."""
    counts = {lane.key: lane.fitting(seconds, clock) for lane in lanes}

    def once(lane: Lane, index: int) -> Turn:
        return lane.turn(counts[lane.key], clock)

    def describe(key: str, turn: Turn) -> str:
        spent = ", ".join(f"{side} {turn.per_gb(side):.2f}" for side in turn.cpu_s)
        return f"{turn.gb_per_s:.2f} GB/s, CPU s/GB: {spent}"

    cases = {lane.key: functools.partial(once, lane) for lane in lanes}
    return in_rounds(cases, describe, warmup=warmup, repeats=repeats, observer=observer, clock=clock)


class Ways(contextlib.AsyncExitStack):
    """Sets up lanes over tf.data service, as jobs have it; leaving it ends all processes, also after an error."""

    async def open(self, loads: Sequence[Load], size: str) -> list[Lane]:
        """Returns a lane for each load, all with batches of one size. Raises TfhetError."""
        begun = [await self._served(load) for load in loads]  # all of them import TensorFlow and make batches now
        return [await asyncio.to_thread(self.ready, *one) for one in begun]

    def environment(self, load: Load) -> Mapping[str, str]:
        """Returns the environment of a load's processes."""
        return in_huge_pages(quiet(environment()), True)

    async def _served(self, load: Load) -> tuple[Load, dict[str, int], list[AnsweringProcess]]:
        """Starts servers, and readers that begin to open. Returns the servers' process ids by name, and the readers."""
        env = self.environment(load)
        dispatcher, *ports = free_ports(1 + load.workers)
        address = f"127.0.0.1:{dispatcher}"
        fleet = Fleet("bench", "127.0.0.1", env, on_line=lambda line: print(line, file=sys.stderr))
        self.push_async_callback(fleet.stop)
        await fleet.start_dispatcher(dispatcher, READY_S)
        await fleet.start_workers(ports, address, READY_S)
        readers = [self.end(READER, env) for _ in range(load.ranks)]
        moved = {"dtype": load.dtype, "size": load.bytes, "compression": load.compression}
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

    def end(self, function: str, env: Mapping[str, str]) -> AnsweringProcess:
        """Starts a process that is one end of a way."""
        command = [sys.executable, "-m", "tfhet.bench.wire.end", function]
        process = AnsweringProcess(function, command, env, ANSWER_LIMIT_S)
        self.callback(_end_with_children, process)
        return process


def quiet(env: Mapping[str, str]) -> dict[str, str]:
    """Returns `env` for processes that log little and see no GPU."""
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
