"""Sets up ways: tf.data service as jobs have it, and what it is compared with."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tfhet.bench.answering import AnsweringProcess
from tfhet.bench.peers.place import Place
from tfhet.bench.rivals import INSTALL, NONE
from tfhet.bench.wire import allocator
from tfhet.bench.wire.lane import CLIENTS, DISPATCHER, WORKERS, Lane
from tfhet.bench.wire.load import SMALL_PAGES, TCMALLOC, Load
from tfhet.cluster import environment, free_ports
from tfhet.errors import UsageError, unknown
from tfhet.planes.memory import in_huge_pages
from tfhet.planes.tf_service import Fleet
from tfhet.record.wire_cost import bytes_of

READY_S = 60.0
ANSWER_LIMIT_S = 180.0
GRACE_S = 10.0
"""For an end to leave, with what it has started."""
RAW_SOCKET, RAW_GRPC = "raw_socket", "raw_grpc"


@dataclass(frozen=True)
class Rival:
    """Another way to move the same bytes."""

    name: str
    """Its part of a figure's name."""
    imports: tuple[str, ...]
    """Modules that have to be there."""
    receiver: str
    """The end that takes, as tfhet.bench.wire.end calls it."""
    sender: str | None = None
    """The end that gives; None where the other starts processes of its own for that."""
    requires: tuple[str, ...] = ()
    """What `--peers install` puts into a folder of its own; () for what has to be in this environment."""
    dependencies: bool = True
    """Whether that includes what the packages ask for."""

    def missing(self) -> str | None:
        """Why it cannot be measured; None when it can."""
        if self.requires:
            return Place.of(self).missing()
        for name in self.imports:
            if importlib.util.find_spec(name) is None:
                return f"No module named {name!r}"
        return None

    def environment(self) -> Mapping[str, str]:
        """Of its processes."""
        return Place.of(self).environment() if self.requires else environment()


RIVALS = (
    Rival(RAW_SOCKET, (), "socket receiver", "socket sender"),
    Rival(RAW_GRPC, ("grpc",), "grpc receiver", "grpc sender"),
    Rival("torch", ("torch",), "torch"),
    Rival("ray", ("ray.data",), "ray", requires=("ray[data]==2.60.0",)),
)


def rivals(option: str) -> tuple[Rival, ...]:
    """Those that `--peers` names: all for "" and `install`, none for `none`. Raises UsageError for an unknown one."""
    known = {rival.name: rival for rival in RIVALS}
    if option == NONE:
        return ()
    if option == INSTALL:
        return RIVALS
    names = [name.strip() for name in option.split(",") if name.strip()] or list(known)
    for name in names:
        if name not in known:
            unknown("peer", name, known)
    return tuple(known[name] for name in dict.fromkeys(names))


class Ways:
    """Sets up lanes; leaving it ends all their processes, whatever happened."""

    def __init__(self, library: Path | None = None):
        """library: that of tcmalloc, for lanes that ask for it."""
        self._library = library
        self._stack = contextlib.AsyncExitStack()
        self._env = _quiet(environment())

    async def __aenter__(self) -> Ways:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._stack.aclose()

    async def open(self, loads: Sequence[Load], others: Sequence[Rival], size: str) -> list[Lane]:
        """A lane for each load and each rival, for batches of one size. Raises TfhetError."""
        begun = [await self._served(load) for load in loads]  # all of them import TensorFlow and make batches now
        lanes = [await asyncio.to_thread(self._ready, *one) for one in begun]
        return [*lanes, *[await self._rival(rival, size) for rival in others]]

    async def _served(self, load: Load) -> tuple[Load, dict[str, int], list[AnsweringProcess]]:
        """Its server processes, and its readers, which have been asked to open."""
        env = self._environment(load)
        dispatcher, *ports = free_ports(1 + load.workers)
        fleet = Fleet("bench", "127.0.0.1", env, on_line=lambda line: print(line, file=sys.stderr))
        self._stack.push_async_callback(fleet.stop)
        await fleet.start_dispatcher(dispatcher, READY_S)
        await fleet.start_workers(ports, f"127.0.0.1:{dispatcher}", READY_S)
        readers = [self._end("reader", env) for _ in range(load.ranks)]
        for rank, reader in enumerate(readers):
            wanted = {"dtype": load.dtype, "size": load.bytes, "compression": load.compression}
            where = {"dispatcher": f"127.0.0.1:{dispatcher}", "workers": load.workers, "rank": rank}
            reader.request({"open": {**where, **wanted}})
        return load, fleet.pids, readers

    def _ready(self, load: Load, pids: Mapping[str, int], readers: Sequence[AnsweringProcess]) -> Lane:
        told = [reader.answer() for reader in readers]
        if self._library is not None and load.allocator == TCMALLOC:
            for pid in (*pids.values(), *(reader.pid for reader in readers)):
                allocator.check_runs_with(pid, self._library)
        sides = {
            CLIENTS: [reader.pid for reader in readers],
            WORKERS: [pid for name, pid in pids.items() if name != "dispatcher"],
            DISPATCHER: [pids["dispatcher"]],
        }
        ratio = float(told[0]["wire_bytes"]) / load.bytes
        return Lane(load.key, load.bytes, readers, sides, ahead=2 * load.workers + 2, wire_ratio=ratio)

    async def _rival(self, rival: Rival, size: str) -> Lane:
        count = bytes_of(size)
        where, workers = {}, []
        env = _quiet(rival.environment())
        if rival.sender is not None:
            sender = self._end(rival.sender, env)
            where = await asyncio.to_thread(sender.ask, {"open": {"size": count}})
            workers = [sender.pid]
        receiver = self._end(rival.receiver, env)
        told = await asyncio.to_thread(receiver.ask, {"open": {"size": count, **where}})
        sides = {CLIENTS: [receiver.pid], WORKERS: told.get("workers", workers)}
        return Lane(f"{rival.name}.{size}", count, [receiver], sides, ahead=int(told.get("ahead", 0)))

    def _end(self, kind: str, env: Mapping[str, str]) -> AnsweringProcess:
        command = [sys.executable, "-m", "tfhet.bench.wire.end", kind]
        process = AnsweringProcess(kind, command, env, ANSWER_LIMIT_S)
        self._stack.callback(_end_with_children, process)
        return process

    def _environment(self, load: Load) -> Mapping[str, str]:
        if load.allocator != TCMALLOC:
            return in_huge_pages(self._env, load.allocator != SMALL_PAGES)
        if self._library is None:
            raise UsageError(f"{load.key}: libtcmalloc is not installed")
        return allocator.with_library(self._env, self._library)


def _quiet(env: Mapping[str, str]) -> dict[str, str]:
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
