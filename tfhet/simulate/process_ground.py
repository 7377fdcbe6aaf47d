"""Hosts as process trees of their own on this machine. Needs no root."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfhet.container.limits import Limits
from tfhet.control import SECRET_VARIABLE, new_secret
from tfhet.process import Child
from tfhet.simulate.ground import OnLine
from tfhet.simulate.host import SimulatedHost, hyperparameters
from tfhet.simulate.partition import Network
from tfhet.simulate.scale import limits_of
from tfhet.simulate.slow_disk import SlowDisk, build
from tfhet.simulate.submission import Submission
from tfhet.strategies.horovod.rendezvous import Ring


class ProcessGround:
    """See `Ground`."""

    def __init__(
        self,
        submission: Submission,
        hosts: Sequence[SimulatedHost],
        env: Mapping[str, str],
        on_line: OnLine,
        slow: Collection[str] = (),
    ):
        """slow: names of the hosts whose disks a fault makes slow."""
        self.hosts = hosts
        self.network = Network.of(hosts, submission.dnn_group) if any(host.detour for host in hosts) else None
        self.disks: dict[str, SlowDisk] = {}
        self._submission = submission
        self._env = {
            **env,
            SECRET_VARIABLE: new_secret(),
            "TFHET_ADDRESSES": json.dumps({host.name: host.address for host in hosts}),
        }
        self._on_line = on_line
        self._ring: Ring | None = None
        self._channels: Mapping[str, Path] = {}
        if slow:
            library = build(self._env)
            folders = {host.name: host.paths.base for host in hosts}
            self.disks = {name: SlowDisk(library, Path(f"{folders[name]}.slow")) for name in slow}
        groups = {host.name: host.group for host in hosts}
        self._limits, self.notes = limits_of(submission.cluster, groups, cpu_scale=submission.cpu_scale)

    async def open(self, channels: Mapping[str, Path]) -> None:
        self._channels = channels
        training = [host for host in self.hosts if host.group == self._submission.dnn_group]
        if self._submission.start == "ranks" and sum(host.ranks for host in training) > 1:
            self._ring = Ring([host.name for host in training], training[0].ranks)
            self._ring.open("127.0.0.1", "lo")
        if self.network is not None:
            await self.network.start()

    async def start(self, host: SimulatedHost, children: dict[str, Child]) -> None:
        job = self._submission
        channels = job.seen_by(host.group, self._channels)
        config = job.resource_config(host, self.hosts)
        parameters = {**hyperparameters(job.command, job.job), **(job.parameters or {})}
        host.write(config, channels, parameters, {name: job.mode(name) for name in channels})
        for place, directory in host.directories(channels, job.code, job.checkpoints).items():
            place.symlink_to(directory)
        variables = host.variables(config, list(channels), job.job, job.command[1:])
        path = ":".join(filter(None, (str(host.paths.code), self._env.get("PYTHONPATH", ""))))
        env = {
            **self._env,
            **job.environment,
            **variables,
            **host.sees,
            "PYTHONPATH": path,
            "PYTHONUNBUFFERED": "1",
        }
        if disk := self.disks.get(host.name):
            env |= disk.variables(env, channels.values())
        is_dnn = host.group == job.dnn_group
        for local_rank in range(host.ranks if is_dnn and job.start == "ranks" else 1):
            rank = self._ring.variables(host.name, local_rank) if self._ring and is_dnn else {}
            command = [sys.executable, *job.command]
            if job.start == "alone":
                command += ["--processes_per_host", str(host.ranks)]
            label = f"{host.name}/{rank.get('HOROVOD_RANK', 0)}" if is_dnn and job.start == "ranks" else host.name
            children[label] = await Child.start(
                label,
                command,
                env={**env, **rank},
                on_line=self._on_line(host.name),
                cwd=host.paths.code,
                when_orphaned=signal.SIGTERM,
            )
            self._limits[host.name].without_root().apply(children[label].pid)

    def limit(self) -> None:
        """What can be limited without root is so from the start."""

    def cpu_s(self) -> dict[str, float]:
        return {}

    def facts(self) -> dict[str, Any]:
        words = {word for limits in self._limits.values() for word in limits.without_root().not_limited}
        return {
            "not_limited": sorted(words),
            "limits": {name: one.to_json() for name, one in self._limits.items() if one != Limits()},
        }

    async def close(self) -> None:
        if self.network is not None:
            await self.network.close()
        if self._ring is not None:
            self._ring.close()
