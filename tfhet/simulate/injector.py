"""Injects the faults of a simulated job, and reports when."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import psutil

from tfhet import planes
from tfhet.clock import SYSTEM
from tfhet.errors import TfhetError
from tfhet.process import Child, lives
from tfhet.simulate.fault import CUTS, IMPAIRMENTS, ONCE, Fault
from tfhet.simulate.host import HostBackend, SimulatedHost, hosts_named
from tfhet.simulate.other_jobs import damage_newest, leave_earlier_job, run_second_job, visit
from tfhet.simulate.targets import Population, Targets

_POLL_S = 0.1
STARVED_S = 3.0
"""Seconds that a process may run without more memory before it is killed."""
_SIGNALS = {"kill": signal.SIGKILL, "hang": signal.SIGSTOP, "sigterm": signal.SIGTERM}


@dataclass
class Injector:
    faults: Sequence[Fault]
    targets: Targets
    backend: HostBackend
    children: Mapping[str, Child]
    """The launchers or containers by label, `host` or `host/rank`; filled while the hosts start."""
    has_come: Callable[[str], bool]
    """Whether one of `fault.MOMENTS` has been reached."""
    report: Callable[[str], None]
    """Receives a line for each fault that was, or could not be, injected."""
    seed: int = 0
    frozen: set[str] = field(default_factory=set)
    """Labels of launchers that were stopped for good, which only the simulator can end."""

    def delay_s(self, host: SimulatedHost) -> float:
        """Seconds that a host starts after the others."""
        late = [fault for fault in self.faults if fault.kind == "late-join"]
        return max((fault.after_s for fault in late if host in self._hosts(fault)), default=0.0)

    def prepare(self, host: SimulatedHost) -> None:
        """Injects the faults before the start of a host."""
        for fault in self.faults:
            if fault.kind == "same-base" and host in self._hosts(fault):
                leave_earlier_job(host.paths, self.backend.job.checkpoints)
                self.report(f"fault {fault}: {host.name}")

    def conclude(self) -> None:
        """Injects the faults after the end of the job."""
        for fault in self.faults:
            if fault.kind == "half-checkpoint":
                folder = self.backend.job.checkpoints or self._hosts(fault)[0].paths.checkpoints
                done = damage_newest(folder, random.Random(f"{self.seed}/{fault}"))
                self.report(f"fault {fault}: {done}" if done else f"could not be done: fault {fault}: no checkpoint")

    async def run(self) -> None:
        """Injects all other faults at their moments."""
        await asyncio.gather(*(self._repeat(fault) for fault in self.faults if fault.kind not in ONCE))

    async def _repeat(self, fault: Fault) -> None:
        while not self.has_come(fault.since):
            await asyncio.sleep(_POLL_S)
        await asyncio.sleep(fault.after_s)
        order = random.Random(f"{self.seed}/{fault}")
        try:
            await self._inject(fault, order)
            while fault.every_s is not None:
                await asyncio.sleep(fault.every_s)
                await self._inject(fault, order)
        except (TfhetError, OSError, psutil.Error) as error:  # the other faults are injected all the same
            self.report(f"could not be done: fault {fault}: {error}")

    async def _inject(self, fault: Fault, order: random.Random) -> None:
        if fault.kind == "stranger":
            await self._visit(fault, order)
        elif fault.kind in CUTS:
            await self._cut_off(fault)
        elif fault.kind in IMPAIRMENTS:
            await self._impair(fault)
        elif fault.kind == "stall":
            await self._stall(fault)
        elif fault.kind == "second-job":
            self.report(f"fault {fault}")
            for host in self._hosts(fault):
                self.report(f"fault {fault}: {await run_second_job(self.backend, host)}")
        else:
            await self._signal_processes(fault, order)

    async def _signal_processes(self, fault: Fault, order: random.Random) -> None:
        while not (found := self._processes(fault)):  # it may be restarting
            await asyncio.sleep(_POLL_S)
        chosen = found if fault.process == "host" else [order.choice(found)]
        if fault.kind == "oom":
            await self._starve(fault, chosen[0])
            return
        number = _SIGNALS[fault.kind]
        self.report(f"fault {fault}: {number.name} to process {', '.join(str(process.pid) for process in chosen)}")
        if number is signal.SIGKILL:  # or a process would act on the end of another one before its own
            _signal(chosen, signal.SIGSTOP)
        _signal(chosen, number)
        if fault.kind != "hang":
            return
        if fault.for_s is None:
            if fault.process in ("host", "launcher"):
                running = [(label, child.pid) for label, child in self.children.items() if child.code is None]
                self.frozen |= {label for label, pid in running if {*Population.below(pid).everything} & {*chosen}}
            return
        await asyncio.sleep(fault.for_s)
        _signal(chosen, signal.SIGCONT)

    async def _starve(self, fault: Fault, process: psutil.Process) -> None:
        with contextlib.suppress(psutil.Error):
            has_bytes = process.memory_info().vms
            self.report(f"fault {fault}: process {process.pid} gets no memory beyond its {has_bytes >> 20} MiB")
            process.rlimit(psutil.RLIMIT_AS, (has_bytes, has_bytes))
        until = SYSTEM.monotonic() + STARVED_S
        while lives(process):
            if SYSTEM.monotonic() > until:
                self.report(f"fault {fault}: process {process.pid} lives on; SIGKILL, as from the kernel")
                _signal([process], signal.SIGKILL)
                return
            await asyncio.sleep(_POLL_S)
        self.report(f"fault {fault}: process {process.pid} died of it")

    async def _cut_off(self, fault: Fault) -> None:
        names = [host.name for host in self._hosts(fault)]
        kinds = [kind for kind, is_alone in planes.kinds().items() if not is_alone and not self.backend.cuts_batches]
        serving = [Fault("hang", kind, name) for name in names for kind in kinds]
        direction = fault.kind.partition("-")[2]
        self.report(f"fault {fault}: {', '.join(names)} cut off")
        self.backend.network.cut(names, direction)
        stopped: list[psutil.Process] = []
        until = SYSTEM.monotonic() + (fault.for_s if fault.for_s is not None else float("inf"))
        try:
            while (left_s := until - SYSTEM.monotonic()) > 0:
                found = [process for each in serving for process in self._processes(each)]
                fresh = [process for process in found if process not in stopped]
                _signal(fresh, signal.SIGSTOP)  # including processes that were started meanwhile
                stopped += fresh
                await asyncio.sleep(min(_POLL_S, left_s))
        finally:
            _signal(stopped, signal.SIGCONT)
            self.backend.network.heal(names, direction)

    async def _impair(self, fault: Fault) -> None:
        names = [host.name for host in self._hosts(fault)]
        self.report(f"fault {fault}: {', '.join(names)}")
        for name in names:
            await self.backend.impair(fault.kind, name, fault.amount)
        if fault.for_s is not None:
            await asyncio.sleep(fault.for_s)
            for name in names:
                self.backend.restore(fault.kind, name)

    async def _stall(self, fault: Fault) -> None:
        self.report(f"fault {fault}")
        names = [host.name for host in self._hosts(fault)]
        stalled = [child for label, child in self.children.items() if label.split("/")[0] in names]
        for is_read in (False, True):
            for child in stalled:
                child.read_output(is_read)
            await asyncio.sleep(float("inf") if fault.for_s is None else fault.for_s * (not is_read))

    def _hosts(self, fault: Fault) -> list[SimulatedHost]:
        return hosts_named(self.targets.hosts, fault.host)

    def _processes(self, fault: Fault) -> list[psutil.Process]:
        names = {host.name for host in self._hosts(fault)}
        found: list[psutil.Process] = []
        for label, child in sorted(self.children.items()):
            if label.split("/")[0] not in names or child.code is not None:
                continue
            there = Population.below(child.pid, is_launcher=self.backend.starts_launchers)
            if fault.process == "host":
                # A platform sends SIGTERM to what it started.
                found += there.everything[:1] if fault.kind == "sigterm" else there.everything
            elif fault.process == "launcher":
                found += there.launchers.values()
            elif fault.process == "script":
                found += there.scripts(fault.rank)
            else:
                found += there.servers(fault.process)
        return found

    async def _visit(self, fault: Fault, order: random.Random) -> None:
        self.report(f"fault {fault}")
        for host in self._hosts(fault):
            for port in self.targets.ports(host):
                found = await visit(self.backend.connect, host.address, port, order.randrange(1 << 32))
                self.report(f"fault {fault}: port {port}: {found}")


def _signal(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)
