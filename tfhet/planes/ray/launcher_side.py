"""The Ray cluster of a job in a launcher: it keeps the node of its host alive and tells readers the addresses.

The head runs on the leader's host, whose loss ends the job anyway. A node that dies is restarted and joins again; Ray
repeats its lost work. But a rank that Ray did not start ends with the node of its host, and so does the job. If a whole
host is lost, Ray continues with the others.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from tfhet.cluster import DNN, LISTEN_VARIABLE, Place, without_secrets
from tfhet.coroutines import in_thread
from tfhet.errors import NotReady, UsageError, shown
from tfhet.messages import link, server as messages
from tfhet.planes.plane import LauncherSide, Outlets
from tfhet.planes.ray.private import SPILLED, STORED
from tfhet.planes.ray.settings import DASHBOARD, HEAD, NODES, Capacity, RaySettings
from tfhet.planes.ray.start import (
    ADVICE,
    DASHBOARD_HOST,
    LOOPBACK,
    SCRIPT,
    NodeStart,
    efa_variables,
    end_marked,
    listening_at,
    mark,
    tls_variables,
    token_variables,
    variables,
    write_certificates,
)
from tfhet.planes.supervised import Died, Happening, Processes, RestartPolicy, Supervised
from tfhet.schema import Amount, Count, Message, MessageError, parse, to_json
from tfhet.telemetry import UP, Metric, gpu_count
from tfhet.units import MB

RUNNING = Metric("tfhet_ray_nodes", "gauge", "Nodes of Ray that run on this host.")
RESTARTS = Metric("tfhet_restarts_total", "counter", "Restarts of the node of Ray on this host.")
STORE = Metric("tfhet_ray_object_store_bytes", "gauge", "Bytes in the object store of this host's node of Ray.")
SPILLS = Metric("tfhet_ray_spilled_bytes_total", "counter", "Bytes that this host's node of Ray has spilled to disk.")
SILENCE_S = 60.0
"""Seconds of silence after which a node is killed; tasks may use all CPUs of its host."""


class Serving(Message, frozen=True):
    """The node of a host is ready."""

    host: str
    ip: str
    cpus: Count
    """Number of CPUs that it offers."""

    def __post_init__(self) -> None:
        ip_address(self.ip)


class Peaks(Message, frozen=True):
    """The maximum use of the node of a host so far."""

    host: str
    object_store_bytes: Amount
    spilled_bytes: Amount


class RayLauncherSide(LauncherSide):
    def __init__(self, settings: RaySettings, place: Place, outlets: Outlets):
        self._settings, self._place, self._outlets = settings, place, outlets
        self._token = token_variables(outlets.key)
        self._processes = Processes(place.host)
        self._folder = place.paths.base / "tfhet" / f"ray-{place.host}"
        self._tls = tls_variables(self._folder) if settings.data_plane_encryption else {}
        self._use: dict[str, float] = {}
        self._peak_use: dict[str, float] = {}
        self._reported: dict[str, float] = {}
        self._peaks: dict[str, dict[str, float]] = {}
        self._nodes: dict[str, str] = {}
        self._preparing: set[str] = set()

    @property
    def _hosts(self) -> tuple[str, ...]:
        return (*self._place.roles.dnn_hosts, *self._place.roles.other_hosts)

    @property
    def facts(self) -> Mapping[str, str]:
        return {"ray_head": self._place.roles.dnn_hosts[0]}

    async def serve(self) -> None:
        place = self._place
        if not place.leads_host:
            return
        (head_port,), ports = place.ports.plane[HEAD], place.ports.plane[NODES]
        self._processes.claim((*([head_port] if place.is_leader else []), *ports))
        ip = await in_thread(_ip_of, "127.0.0.1" if place.is_alone else place.address(place.host))
        head = ip if place.is_leader else await in_thread(_ip_of, place.leader_address)
        role = place.roles.current
        capacity = Capacity.of(self._settings, role, bool(place.roles.data_hosts), gpu_count(place.env))
        await in_thread(_new, self._folder)
        if self._tls:
            await in_thread(write_certificates, self._folder, self._outlets.key, ip)
        labels = {"tfhet-group": place.identity.current_group, "tfhet-role": role.name}
        dashboard = self._settings.ray_dashboard and place.is_leader
        within = f"[{head}]:{head_port}" if ":" in head else f"{head}:{head_port}"
        start = NodeStart(ip, within, ports, capacity, labels, place.is_leader, dashboard)
        command = start.command(self._folder, self._outlets.ready_timeout_s)
        env = {**variables(without_secrets(place.env), self._token), **self._tls, **mark(self._folder)}
        env |= await in_thread(self._listening_at, ip)
        env |= efa_variables(place.identity.cluster.network_interface, env)
        policy = replace(RestartPolicy(), silence_s=SILENCE_S, **({"limit": 0} if role == DNN else {}))
        arguments = ("ray", place.host, command, env, self._say, self._happened, policy)
        self._processes.servers["ray"] = Supervised(*arguments)
        await self._processes.wait_ready(self._outlets.ready_timeout_s)
        self._outlets.report(link.PlaneReport(to_json(Serving(place.host, ip, capacity.cpus))))
        if dashboard:
            self._outlets.say(f"Ray's dashboard: http://{DASHBOARD_HOST}:{ports[DASHBOARD]}, on this host only")
        raise await self._processes.failure()

    def _say(self, line: str) -> None:
        if not ADVICE.search(line):
            self._outlets.say(line)

    def _listening_at(self, ip: str) -> Mapping[str, str]:
        env, ports = self._place.env, self._place.ports.plane
        if env.get(LISTEN_VARIABLE) in ("0.0.0.0", "::"):
            return {}
        return listening_at(ip, ports[HEAD], ports[NODES], env, self._outlets.say)

    def _happened(self, happening: Happening) -> None:
        if isinstance(happening, messages.Used):
            peaks = {name: max(value, self._peak_use.get(name, 0.0)) for name, value in happening.figures.items()}
            if any(value - self._reported.get(name, 0.0) >= MB for name, value in peaks.items()):
                self._reported = peaks
                self._outlets.report(link.PlaneReport(to_json(Peaks(self._place.host, **peaks))))
            self._peak_use, self._use = peaks, dict(happening.figures)
        if isinstance(happening, Died):
            self._outlets.report_restart(self._place.host, "ray", happening.code, happening.cause)

    async def stop(self, grace_s: float) -> None:
        has_begun = bool(self._processes.servers)
        await self._processes.stop(grace_s)
        if has_begun:
            await in_thread(end_marked, self._folder)
            await in_thread(shutil.rmtree, self._folder, True)

    def processes(self) -> Mapping[str, int]:
        return self._processes.pids

    def metrics(self) -> Mapping[Metric, float]:
        running = float(len(self.processes()))
        if not self._place.leads_host:
            return {}
        used = {STORE: self._use.get(STORED, 0.0), SPILLS: self._use.get(SPILLED, 0.0)}
        return {UP: running, RUNNING: running, RESTARTS: float(self._processes.restarts), **used}

    def environment(self, order: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, str]:
        # The script's process serves objects too.
        own = {**self._listening_at(str(order["nodes"][self._place.host])), **self._token, **self._tls, **SCRIPT}
        return {**super().environment(order, env), **own, "RAY_ADDRESS": str(order["address"])}

    # In the leader

    def on_report(self, facts: Mapping[str, Any]) -> None:
        report: Serving | Peaks = parse(facts, Serving | Peaks)
        if report.host not in self._hosts:
            raise MessageError(f"the host {shown(report.host)} has no node of Ray")
        if isinstance(report, Peaks):
            self._peaks[report.host] = {f"{STORED}_peak": report.object_store_bytes, SPILLED: report.spilled_bytes}
            return
        self._nodes[report.host] = report.ip
        if report.cpus:
            self._preparing.add(report.host)

    def use(self) -> Mapping[str, Mapping[str, float]]:
        return self._peaks

    def missing(self) -> str | None:
        silent = [host for host in self._hosts if host not in self._nodes]
        return f"no node of Ray on {', '.join(silent)}" if silent else None

    def order(self) -> Mapping[str, Any]:
        ip, (port,) = self._nodes[self._place.host], self._place.ports.plane[HEAD]
        address = f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"
        return {"address": address, "nodes": dict(self._nodes), "preparing": sorted(self._preparing)}

    def lost(self, host: str) -> bool:
        """Ray repeats the lost work on other nodes; the job cannot continue if no other host offers CPUs."""
        self._preparing.discard(host)
        return bool(self._preparing)


def _ip_of(address: str) -> str:
    """Returns the IP address of a host. Raises UsageError for a name that this host cannot resolve."""
    try:
        found = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"this host cannot resolve the address {shown(address)}: {error}") from None
    ip = sorted({str(one[4][0]) for one in found}, key=lambda ip: (":" in ip, ip))[0]
    return LOOPBACK if ip == "127.0.0.1" else ip


def _new(folder: Path) -> None:
    """Makes an empty folder for a node, which only this user may enter. Raises NotReady."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise NotReady(f"the folder of Ray's node cannot be made: {error}") from None
