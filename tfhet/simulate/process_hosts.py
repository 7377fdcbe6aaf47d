"""Hosts as process trees on this machine. Needs no root."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfhet.container import Partitions
from tfhet.control import SECRET_VARIABLE, new_secret
from tfhet.errors import UsageError
from tfhet.process import Child
from tfhet.simulate.fault import NETWORK
from tfhet.simulate.host import Env, Faults, HostBackend, Hosts, OnLine, SimulatedHost
from tfhet.simulate.submission import Submission, hyperparameters
from tfhet.strategies.horovod import Ring


class ProcessHosts(HostBackend):
    """Each host is a launcher, or one launcher per rank, with the processes that they start."""

    starts_launchers = True
    cuts_batches = False

    def __init__(self, job: Submission, hosts: Hosts, env: Env, on_line: OnLine, faults: Faults = ()):
        """Raises UsageError for a fault that process hosts cannot have."""
        for fault in faults:
            if fault.kind in NETWORK:
                raise UsageError(f"fault {fault}: process hosts share one network; use --hosts namespace")
        addresses = json.dumps({host.name: host.address for host in hosts})
        env = {**env, SECRET_VARIABLE: new_secret(), "TFHET_ADDRESSES": addresses}
        super().__init__(job, hosts, env, on_line, faults)
        self.not_limited = {word for limits in self.limits.values() for word in limits.lost_without_root()}
        self._network = Network(hosts, job.dnn_group)
        self._ring: Ring | None = None

    @property
    def network(self) -> Network:
        return self._network

    async def open(self, channels: Mapping[str, Path]) -> None:
        self.channels = channels
        training = [host for host in self.hosts if host.group == self.job.dnn_group]
        if self.job.start == "ranks" and sum(host.ranks for host in training) > 1:
            self._ring = Ring([host.name for host in training], training[0].ranks)
            self._ring.open("127.0.0.1", "lo", "127.0.0.1", ())
        await self._network.start()

    async def start(self, host: SimulatedHost, children: dict[str, Child]) -> None:
        job = self.job
        parameters = {**hyperparameters(job.command, job.job), **(job.parameters or {})}
        config, modes, places = self.lay_out(host, parameters)
        for place, directory in places.items():
            place.symlink_to(directory)
        env = {
            **self.env,
            **job.environment,
            **host.variables(config, modes, parameters, job.job, job.command),
            **host.port_variables,
            "PYTHONPATH": ":".join(filter(None, (str(host.paths.code), self.env.get("PYTHONPATH", "")))),
            "PYTHONUNBUFFERED": "1",
        }
        if faults := self.preloaded.get(host.name):
            reads = [self.channels[name].resolve() for name in modes]
            temporary = Path(env.get("TMPDIR") or tempfile.gettempdir())
            faults.open(reads, [host.paths.base, host.paths.checkpoints.resolve(), temporary.resolve()])
            env |= faults.variables(env)
        say = self.on_line(host.name)
        by_rank = host.group == job.dnn_group and job.start == "ranks"
        for local_rank in range(host.ranks if by_rank else 1):
            rank = self._ring.variables(host.name, local_rank) if self._ring and by_rank else {}
            command = [sys.executable, *job.command]
            if job.start == "alone":
                command += ["--processes_per_host", str(host.ranks)]
            label = f"{host.name}/{rank.get('HOROVOD_RANK', 0)}" if by_rank else host.name
            children[label] = await Child.start(
                label, command, env={**env, **rank}, on_line=say, cwd=host.paths.code, when_orphaned=signal.SIGTERM
            )
            if cpu_set := self.limits[host.name].cpu_set:
                os.sched_setaffinity(children[label].pid, cpu_set)

    def second_job(self, host: SimulatedHost) -> tuple[Path, Path, dict[str, str], list[str]]:
        base = host.paths.base.parents[1] / f"second-{host.name}"
        return base, base, {**self.env, **self.job.environment, SECRET_VARIABLE: new_secret()}, []

    def limit(self) -> None:
        """Does nothing: the limits that need no root are set at the start."""

    async def connect(self, address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(address, port)

    async def close(self) -> None:
        await self._network.close()
        if self._ring is not None:
            self._ring.close()


class Forwarder:
    """Listens at `address`:`port` and forwards every connection to `address`:`target`. While a direction is closed,
    data and new connections are held, and no connection ends."""

    def __init__(self, address: str, port: int, target: int):
        self.port, self._address, self._target = port, address, target
        self._there, self._back = asyncio.Event(), asyncio.Event()
        self.pass_data()
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Raises OSError when the port is taken."""
        self._server = await asyncio.start_server(self._accepted, self._address, self.port, backlog=100)

    def pass_data(self, there: bool = True, back: bool = True) -> None:
        """Opens or closes the directions to the target and back."""
        for way, is_open in ((self._there, there), (self._back, back)):
            (way.set if is_open else way.clear)()

    async def close(self) -> None:
        """Ends every connection."""
        if self._server is not None:
            self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        try:
            await self._there.wait()  # like a connection in which one side receives nothing
            await self._back.wait()
            with contextlib.suppress(OSError):
                there, to_there = await asyncio.open_connection(self._address, self._target)
                writers.append(to_there)
                pairs = ((reader, to_there, self._there), (there, writer, self._back))
                ways = [asyncio.create_task(self._pass(*pair)) for pair in pairs]
                try:
                    await asyncio.gather(*ways)
                finally:
                    for way in ways:
                        way.cancel()
        finally:
            for each in writers:
                each.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_open: asyncio.Event) -> None:
        while data := await reader.read(1 << 16):
            await is_open.wait()
            writer.write(data)
            await writer.drain()
        await is_open.wait()
        if writer.can_write_eof():
            writer.write_eof()


class Network(Partitions):
    """Partitions without root: hosts reach the leader's ports through forwarders, which can stop passing data. The
    connections of ranks to the workers of other hosts, and Horovod's ring between the ranks, are not cut."""

    def __init__(self, hosts: Sequence[SimulatedHost], dnn_group: str):
        super().__init__()
        leader = next(host for host in hosts if host.group == dnn_group)
        targets = [leader.ports.control, *(leader.ports.plane[name][0] for name in leader.shared)]
        self._leader = leader.name
        detours = {host.name: zip(host.detour, targets, strict=True) for host in hosts if host.detour is not None}
        self._forwarders = {
            name: [Forwarder(leader.address, *ports) for ports in pairs] for name, pairs in detours.items()
        }

    async def start(self) -> None:
        await asyncio.gather(*(forwarder.start() for some in self._forwarders.values() for forwarder in some))

    async def close(self) -> None:
        await asyncio.gather(*(forwarder.close() for some in self._forwarders.values() for forwarder in some))

    def _apply(self) -> None:
        for host, forwarders in self._forwarders.items():
            ways = ((host, self._leader), (self._leader, host))
            passes = [not self.blocks(*way) for way in ways]
            for forwarder in forwarders:
                forwarder.pass_data(*passes)
