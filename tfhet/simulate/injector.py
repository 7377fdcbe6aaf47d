"""The injector: does to a simulated job what its faults say, and writes down when."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import psutil

from tfhet import planes
from tfhet.clock import SYSTEM
from tfhet.cluster import environment
from tfhet.container import delay
from tfhet.container.bridge import Bridge
from tfhet.deadline import Deadline
from tfhet.errors import TfhetError, UsageError, unknown
from tfhet.process import Child
from tfhet.simulate import partition
from tfhet.simulate.fault import NETWORK, Fault
from tfhet.simulate.host import SimulatedHost
from tfhet.simulate.population import Population, lives
from tfhet.simulate.slow_disk import SlowDisk

_POLL_S = 0.1
_CONNECT_S = 2.0
STARVED_S = 3.0
"""So long a process without more memory may go on with what it has."""
_SIGNALS = {"kill": signal.SIGKILL, "hang": signal.SIGSTOP, "sigterm": signal.SIGTERM}


@dataclass
class Injector:
    """Faults of one run. `children`: the launchers by label, `host` or `host/rank`; filled while the hosts start."""

    faults: Sequence[Fault]
    hosts: Sequence[SimulatedHost]
    dnn_group: str
    children: Mapping[str, Child]
    began: Callable[[], bool]
    """Whether training has begun."""
    tell: Callable[[str], None]
    network: partition.Network | Bridge | None = None
    """Where hosts can be cut off."""
    usual: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    """What a host's network is limited to without a fault, by what a kernel does it with (`fault.NETWORK`) and host
    name; None: not at all."""
    disks: Mapping[str, SlowDisk] = field(default_factory=dict)
    """By host name, of those that a fault makes slow."""
    contained: bool = False
    """Whether what was started for a host is a container, not a launcher."""
    seed: int = 0
    frozen: set[str] = field(default_factory=set)
    """Launchers, by label, that were stopped for ever, which nobody can end but the simulator."""

    def check(self) -> None:
        """Raises UsageError for a fault at what is not there."""
        ranks = sum(host.ranks for host in self.hosts if host.group == self.dnn_group)
        for fault in self.faults:
            hosts = self.named(fault.host)
            if not hosts:
                known = [f"{kind}-{n + 1}" for kind, n in self._places()]
                names = {name: None for host in self.hosts for name in (host.name, host.group)}
                unknown(f"host of fault {fault}", fault.host, [*known, *names])
            if fault.rank is not None and fault.rank >= ranks:
                unknown(f"rank of fault {fault}", fault.rank, range(ranks))
            is_alone = planes.kinds().get(fault.process)
            if is_alone is False and not any(host.serves for host in hosts):
                where = ", ".join(host.name for host in self.hosts if host.serves) or "on no host"
                raise UsageError(f"fault {fault}: no {fault.process} runs there; hosts that have one: {where}")
            if is_alone and self.hosts and _chief(self.hosts, self.dnn_group) not in hosts:
                raise UsageError(f"fault {fault}: the {fault.process} runs on dnn-1")
            if fault.kind == "partition" and len(hosts) == len(self.hosts):
                raise UsageError(f"fault {fault}: that is every host of the cluster; nobody can be cut off from them")

    def of_kind(self, kind: str) -> set[str]:
        """Names of the hosts that a fault of this kind, which is one of a host, is done to."""
        return {host.name for fault in self.faults if fault.kind == kind for host in self.named(fault.host)}

    def _places(self) -> list[tuple[str, int]]:
        counts = Counter(host.role for host in self.hosts)
        return [(role, number) for role in sorted(counts) for number in range(counts[role])]

    def delay_s(self, host: SimulatedHost) -> float:
        """How much later than the others this host starts."""
        return max(
            (f.after_s for f in self.faults if f.kind == "late-join" and host in self.named(f.host)), default=0.0
        )

    async def run(self) -> None:
        """Does all of it; returns when there is nothing left to do."""
        await asyncio.gather(*(self._try(fault) for fault in self.faults if fault.kind != "late-join"))

    async def _try(self, fault: Fault) -> None:
        try:
            await self._do(fault)
        except (TfhetError, OSError, psutil.Error) as error:  # the others are done all the same
            self.tell(f"could not be done: fault {fault}: {error}")

    async def _do(self, fault: Fault) -> None:
        while not self.began():
            await asyncio.sleep(_POLL_S)
        await asyncio.sleep(fault.after_s)
        order = random.Random(f"{self.seed}/{fault}")
        while True:
            await self._harm(fault, order)
            if fault.every_s is None:
                return
            await asyncio.sleep(fault.every_s)

    async def _harm(self, fault: Fault, order: random.Random) -> None:
        if fault.kind == "bad-peer":
            await self._pester(_chief(self.hosts, self.dnn_group))
            self.tell(f"fault {fault}")
        elif fault.kind == "partition":
            await self._cut_off(fault, self.named(fault.host))
        elif fault.kind in NETWORK:
            await self._harm_network(fault, self.named(fault.host))
        elif fault.kind == "slow-disk":
            for host in self.named(fault.host):
                await self._slow_down(fault, host)
        else:
            await self._strike(fault, order)

    async def _strike(self, fault: Fault, order: random.Random) -> None:
        """What is done to processes."""
        found = self._processes(fault)
        while not found:  # it is being started again, perhaps
            await asyncio.sleep(_POLL_S)
            found = self._processes(fault)
        chosen = found if fault.process == "host" else [order.choice(found)]
        if fault.kind == "oom":
            await self._starve(fault, chosen[0])
            return
        number = _SIGNALS[fault.kind]
        self.tell(f"fault {fault}: {number.name} to process {', '.join(str(process.pid) for process in chosen)}")
        _signal(chosen, number)
        if fault.kind != "hang":
            return
        if fault.for_s is None:
            if fault.process in ("host", "launcher"):
                stopped = {process.pid for process in chosen}
                self.frozen |= {label for label, pids in self._labels().items() if pids & stopped}
            return
        await asyncio.sleep(fault.for_s)
        _signal(chosen, signal.SIGCONT)

    async def _starve(self, fault: Fault, process: psutil.Process) -> None:
        with contextlib.suppress(psutil.Error):
            has_bytes = process.memory_info().vms
            self.tell(f"fault {fault}: process {process.pid} gets no memory beyond its {has_bytes >> 20} MiB")
            process.rlimit(psutil.RLIMIT_AS, (has_bytes, has_bytes))
        until = SYSTEM.monotonic() + STARVED_S
        while lives(process):
            if SYSTEM.monotonic() > until:
                self.tell(f"fault {fault}: process {process.pid} lives on; SIGKILL, as from the kernel")
                _signal([process], signal.SIGKILL)
                return
            await asyncio.sleep(_POLL_S)
        self.tell(f"fault {fault}: process {process.pid} died of it")

    async def _cut_off(self, fault: Fault, hosts: Sequence[SimulatedHost]) -> None:
        assert self.network is not None
        names = [host.name for host in hosts]
        # Forwarders leave the way from worker to rank open; a bridge does not.
        kinds = [kind for kind, is_alone in planes.kinds().items() if not is_alone]
        is_forwarded = isinstance(self.network, partition.Network)
        workers = [Fault("hang", kind, name) for name in names for kind in kinds if is_forwarded]
        self.tell(f"fault {fault}: {', '.join(names)} cut off")
        self.network.cut(names)
        stopped: list[psutil.Process] = []
        until = SYSTEM.monotonic() + (fault.for_s if fault.for_s is not None else float("inf"))
        try:
            while (left_s := until - SYSTEM.monotonic()) > 0:
                found = [process for each in workers for process in self._processes(each)]
                fresh = [process for process in found if process not in stopped]
                _signal(fresh, signal.SIGSTOP)  # one that its launcher started meanwhile is cut off, too
                stopped += fresh
                await asyncio.sleep(min(_POLL_S, left_s))
        finally:
            _signal(stopped, signal.SIGCONT)
            self.network.heal(names)

    async def _harm_network(self, fault: Fault, hosts: Sequence[SimulatedHost]) -> None:
        bridge = self.network
        assert isinstance(bridge, Bridge)
        self.tell(f"fault {fault}: {', '.join(host.name for host in hosts)}")

        usual = self.usual.get(NETWORK[fault.kind], {})
        set_to = {"loss": bridge.lose, "delay": bridge.delay, "rate": bridge.limit}[fault.kind]

        if fault.kind == "delay":  # what a kernel without netem needs takes a while to compile
            with contextlib.suppress(TfhetError):
                await asyncio.to_thread(delay.build, environment())
        for host in hosts:
            set_to(host.name, fault.amount)
        if fault.for_s is not None:
            await asyncio.sleep(fault.for_s)
            for host in hosts:
                set_to(host.name, usual.get(host.name))

    async def _slow_down(self, fault: Fault, host: SimulatedHost) -> None:
        disk = self.disks[host.name]
        disk.slow()
        self.tell(f"fault {fault}: reads on {host.name} are slow")
        if fault.for_s is not None:
            await asyncio.sleep(fault.for_s)
            disk.heal()

    def _labels(self) -> dict[str, set[int]]:
        """Process ids by label."""
        below = {label: Population.below(child.pid) for label, child in self.children.items() if child.code is None}
        return {label: {process.pid for process in there.everything} for label, there in below.items()}

    def named(self, name: str) -> list[SimulatedHost]:
        """The hosts that a fault's `data-1`, `dnn-1`, `algo-1`, name of a group, or "" stands for."""
        kind, _, number = name.partition("-")
        group = [host for host in self.hosts if host.role == kind]
        if number and group:
            return group[int(number) - 1 : int(number)] if number.isdigit() and number != "0" else []
        return [host for host in self.hosts if name in ("", host.name, host.group)]

    def _processes(self, fault: Fault) -> list[psutil.Process]:
        names = {host.name for host in self.named(fault.host)}
        found: list[psutil.Process] = []
        for label, child in sorted(self.children.items()):
            if label.split("/")[0] not in names or child.code is not None:
                continue
            there = Population.below(child.pid, is_launcher=not self.contained)
            if fault.process == "host":
                # A platform tells whom it started.
                found += there.everything[:1] if fault.kind == "sigterm" else there.everything
            elif fault.process == "launcher":
                found += there.launchers.values()
            elif fault.process == "script":
                found += there.scripts(fault.rank)
            else:
                found += there.servers(fault.process)
        return found

    async def _pester(self, chief: SimulatedHost) -> None:
        """A port scan, rubbish, and connections that say nothing, at the link's port."""
        held: list[asyncio.StreamWriter] = []
        try:
            for index in range(60):
                with contextlib.suppress(OSError, asyncio.TimeoutError):
                    async with Deadline(_CONNECT_S):
                        writer = await self._connect(chief)
                    held.append(writer)
                    if index % 3 == 0:
                        writer.write(random.Random(index).randbytes(5000))
                    elif index % 3 == 1:
                        writer.write(b'{"type": "join", "member": "rank-1"}\n')
            await asyncio.sleep(1.0)
        finally:
            for writer in held:
                writer.close()

    async def _connect(self, chief: SimulatedHost) -> asyncio.StreamWriter:
        there = (chief.address, chief.ports.control)
        if not isinstance(self.network, Bridge):
            return (await asyncio.open_connection(*there))[1]
        inside = self.network.socket()
        inside.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(inside, there)
        except BaseException:
            inside.close()
            raise
        return (await asyncio.open_connection(sock=inside))[1]


def _signal(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)


def _chief(hosts: Sequence[SimulatedHost], dnn_group: str) -> SimulatedHost:
    return next(host for host in hosts if host.group == dnn_group)
