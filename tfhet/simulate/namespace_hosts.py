"""Hosts as containers: each with its own network, root, process ids and limits. Needs root."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil

from tfhet import container
from tfhet.clock import SYSTEM
from tfhet.container import Bridge, Cgroup, Limits, Owner
from tfhet.control import new_secret
from tfhet.errors import JobFailed, TfhetError, UsageError
from tfhet.messages import ContainerFailureLine, parse_line
from tfhet.process import Child, describe_exit
from tfhet.simulate import host_container
from tfhet.simulate.fault import NETWORK
from tfhet.simulate.host import Env, Faults, HostBackend, Hosts, OnLine, SimulatedHost
from tfhet.simulate.submission import Submission

_NAMESPACE_S = 30.0
"""Seconds that a container may take to enter its namespaces."""


class NamespaceHosts(HostBackend):
    """Each host is a container on a bridge, in a cgroup."""

    starts_launchers = False
    cuts_batches = True

    def __init__(self, job: Submission, hosts: Hosts, env: Env, on_line: OnLine, faults: Faults = ()):
        """Raises UsageError with all features that this machine lacks, and for a fault that containers cannot have."""
        for fault in faults:
            if fault.kind == "stall" and fault.for_s is None and job.start == "toolkit":
                raise UsageError(f"fault {fault}: the toolkit waits for the reader of its output; give for= too")
            if fault.kind in NETWORK:
                container.require(NETWORK[fault.kind])
        container.require("toolkit" if job.start == "toolkit" else "namespace", _existing(hosts[0].paths.base))
        super().__init__(job, hosts, env, on_line, faults)
        for kind, purpose in NETWORK.items():
            if any(self._usual(kind, host.name) is not None for host in hosts):
                container.require(purpose)
        self._secret = new_secret()
        self._keys: Mapping[str, str] = {}
        self._scratch: Path | None = None
        self._owner: Owner | None = None
        self._bridge: Bridge | None = None
        self._attached: list[str] = []
        self._pids: dict[str, int] = {}
        self._use: dict[str, dict[str, int | None]] = {}
        self._is_limiting = job.limits_from == "start"

    @property
    def network(self) -> Bridge:
        assert self._bridge is not None
        return self._bridge

    async def open(self, channels: Mapping[str, Path]) -> None:
        for line in await asyncio.to_thread(container.sweep):
            self._say(line)
        self.channels = channels
        self._owner = container.claim()
        self._scratch = Path(tempfile.mkdtemp(prefix=".scratch-", dir=_existing(self.hosts[0].paths.base)))
        self._owner.register(self._scratch)
        self._bridge = Bridge(self._owner.tag)
        if self.job.start == "toolkit":
            self._keys = await asyncio.to_thread(host_container.ssh_files, self._scratch)

    async def start(self, host: SimulatedHost, children: dict[str, Child]) -> None:
        assert self._owner is not None and self._scratch is not None
        scratch, spec = self._scratch / host.name, self._scratch / f"{host.name}.json"
        scratch.mkdir()
        host_container.container(self, host, scratch, self._secret, self._keys).write(spec)
        cgroup = self.cgroups[host.name] = Cgroup.create(f"tfhet-{self._owner.tag}-{host.name}")
        path = host_container.with_package(self.env.get("PYTHONPATH", ""))
        words = [sys.executable, "-m", "tfhet.container.container", str(spec)]
        env = {"PATH": self.env.get("PATH", os.defpath), "PYTHONPATH": path}
        child = children[host.name] = await Child.start(host.name, words, env=env, on_line=self.on_line(host.name))
        self._pids[host.name] = child.pid
        await _isolated(child)
        try:
            # Process 1 waits for its network, so nothing runs before all of this is done.
            for process in (psutil.Process(child.pid), *psutil.Process(child.pid).children(recursive=True)):
                cgroup.add(process.pid)
            if not self._is_limiting:  # TensorFlow starts as many threads as it sees CPUs
                cgroup.limit(Limits(cpu_set=self.limits[host.name].cpu_set))
            self.network.attach(host.name, child.pid, host.address)
        except (TfhetError, psutil.Error, OSError) as error:
            async with asyncio.timeout(_NAMESPACE_S):  # if it has ended, it has printed why
                await child.stop(0.5)
            raise JobFailed(f"{_not_made(child)} ({error})", log_tail=child.tail) from error
        self._attached.append(host.name)
        if self._is_limiting:
            self._limit(host.name)

    def second_job(self, host: SimulatedHost) -> tuple[Path, Path, dict[str, str], list[str]]:
        assert self._scratch is not None
        base, first = Path("/tmp/second"), psutil.Process(self._pids[host.name]).children()[0].pid
        enter = ["nsenter", f"--target={first}", "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd"]
        environment = host_container.environment_of(self, host, new_secret())
        return self._scratch / host.name / str(base)[1:], base, environment, enter

    def limit(self) -> None:
        self._is_limiting = True
        for name in self._attached:
            self._limit(name)

    def _limit(self, name: str) -> None:
        try:
            self.not_limited |= set(self.cgroups[name].limit(self.limits[name]))
            for kind in NETWORK:
                if kind == "rate" or self._usual(kind, name) is not None:
                    self.restore(kind, name)
        except TfhetError as error:  # more memory is in use than the limit, for one
            self._say(f"[simulate] {name} is not limited: {error}")
            self.not_limited.add(f"{name}: {error}")

    def _usual(self, kind: str, name: str) -> float | None:
        """The limit of a kind of NETWORK that a host has without a fault; None: no limit."""
        limits = self.limits[name]
        return {"rate": limits.bits_per_s, "delay": limits.latency_s, "loss": limits.loss_share}[kind]

    async def impair(self, kind: str, host: str, amount: float | None) -> None:
        if kind in NETWORK:
            self._set(kind, host, amount)
        else:
            await super().impair(kind, host, amount)

    def restore(self, kind: str, host: str) -> None:
        if kind in NETWORK:
            self._set(kind, host, self._usual(kind, host))
        else:
            super().restore(kind, host)

    def _set(self, kind: str, host: str, amount: float | None) -> None:
        {"rate": self.network.limit, "delay": self.network.delay, "loss": self.network.lose}[kind](host, amount)

    async def connect(self, address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        inside = self.network.socket()
        inside.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(inside, (address, port))
        except BaseException:
            inside.close()
            raise
        return await asyncio.open_connection(sock=inside)

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "host_use": self._use}

    def _used(self, name: str) -> dict[str, int | None]:
        cgroup, sent, received = self.cgroups[name], None, None
        with contextlib.suppress(TfhetError, OSError):
            if name in self._attached:
                sent, received = self.network.bytes(name)
        return {
            "memory_peak_bytes": cgroup.memory_peak_bytes(),
            "out_of_memory_kills": cgroup.out_of_memory_kills(),
            "sent_bytes": sent,
            "received_bytes": received,
        }

    def not_made(self, children: Iterable[Child]) -> str | None:
        """See `HostBackend`. A container may fail after it got its network, so after `start`."""
        return next((_not_made(child) for child in children if _failures(child)), None)

    async def close(self) -> None:
        is_clean = True
        self._use = {name: self._used(name) for name in self.cgroups}
        for name, use in self._use.items():
            if killed := use["out_of_memory_kills"]:
                limit = self.limits[name].memory_bytes
                most = f"its memory limit of {limit / 2**20:.0f} MiB" if limit else "want of memory"
                self._say(f"[simulate] {name}: the kernel killed {killed} of its processes for {most}")
        for name, cgroup in self.cgroups.items():
            try:
                left = [f"process {pid} does not end" for pid in await asyncio.to_thread(cgroup.remove)]
            except (TfhetError, OSError) as error:
                left = [str(error)]
            is_clean &= not left
            for line in left:
                self._say(f"[simulate] {name}: {line}")
        if self._bridge is not None:
            try:
                self._bridge.close()
            except (TfhetError, OSError) as error:  # it goes with this process
                self._say(f"[simulate] the network: {error}")
        if self._scratch is not None:
            await asyncio.to_thread(shutil.rmtree, self._scratch, ignore_errors=True)
            is_clean &= not self._scratch.exists()
        if self._owner is not None:
            self._owner.release(is_clean=is_clean)

    def _say(self, line: str) -> None:
        self.on_line("simulate")(line)


async def _isolated(child: Child) -> None:
    """Waits until the child has its own network namespace. Raises JobFailed."""
    ours, until = os.readlink("/proc/self/ns/net"), SYSTEM.monotonic() + _NAMESPACE_S
    while SYSTEM.monotonic() < until:
        if child.code is not None:
            await child.wait()
            raise JobFailed(_not_made(child), log_tail=child.tail)
        with contextlib.suppress(OSError, psutil.Error):
            if os.readlink(f"/proc/{child.pid}/ns/net") != ours and psutil.Process(child.pid).children():
                return
        await asyncio.sleep(0.01)
    raise JobFailed(f"the container {child.name} has no network of its own after {_NAMESPACE_S:g} s")


def _failures(child: Child) -> list[str]:
    return [line.cause for line in map(parse_line, child.tail) if isinstance(line, ContainerFailureLine)]


def _not_made(child: Child) -> str:
    failures = _failures(child)
    why = failures[-1] if failures else describe_exit(child.code or 0, child.tail)
    return f"the container {child.name} could not be made: {why}"


def _existing(path: Path) -> Path:
    """The nearest directory above `path` that exists."""
    return next(folder for folder in path.parents if folder.is_dir())
