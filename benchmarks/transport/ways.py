"""Sets up other ways to move the same bytes, and tf.data service with other allocators."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.peers.place import INSTALL, NONE, Place
from benchmarks.transport import allocator
from benchmarks.transport.allocator import SMALL_PAGES, TCMALLOC
from tfhet.bench.child_process import AnsweringProcess
from tfhet.bench.wire.lane import CLIENTS, WORKERS, Lane
from tfhet.bench.wire.load import PLAIN, Load
from tfhet.bench.wire.ways import GRACE_S, Ways, quiet
from tfhet.cluster import environment
from tfhet.errors import UsageError, unknown
from tfhet.planes import with_malloc_tunables

RAW_SOCKET, RAW_GRPC = "raw_socket", "raw_grpc"
SERVICE, FEED = "service_", "feed"
SERVICE_OPEN = f"{SERVICE}open"
END = "benchmarks.transport.end"


@dataclass(frozen=True)
class Rival:
    """Another way to move the same bytes."""

    name: str
    """Its part of a figure's name."""
    imports: tuple[str, ...]
    """Modules that have to be there."""
    receiver: str
    """The end that takes: MODULE:FUNCTION, as `benchmarks.transport.end` opens it."""
    sender: str | None = None
    """The end that gives; None where the other starts processes of its own for that."""
    requires: tuple[str, ...] = ()
    """Packages that `--peers install` puts into a folder of its own; () for those of this environment."""
    dependencies: bool = True
    """Whether that includes what the packages ask for."""
    scales: bool = False
    """Whether several senders and receivers can take part, as many as workers and ranks of a load."""

    def missing(self) -> str | None:
        """Why it cannot be measured; None when it can."""
        if self.requires:
            return Place.of(self).missing()
        for name in self.imports:
            if importlib.util.find_spec(name) is None:
                return f"No module named {name!r}"
        return None

    def environment(self) -> Mapping[str, str]:
        """The environment of its processes, which have the allocator of a job's: for all ways alike."""
        return with_malloc_tunables(Place.of(self).environment() if self.requires else environment())


_HERE = "benchmarks.transport"
RIVALS = (
    *(
        Rival(f"{SERVICE}{way}", (), f"{_HERE}.service:receive_{way}", f"{_HERE}.service:send_{way}")
        for way in ("open", "encrypted", "shared")
    ),
    Rival(RAW_SOCKET, (), f"{_HERE}.raw_socket:receive", f"{_HERE}.raw_socket:send"),
    Rival("tls_socket", ("cryptography",), f"{_HERE}.tls_socket:receive", f"{_HERE}.tls_socket:send"),
    Rival(FEED, (), f"{_HERE}.feed:receive", f"{_HERE}.feed:send", scales=True),
    Rival(
        f"{FEED}_encrypted",
        ("cryptography",),
        f"{_HERE}.feed:receive_encrypted",
        f"{_HERE}.feed:send_encrypted",
        scales=True,
    ),
    Rival("zeromq", ("zmq",), f"{_HERE}.zeromq:receive", f"{_HERE}.zeromq:send"),
    Rival(RAW_GRPC, ("grpc",), f"{_HERE}.raw_grpc:receive", f"{_HERE}.raw_grpc:send"),
    Rival("grpc_stream", ("grpc",), f"{_HERE}.grpc_stream:receive", f"{_HERE}.grpc_stream:send"),
    Rival(
        "arrow_flight",
        ("pyarrow.flight",),
        f"{_HERE}.arrow_flight:receive",
        f"{_HERE}.arrow_flight:send",
        requires=("pyarrow==25.0.1",),
    ),
    Rival("torch", ("torch",), f"{_HERE}.torch_loader:read"),
    Rival("ray", ("ray.data",), f"{_HERE}.ray_data:read", requires=("ray[data]==2.60.0",)),
)


def rivals(option: str) -> tuple[Rival, ...]:
    """The rivals that `--peers` names: all for "" and `install`, none for `none`. Raises UsageError for an unknown
    one."""
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


def shapes(rival: Rival, loads: Sequence[Load]) -> list[tuple[int, int]]:
    """Numbers of senders and receivers with which a rival is measured beside these loads."""
    found = {(load.workers, load.ranks): None for load in loads if load.compression == PLAIN}
    return [*found] if rival.scales and found else [(1, 1)]


def suffix(workers: int, ranks: int) -> str:
    """Last part of a figure's name."""
    return "".join(f".{name}_{count}" for name, count in (("workers", workers), ("ranks", ranks)) if count > 1)


class PeerWays(Ways):
    """Lanes of tf.data service, and one of each rival for the same size."""

    def __init__(self, others: Sequence[Rival] = (), library: Path | None = None):
        """library: that of tcmalloc, for loads that ask for it."""
        super().__init__()
        self._others, self._library = others, library

    async def open(self, loads: Sequence[Load], size: str) -> list[Lane]:
        lanes = await super().open(loads, size)
        asked = [(rival, shape) for rival in self._others for shape in shapes(rival, loads)]
        return [*lanes, *[await self._rival(rival, size, *shape) for rival, shape in asked]]

    def environment(self, load: Load) -> Mapping[str, str]:
        """The environment with the load's allocator. Raises UsageError where that is not installed."""
        if load.allocator == TCMALLOC:
            if self._library is None:
                raise UsageError(f"{load.key}: libtcmalloc is not installed")
            return allocator.with_library(quiet(environment()), self._library)
        env = quiet(environment()) | (allocator.IN_SMALL_PAGES if load.allocator == SMALL_PAGES else {})
        return with_malloc_tunables(env)

    def ready(self, load: Load, pids: Mapping[str, int], readers: Sequence[AnsweringProcess]) -> Lane:
        lane = super().ready(load, pids, readers)
        if self._library is not None and load.allocator == TCMALLOC:
            for pid in (*pids.values(), *(reader.pid for reader in readers)):
                allocator.check_runs_with(pid, self._library)
        return lane

    def _end(self, process: AnsweringProcess) -> None:
        """Ends a process with those that it has started."""
        below: list[psutil.Process] = []
        with contextlib.suppress(psutil.Error):
            below = psutil.Process(process.pid).children(recursive=True)
        super()._end(process)
        for child in below:
            with contextlib.suppress(psutil.Error):
                child.kill()
        psutil.wait_procs(below, timeout=GRACE_S)

    async def _rival(self, rival: Rival, size: str, workers: int, ranks: int) -> Lane:
        count, env = Load("uint8", size).bytes, quiet(rival.environment())
        senders = [] if rival.sender is None else [self.end(env, END, rival.sender) for _ in range(workers)]
        told = [await asyncio.to_thread(sender.ask, {"open": {"size": count}}) for sender in senders]
        where = (
            {"ports": [one["port"] for one in told], "ranks": ranks} if rival.scales else {**told[0]} if told else {}
        )
        receivers = [self.end(env, END, rival.receiver) for _ in range(ranks)]
        for rank, receiver in enumerate(receivers):
            own = {"rank": rank} if rival.scales else {}
            found = await asyncio.to_thread(receiver.ask, {"open": {"size": count, **where, **own}})
        sides = {
            CLIENTS: [receiver.pid for receiver in receivers],
            WORKERS: found.get("workers", [sender.pid for sender in senders]),
        }
        key = f"{rival.name}.{size}{suffix(workers, ranks)}"
        return Lane(key, count, receivers, sides, ahead=int(found.get("ahead", 0)))
