"""The injector: does to a simulated job what its faults say, and writes down when."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import psutil

from tfhet.errors import unknown
from tfhet.process import Child
from tfhet.simulate.fault import Fault
from tfhet.simulate.host import SimulatedHost

SERVER = "tfhet.service.server"
_POLL_S = 0.1
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
    seed: int = 0
    frozen: set[str] = field(default_factory=set)
    """Launchers, by label, that were stopped for ever, which nobody can end but the simulator."""

    def check(self) -> None:
        """Raises UsageError for a fault at a host that is not there."""
        for fault in self.faults:
            if not self._named(fault.host):
                known = [f"{kind}-{n + 1}" for kind, n in self._places()]
                unknown(f"host of fault {fault}", fault.host, [*known, *(host.name for host in self.hosts)])

    def _places(self) -> list[tuple[str, int]]:
        dnn = sum(host.group == self.dnn_group for host in self.hosts)
        return [*(("data", n) for n in range(len(self.hosts) - dnn)), *(("dnn", n) for n in range(dnn))]

    def delay_s(self, host: SimulatedHost) -> float:
        """How much later than the others this host starts."""
        return max(
            (f.after_s for f in self.faults if f.kind == "late-join" and host in self._named(f.host)), default=0.0
        )

    async def run(self) -> None:
        """Does all of it; returns when there is nothing left to do."""
        await asyncio.gather(*(self._do(fault) for fault in self.faults if fault.kind != "late-join"))

    async def _do(self, fault: Fault) -> None:
        while not self.began():
            await asyncio.sleep(_POLL_S)
        await asyncio.sleep(fault.after_s)
        order = random.Random(f"{self.seed}/{fault}")
        while True:
            if fault.kind == "bad-peer":
                await _pester(self.hosts, self.dnn_group)
                self.tell(f"fault {fault}")
            else:
                await self._harm(fault, order)
            if fault.every_s is None:
                return
            await asyncio.sleep(fault.every_s)

    async def _harm(self, fault: Fault, order: random.Random) -> None:
        found = self._processes(fault)
        while not found:  # it is being started again, perhaps
            await asyncio.sleep(_POLL_S)
            found = self._processes(fault)
        chosen = found if fault.process == "host" else [order.choice(found)]
        number = _SIGNALS[fault.kind]
        self.tell(f"fault {fault}: {number.name} to process {', '.join(str(process.pid) for process in chosen)}")
        _signal(chosen, number)
        if fault.kind != "hang":
            return
        if fault.for_s is None:
            if fault.process in ("host", "launcher"):
                stopped = {process.pid for process in chosen}
                self.frozen |= {label for label, child in self.children.items() if child.pid in stopped}
            return
        await asyncio.sleep(fault.for_s)
        _signal(chosen, signal.SIGCONT)

    def _named(self, name: str) -> list[SimulatedHost]:
        """The hosts that a fault's `data-1`, `dnn-1`, `algo-1` or "" stands for."""
        kind, _, number = name.partition("-")
        if kind in ("data", "dnn"):
            group = [host for host in self.hosts if (host.group == self.dnn_group) == (kind == "dnn")]
            return group[int(number) - 1 : int(number)] if number.isdigit() and number != "0" else []
        return [host for host in self.hosts if name in ("", host.name)]

    def _processes(self, fault: Fault) -> list[psutil.Process]:
        names = {host.name for host in self._named(fault.host)}
        found: list[psutil.Process] = []
        for label, child in self.children.items():
            if label.split("/")[0] not in names or child.code is not None:
                continue
            if fault.rank is not None and label.partition("/")[2] != str(fault.rank):
                continue
            with contextlib.suppress(psutil.Error):
                launcher = psutil.Process(child.pid)
                below = launcher.children(recursive=True)
                servers = {kind: [p for p in below if _serves(p, kind)] for kind in ("worker", "dispatcher")}
                scripts = [p for p in launcher.children() if p not in servers["worker"] + servers["dispatcher"]]
                found += {
                    "host": [launcher, *below],
                    "launcher": [launcher],
                    "script": scripts,
                    **servers,
                }[fault.process]
        return found


def _serves(process: psutil.Process, kind: str) -> bool:
    try:
        words = process.cmdline()
    except psutil.Error:
        return False
    return SERVER in words and kind in words


def _signal(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)


async def _pester(hosts: Sequence[SimulatedHost], dnn_group: str) -> None:
    """A port scan, rubbish, and connections that say nothing, at the link's port."""
    chief = next(host for host in hosts if host.group == dnn_group)
    held = []
    for index in range(60):
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(chief.address, chief.ports.control)
            if index % 3 == 0:
                writer.write(random.Random(index).randbytes(5000))
            elif index % 3 == 1:
                writer.write(b'{"type": "join", "member": "rank-1"}\n')
            held.append(writer)
    await asyncio.sleep(1.0)
    for writer in held:
        writer.close()
