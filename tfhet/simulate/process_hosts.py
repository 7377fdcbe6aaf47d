"""Hosts as process trees of their own on this machine. Needs no root."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfhet.container import Limits, compiled
from tfhet.control import SECRET_VARIABLE, new_secret
from tfhet.errors import UsageError
from tfhet.process import Child
from tfhet.simulate.fault import NETWORK, Fault
from tfhet.simulate.host import OnLine, SimulatedHost, hyperparameters
from tfhet.simulate.partition import Network
from tfhet.simulate.scale import limits_of
from tfhet.simulate.submission import Submission
from tfhet.simulate.targets import Targets
from tfhet.strategies.horovod import Ring

READ_MS = 50
"""Delay of a read of a slow disk, as if its queue were full."""


class ProcessHosts:
    """See `HostBackend`."""

    starts_launchers = True
    cuts_batches = False

    def __init__(
        self,
        submission: Submission,
        hosts: Sequence[SimulatedHost],
        env: Mapping[str, str],
        on_line: OnLine,
        faults: Sequence[Fault] = (),
    ):
        """Raises UsageError for a fault that cannot be done to process hosts."""
        for fault in faults:
            if fault.kind in NETWORK:
                raise UsageError(f"fault {fault}: process hosts share one network; use --hosts namespace")
        self.hosts = hosts
        self.cgroups: Mapping[str, Any] = {}
        self.disks: dict[str, SlowDisk] = {}
        self._network = Network.of(hosts, submission.dnn_group)
        self._submission = submission
        self._env = {
            **env,
            SECRET_VARIABLE: new_secret(),
            "TFHET_ADDRESSES": json.dumps({host.name: host.address for host in hosts}),
        }
        self._on_line = on_line
        self._ring: Ring | None = None
        self._channels: Mapping[str, Path] = {}
        targets = Targets(hosts, submission.dnn_group)
        slow = [host for fault in faults if fault.kind == "slow-disk" for host in targets.named(fault.host)]
        if slow:
            library = build(self._env)
            self.disks = {host.name: SlowDisk(library, Path(f"{host.paths.base}.slow")) for host in slow}
        groups = {host.name: host.group for host in hosts}
        self._limits, self.notes = limits_of(submission.cluster, groups, cpu_scale=submission.cpu_scale)

    async def open(self, channels: Mapping[str, Path]) -> None:
        self._channels = channels
        training = [host for host in self.hosts if host.group == self._submission.dnn_group]
        if self._submission.start == "ranks" and sum(host.ranks for host in training) > 1:
            self._ring = Ring([host.name for host in training], training[0].ranks)
            self._ring.open("127.0.0.1", "lo")
        await self._network.start()

    async def start(self, host: SimulatedHost, children: dict[str, Child]) -> None:
        job = self._submission
        channels = job.seen_by(host.group, self._channels)
        config = job.resource_config(host, self.hosts)
        parameters = {**hyperparameters(job.command, job.job), **(job.parameters or {})}
        host.write(config, channels, parameters, {name: job.mode(name) for name in channels})
        for place, directory in host.directories(channels, job.code, job.checkpoints).items():
            place.symlink_to(directory)
        env = {
            **self._env,
            **job.environment,
            **host.variables(config, list(channels), job.job, job.command[1:]),
            **host.sees,
            "PYTHONPATH": ":".join(filter(None, (str(host.paths.code), self._env.get("PYTHONPATH", "")))),
            "PYTHONUNBUFFERED": "1",
        }
        if disk := self.disks.get(host.name):
            env |= disk.variables(env, channels.values())
        by_rank = host.group == job.dnn_group and job.start == "ranks"
        for local_rank in range(host.ranks if by_rank else 1):
            rank = self._ring.variables(host.name, local_rank) if self._ring and by_rank else {}
            command = [sys.executable, *job.command]
            if job.start == "alone":
                command += ["--processes_per_host", str(host.ranks)]
            label = f"{host.name}/{rank.get('HOROVOD_RANK', 0)}" if by_rank else host.name
            children[label] = await Child.start(
                label,
                command,
                env={**env, **rank},
                on_line=self._on_line(host.name),
                cwd=host.paths.code,
                when_orphaned=signal.SIGTERM,
            )
            if cpu_set := self._limits[host.name].cpu_set:
                os.sched_setaffinity(children[label].pid, cpu_set)

    def limit(self) -> None:
        """Does nothing: the limits that need no root hold from the start."""

    def cut(self, hosts: Collection[str]) -> None:
        self._network.cut(hosts)

    def heal(self, hosts: Collection[str]) -> None:
        self._network.heal(hosts)

    async def impair(self, kind: str, host: str, amount: float | None) -> None:
        self.disks[host].slow()

    def restore(self, kind: str, host: str) -> None:
        self.disks[host].heal()

    async def connect(self, address: str, port: int) -> asyncio.StreamWriter:
        return (await asyncio.open_connection(address, port))[1]

    def cpu_s(self) -> dict[str, float]:
        return {}

    def facts(self) -> dict[str, Any]:
        words = {word for limits in self._limits.values() for word in limits.lost_without_root()}
        return {
            "not_limited": sorted(words),
            "limits": {name: one.to_json() for name, one in self._limits.items() if one != Limits()},
        }

    async def close(self) -> None:
        await self._network.close()
        if self._ring is not None:
            self._ring.close()


@dataclass(frozen=True)
class SlowDisk:
    """The disk of one host: its processes' reads of the channels' files take longer while the file `switch` exists."""

    library: Path
    """A small library, slow_disk.cc, which is preloaded into the processes."""
    switch: Path

    def variables(self, env: Mapping[str, str], folders: Iterable[Path]) -> dict[str, str]:
        """Variables of the host's processes, in addition to `env`, for slow reads below `folders`."""
        return {
            "LD_PRELOAD": ":".join(filter(None, (str(self.library), env.get("LD_PRELOAD", "")))),
            "TFHET_SLOW_DISK_SWITCH": str(self.switch),
            "TFHET_SLOW_DISK_FOLDERS": ":".join(str(folder.resolve()) for folder in folders),
            "TFHET_SLOW_DISK_MS": str(READ_MS),
        }

    def slow(self) -> None:
        self.switch.touch()

    def heal(self) -> None:
        self.switch.unlink(missing_ok=True)


def build(env: Mapping[str, str]) -> Path:
    """The library of slow disks, compiled unless it is in the cache. Raises UsageError where it cannot be compiled."""
    flags = ("-O2", "-fPIC", "-shared", "-Wall", "-D_GNU_SOURCE")
    return compiled(Path(__file__).with_name("slow_disk.cc"), env, "a slow disk", "omit slow-disk", flags, ".so")
