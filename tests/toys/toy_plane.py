"""A data plane of about 100 lines: one process on each data host sends prepared batches over TCP to the ranks.

It is the example of docs/data-planes.md. It trusts its network: whoever reaches the port gets data, which a plane for
real jobs must not allow. A host that is lost ends the job.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfhet.cluster import DATA, Place, PortRange, Role, Roles, check_free
from tfhet.errors import ClusterError, JobFailed, NotReady, shown
from tfhet.messages import link
from tfhet.planes import DataPlane, LauncherSide, Outlets, with_malloc_tunables
from tfhet.process import Child, describe_exit
from tfhet.schema import Message, MessageError, parse, to_json
from tfhet.telemetry import UP, Metric

if TYPE_CHECKING:
    from tfhet.planes import RankSide

SERVER, READY = "toy_server", "toy server: ready"


class Serving(Message, frozen=True):
    """The server of a host is ready."""

    host: str
    address: str


@dataclass(frozen=True)
class ToySettings:
    """The launcher's arguments that are this plane's own."""

    toy_port: int = 7100
    """Port of the server on each data host."""


class ToyLauncherSide(LauncherSide):
    """See `LauncherSide`."""

    def __init__(self, place: Place, outlets: Outlets, hosts: Sequence[str]):
        self._place, self._outlets, self._hosts = place, outlets, hosts
        self._child: Child | None = None
        self._addresses: dict[str, str] = {}

    @property
    def facts(self) -> Mapping[str, str]:
        return {"toy_servers": str(len(self._hosts))}

    async def serve(self) -> None:
        place, ready = self._place, asyncio.Event()
        if place.host not in self._hosts:
            return
        (port,) = place.ports.plane["server"]
        check_free(port)

        def hear(line: str) -> None:
            if line == READY:
                ready.set()
            else:
                self._outlets.say(line)

        command = [sys.executable, "-m", SERVER, place.listening(place.address(place.host)), str(port)]
        env = with_malloc_tunables(place.env)
        self._child = child = await Child.start(SERVER, command, env=env, on_line=hear)
        tasks = {asyncio.create_task(ready.wait()), asyncio.create_task(child.wait())}
        try:
            async with asyncio.timeout(self._outlets.ready_timeout_s):
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise NotReady(f"the toy server on {place.host} is not ready") from None
        finally:
            for task in tasks:
                task.cancel()
        if child.code is None:
            address = f"{place.address(place.host)}:{port}"
            self._outlets.report(link.PlaneReport(to_json(Serving(place.host, address))))
        end = describe_exit(await child.wait(), child.tail)
        raise JobFailed(f"the toy server on {place.host} ended ({end})", log_tail=child.tail)

    async def stop(self, grace_s: float) -> None:
        if self._child is not None:
            await self._child.stop(grace_s)

    def processes(self) -> Mapping[str, int]:
        return {} if self._child is None or self._child.code is not None else {SERVER: self._child.pid}

    def metrics(self) -> Mapping[Metric, float]:
        return {UP: float(len(self.processes()))} if self._place.host in self._hosts else {}

    def on_report(self, facts: Mapping[str, Any]) -> None:
        found = parse(facts, Serving)
        if found.host not in self._hosts or not is_address(found.address):
            raise MessageError(f"no toy server: {found}")
        self._addresses[found.host] = found.address

    def missing(self) -> str | None:
        silent = [host for host in self._hosts if host not in self._addresses]
        return f"no toy server on {', '.join(silent)}" if silent else None

    def order(self) -> Mapping[str, Any]:
        return {"servers": [self._addresses[host] for host in self._hosts]}

    def lost(self, host: str) -> bool:
        return False  # its batches are gone


class ToyPlane(DataPlane):
    """See `DataPlane`."""

    name = "toy"
    settings: type[Any] = ToySettings
    kinds: Mapping[str, bool] = {"toy-server": False}

    def serving(self, settings: ToySettings, roles: Roles) -> tuple[str, ...]:
        return roles.data_hosts

    def ports(self, settings: ToySettings, role: Role) -> Mapping[str, PortRange]:
        return {"server": PortRange(settings.toy_port, 1 if role == DATA else 0)}

    def host_facts(self, settings: ToySettings, role: Role) -> Mapping[str, Any]:
        return {"toy_servers": 1 if role == DATA else 0}

    def launcher_side(self, settings: ToySettings, place: Place, outlets: Outlets) -> LauncherSide:
        return ToyLauncherSide(place, outlets, self.serving(settings, place.roles))

    def rank_side(self) -> RankSide:
        from toy_reader import ToyRankSide

        return ToyRankSide()

    def check(self, order: Mapping[str, Any]) -> None:
        servers = order.get("servers")
        if not isinstance(servers, list) or not servers or not all(map(is_address, servers)):
            raise ClusterError(f"toy: servers must be a list of host:port, got {shown(servers)}")

    def kind_of(self, command: Sequence[str]) -> str | None:
        return "toy-server" if SERVER in command else None


def is_address(value: object) -> bool:
    host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    return bool(host) and port.isdigit() and 0 < int(port) < 65536


TOY = ToyPlane()
