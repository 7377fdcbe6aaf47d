"""tf.data service in one launcher: the dispatcher beside the leader, and workers on the hosts that serve.

The dispatcher runs beside the leader, whose loss ends the job anyway, so that the job can do without any data host.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfhet.clock import SYSTEM
from tfhet.cluster import Place
from tfhet.coroutines import in_thread
from tfhet.events import Event
from tfhet.messages import link, rank, server as messages
from tfhet.native import SWITCH
from tfhet.planes.cpus import Reserve, usable
from tfhet.planes.plane import LauncherSide, Outlets
from tfhet.planes.supervised import Died, Happening
from tfhet.planes.tf_service.fleet import Fleet
from tfhet.planes.tf_service.recovery import Recovery
from tfhet.planes.tf_service.settings import DISPATCHER, WORKERS, Order, ServiceSettings
from tfhet.schema import Message, parse, to_json
from tfhet.telemetry import UP, Metric

RUNNING = Metric("tfhet_workers", "gauge", "Data service workers of this host that run.")
REGISTERED = Metric("tfhet_workers_registered", "gauge", "Workers that the dispatcher of this host knows.")
RESTARTS = Metric("tfhet_restarts_total", "counter", "Restarts of a process of the data service on this host.")


class Serving(Message, frozen=True):
    """The processes of a host are ready."""

    host: str
    native: tuple[str, ...] = ()
    """Compiled ops that they have."""


class ServiceLauncherSide(LauncherSide):
    def __init__(self, settings: ServiceSettings, place: Place, outlets: Outlets, workers: Mapping[str, int]):
        """workers: their number on each host that serves, by its name."""
        self._settings, self._place, self._outlets = settings, place, outlets
        self._workers = dict(workers)
        self._fleet = Fleet(
            place.host,
            place.address(place.host),
            place.env,
            key=outlets.key,
            on_line=outlets.say,
            observe=self._happened,
            folder=place.paths.base / "tfhet",
            gives_way=place.rank is not None,  # to the training, beside which it runs
            encrypted=settings.data_plane_encryption,
        )
        self._recovery = Recovery(self._fleet, dict(workers), outlets.tell_script, self._failed, self._when_gone)
        self._watch: asyncio.Task[None] | None = None
        self._ready: set[str] = set()
        self._registered = 0
        self._native: set[str] | None = None

    @property
    def _own_workers(self) -> int:
        return self._workers.get(self._place.host, 0) if self._place.leads_host else 0

    @property
    def _dispatcher(self) -> str:
        (port,) = self._place.ports.plane[DISPATCHER]
        return f"{self._place.leader_address}:{port}"

    @property
    def facts(self) -> Mapping[str, str]:
        return {"dispatcher": self._dispatcher, "workers": str(sum(self._workers.values()))}

    async def serve(self) -> None:
        place, deadline_s = self._place, self._outlets.ready_timeout_s
        if not (place.is_leader or self._own_workers):
            return
        keep, cpus = self._settings.reserve_cpus, usable()
        if keep > 0 and self._own_workers and place.rank is not None and self._fleet.keep_off(keep) == cpus:
            self._outlets.say(f"--reserve_cpus {keep} has no effect: it would leave workers none of {len(cpus)} CPUs")
        self._fleet.listen = await in_thread(place.listening, place.address(place.host))
        if place.is_leader:
            await self._fleet.start_dispatcher(place.ports.plane[DISPATCHER][0], deadline_s)
        if self._own_workers:
            await self._fleet.start_workers(place.ports.plane[WORKERS], self._dispatcher, deadline_s)
        self._tell(Serving(place.host, tuple(sorted(self._fleet.native or ()))))
        raise await self._fleet.failure()

    async def stop(self, grace_s: float) -> None:
        await self._fleet.stop(grace_s)

    def processes(self) -> Mapping[str, int]:
        return self._fleet.pids

    def metrics(self) -> Mapping[Metric, float]:
        workers = sum(name.startswith("worker-") for name in self.processes())
        values: dict[Metric, float] = {UP: float(workers > 0)}
        if self._own_workers:
            values[RUNNING] = workers
        if self._place.is_leader:
            values[REGISTERED] = self._fleet.workers_registered
        if self._place.is_leader or self._own_workers:
            values[RESTARTS] = self._fleet.restarts
        return values

    async def beside(self, pid: int) -> None:
        self._outlets.tell_script(rank.Key(self._outlets.key.hex()))
        if self._place.is_leader:
            self._recovery.begin()

        def keep(reserve: int, used: float) -> None:
            fields = {"cpus": list(self._fleet.keep_off(reserve)), "training_uses": used}
            self._outlets.observe(Event("workers.confined", SYSTEM.wall(), fields))

        if self._settings.reserve_cpus < 0 and self._own_workers:
            await Reserve(self._place.local_size, keep).follow(pid)

    def environment(self, order: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, str]:
        native, found = Order.parse(order).native, super().environment(order, env)
        if native is not None and found.get(SWITCH) != "off":
            found[SWITCH] = ",".join(native) or "off"
        return found

    def reads(self, endlessly: bool) -> None:
        self._recovery.reads(endlessly)

    def on_report(self, facts: Mapping[str, Any]) -> None:
        report: Serving | messages.Registered = parse(facts, Serving | messages.Registered)
        if isinstance(report, Serving):
            self._ready.add(report.host)
            # A graph may hold only the compiled ops that all processes have.
            self._native = set(report.native) if self._native is None else self._native & set(report.native)
        else:
            self._registered = report.workers

    def missing(self) -> str | None:
        silent = sorted({*self._workers, self._place.host} - self._ready)
        wanted = sum(self._workers.values())
        parts = [f"no data service on {', '.join(silent)}"] if silent else []
        if self._registered < wanted:
            parts.append(f"{self._registered} of {wanted} workers are registered with the dispatcher")
        return "; ".join(parts) or None

    def order(self) -> Mapping[str, Any]:
        native = None if self._native is None else sorted(self._native)
        workers, hosts = sum(self._workers.values()), list(self._place.roles.data_hosts)
        order = {"dispatcher": self._dispatcher, "workers": workers, "data_hosts": hosts, "native": native}
        return {**order, "encrypted": self._settings.data_plane_encryption}

    def lost(self, host: str) -> bool:
        self._recovery.lost(host)
        return True

    def _happened(self, process: str, happening: Happening) -> None:
        if isinstance(happening, messages.Registered):
            self._tell(happening)
            self._recovery.expect_workers()
        elif isinstance(happening, Died):
            self._outlets.report_restart(self._place.host, process, happening.code, happening.cause)

    def _when_gone(self, hosts: Sequence[str], then: Callable[[], None]) -> None:
        self._watch = asyncio.create_task(self._see_gone(hosts, then))

    async def _see_gone(self, hosts: Sequence[str], then: Callable[[], None]) -> None:
        ports, address = self._place.ports.plane[WORKERS], self._place.address
        every = [(address(host), port) for host in hosts for port in ports]
        living = [place for place in every if await in_thread(_listens, place)]
        while living and all([await in_thread(_listens, place) for place in living]):
            await asyncio.sleep(1.0)
        then()

    def _tell(self, message: Serving | messages.Registered) -> None:
        self._outlets.report(link.PlaneReport(to_json(message)))

    def _failed(self, cause: str) -> None:
        self._outlets.report(link.Failed(1, cause))


def _listens(place: tuple[str, int]) -> bool:
    """Whether a process listens there; a frozen one does."""
    with contextlib.suppress(OSError), socket.create_connection(place, timeout=2.0):
        return True
    return False
