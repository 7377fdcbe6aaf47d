"""A feed in a launcher: it starts the processes of its host and keeps them alive, and tells readers their addresses."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from tfhet.cluster import Place, without_secrets
from tfhet.coroutines import in_thread
from tfhet.messages import link, rank
from tfhet.planes.feed.settings import PORTS, SERVER, FeedSettings
from tfhet.planes.plane import LauncherSide, Outlets
from tfhet.planes.process import with_malloc_tunables
from tfhet.planes.supervised import Died, Happening, Processes, RestartPolicy, Supervised
from tfhet.schema import Address, Message, MessageError, parse, to_json
from tfhet.telemetry import UP, Metric

RUNNING = Metric("tfhet_feeds", "gauge", "Processes of the feed that run on this host.")
RESTARTS = Metric("tfhet_restarts_total", "counter", "Restarts of a process of the feed on this host.")
HASHES = {"PYTHONHASHSEED": "0"}
"""All processes iterate over a set of texts in one order."""
SILENCE_S = 60.0
"""Seconds of silence after which a process is killed; the user's code may hold Python's lock for long."""


class Serving(Message, frozen=True):
    """The processes of a host are ready."""

    host: str
    servers: Annotated[tuple[Address, ...], Meta(min_length=1)]


class FeedLauncherSide(LauncherSide):
    def __init__(self, settings: FeedSettings, place: Place, outlets: Outlets, hosts: Sequence[str]):
        """hosts: Names of the serving hosts."""
        self._settings, self._place, self._outlets, self._hosts = settings, place, outlets, list(hosts)
        self._processes = Processes(place.host)
        self._addresses: dict[str, Sequence[str]] = {}
        self._gone: set[str] = set()
        self._lost: set[str] = set()

    @property
    def facts(self) -> Mapping[str, str]:
        return {"feeds_on": ",".join(self._hosts)}

    @property
    def _serves(self) -> bool:
        return self._place.host in self._hosts and self._place.leads_host

    async def serve(self) -> None:
        place = self._place
        if not self._serves:
            return
        numbers, address = place.ports.plane[PORTS], place.address(place.host)
        self._processes.claim(numbers)
        listen = await in_thread(place.listening, address)
        within = f"[{address}]" if ":" in address else address
        where = [f"{within}:{port}" for port in numbers]
        env = {**with_malloc_tunables(without_secrets(place.env)), **HASHES}
        for index, (port, at) in enumerate(zip(numbers, where, strict=True)):
            command = [sys.executable, "-m", SERVER, "--port", str(port), "--address", at, "--listen", listen]
            command += ["--script", str(Path(self._outlets.script).absolute())] if self._outlets.script else []
            command += ["--encrypted"] * self._settings.data_plane_encryption
            command += ["--gives_way"] * (place.rank is not None)  # to the training on the same host
            self._start(f"feed-{index}", command, env)
        await self._processes.wait_ready(self._outlets.ready_timeout_s)
        self._outlets.report(link.PlaneReport(to_json(Serving(place.host, tuple(where)))))
        raise await self._processes.failure()

    def _start(self, name: str, command: Sequence[str], env: Mapping[str, str]) -> None:
        def observe(happening: Happening) -> None:
            if isinstance(happening, Died):
                self._outlets.report_restart(self._place.host, name, happening.code, happening.cause)

        policy = replace(RestartPolicy(), silence_s=SILENCE_S)
        arguments = (name, self._place.host, command, env, self._outlets.say, observe, policy)
        self._processes.servers[name] = Supervised(*arguments, key=self._outlets.key)

    async def stop(self, grace_s: float) -> None:
        await self._processes.stop(grace_s)

    def processes(self) -> Mapping[str, int]:
        return self._processes.pids

    def metrics(self) -> Mapping[Metric, float]:
        running = float(len(self.processes()))
        if not self._serves:
            return {}
        return {UP: float(running > 0), RUNNING: running, RESTARTS: float(self._processes.restarts)}

    async def beside(self, pid: int) -> None:
        self._outlets.tell_script(rank.Key(self._outlets.key.hex()))

    def gone(self, host: str) -> None:
        """Tells the reader of this launcher's rank to give the host up, which may only look silent to it."""
        self._gone.add(host)
        self._outlets.tell_script(rank.ServingHosts(tuple(one for one in self._hosts if one not in self._gone)))

    def on_report(self, facts: Mapping[str, Any]) -> None:
        report: Serving = parse(facts, Serving)
        if report.host not in self._hosts:
            raise MessageError(f"the host {report.host!r} has no feed")
        self._addresses[report.host] = report.servers

    def missing(self) -> str | None:
        silent = [host for host in self._hosts if host not in self._addresses]
        return f"no feed on {', '.join(silent)}" if silent else None

    def order(self) -> Mapping[str, Any]:
        servers = [(address, host) for host in self._hosts for address in self._addresses[host]]
        named = {"servers": [address for address, _ in servers], "hosts": [host for _, host in servers]}
        return {**named, "encrypted": self._settings.data_plane_encryption}

    def lost(self, host: str) -> bool:
        """Readers use the other hosts as soon as they notice the loss, or learn of it by `gone`."""
        self._lost.add(host)
        return bool(set(self._hosts) - self._lost)
