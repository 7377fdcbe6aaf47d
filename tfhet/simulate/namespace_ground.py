"""Hosts as containers: each with a network, a root, process numbers and limits of its own. Needs root."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from tfhet.clock import SYSTEM
from tfhet.cluster import HostPaths
from tfhet.container import delay, kernel, sweeper
from tfhet.container.bridge import Bridge
from tfhet.container.cgroup import Cgroup
from tfhet.container.container import OVERLAY, READ_ONLY, SHARED, Container, Mount
from tfhet.container.limits import Limits
from tfhet.control import SECRET_VARIABLE, new_secret
from tfhet.deadline import Deadline
from tfhet.errors import JobFailed, TfhetError, UsageError
from tfhet.messages import ContainerFailureLine, parse_line
from tfhet.process import Child, describe_exit
from tfhet.simulate.ground import OnLine
from tfhet.simulate.host import SimulatedHost, hyperparameters
from tfhet.simulate.scale import limits_of
from tfhet.simulate.submission import Submission
from tfhet.submit import MPI_OPTIONS

BASE = Path("/opt/ml")
_PACKAGE = Path(__file__).resolve().parents[2]
_NAMESPACE_S = 30.0
"""How long a container may take to be in namespaces of its own."""
_PASSED_ON = ("TF_", "TFHET_", "HOROVOD_", "NCCL_", "OMP_", "OMPI_")
_PASSED_ON_NAMES = ("PYTHONPATH", "XDG_CACHE_HOME", "LANG")
_HIDDEN = ("/tmp/", "/run/", "/dev/", "/mnt/", "/media/")
"""What a container does not see of the machine, unless it is carried in."""


class NamespaceGround:
    """See `Ground`."""

    def __init__(
        self,
        submission: Submission,
        hosts: Sequence[SimulatedHost],
        env: Mapping[str, str],
        on_line: OnLine,
    ):
        """Raises UsageError naming all that this machine lacks."""
        kernel.require("toolkit" if submission.start == "toolkit" else "namespace", _existing(hosts[0].paths.base))
        self.hosts = hosts
        self.cgroups: dict[str, Cgroup] = {}
        """By host name, of those that were started."""
        self._submission = submission
        self._env = env
        self._secret = new_secret()
        self._on_line = on_line
        self._channels: Mapping[str, Path] = {}
        self._scratch: Path | None = None
        self._owner: sweeper.Owner | None = None
        self._bridge: Bridge | None = None
        self._keys: dict[str, str] = {}
        self._attached: list[str] = []
        self._not_limited: set[str] = set()
        self._use: dict[str, dict[str, int | None]] = {}
        self._limiting = submission.limits_from == "start"
        groups = {host.name: host.group for host in hosts}
        self._limits, self.notes = limits_of(submission.cluster, groups, cpu_scale=submission.cpu_scale)
        for purpose, amounts in self.network_limits.items():
            if any(amount is not None for amount in amounts.values()):
                kernel.require(purpose)

    @property
    def network(self) -> Bridge | None:
        return self._bridge

    async def open(self, channels: Mapping[str, Path]) -> None:
        self._channels = channels
        for line in await asyncio.to_thread(sweeper.sweep):
            self._on_line("simulate")(line)
        self._owner = sweeper.claim()
        self._scratch = Path(tempfile.mkdtemp(prefix=".scratch-", dir=_existing(self.hosts[0].paths.base)))
        self._owner.register(self._scratch)
        self._bridge = Bridge.create(self._owner.tag)
        if any(limits.latency_s for limits in self._limits.values()):
            with contextlib.suppress(TfhetError):  # a kernel with netem needs none
                await asyncio.to_thread(delay.build, self._env)
        if self._submission.start == "toolkit":
            self._keys = await asyncio.to_thread(_ssh_files, self._scratch)

    async def start(self, host: SimulatedHost, children: dict[str, Child]) -> None:
        assert self._owner is not None and self._bridge is not None and self._scratch is not None
        scratch = self._scratch / host.name
        scratch.mkdir()
        spec = self._scratch / f"{host.name}.json"
        self._container(host, scratch).write(spec)
        cgroup = self.cgroups[host.name] = Cgroup.create(f"tfhet-{self._owner.tag}-{host.name}")
        path = _with_package(self._env.get("PYTHONPATH", ""))
        child = await Child.start(
            host.name,
            [sys.executable, "-m", "tfhet.container", str(spec)],
            env={"PATH": self._env.get("PATH", os.defpath), "PYTHONPATH": path},
            on_line=self._on_line(host.name),
        )
        children[host.name] = child
        await _isolated(child)
        try:
            # Process 1 waits for its network, so that nothing runs before all of this is done.
            for process in (psutil.Process(child.pid), *psutil.Process(child.pid).children(recursive=True)):
                cgroup.add(process.pid)
            if not self._limiting:  # TensorFlow starts as many threads as it sees CPUs
                cgroup.limit(Limits(cpu_set=self._limits[host.name].cpu_set))
            self._bridge.attach(host.name, child.pid, host.address)
        except (TfhetError, psutil.Error, OSError) as error:
            async with Deadline(_NAMESPACE_S):  # it has said why itself, if it has ended
                await child.stop(0.5)
            raise JobFailed(f"{_not_made(child)} ({error})", log_tail=child.tail) from error
        self._attached.append(host.name)
        if self._limiting:
            self._limit(host.name)

    def limit(self) -> None:
        self._limiting = True
        for name in self._attached:
            self._limit(name)

    def _limit(self, name: str) -> None:
        assert self._bridge is not None
        limits = self._limits[name]
        try:
            self._not_limited |= set(self.cgroups[name].limit(limits))
            self._bridge.limit(name, limits.bits_per_s)
            if limits.latency_s is not None:
                self._bridge.delay(name, limits.latency_s)
            if limits.loss_share is not None:
                self._bridge.lose(name, limits.loss_share)
        except TfhetError as error:  # more memory is in use than the limit, for one
            self._on_line("simulate")(f"[simulate] {name} is not limited: {error}")
            self._not_limited.add(f"{name}: {error}")

    @property
    def network_limits(self) -> dict[str, dict[str, float | None]]:
        """By key of `kernel.PURPOSES`, what the network of each host is limited to, by name; None: not at all."""
        return {
            kernel.LIMIT: {name: limits.bits_per_s for name, limits in self._limits.items()},
            kernel.DELAY: {name: limits.latency_s for name, limits in self._limits.items()},
            kernel.LOSE: {name: limits.loss_share for name, limits in self._limits.items()},
        }

    def cpu_s(self) -> dict[str, float]:
        with contextlib.suppress(TfhetError, OSError):
            return {name: cgroup.cpu_s() for name, cgroup in self.cgroups.items()}
        return {}  # nothing counts it here

    def facts(self) -> dict[str, Any]:
        return {
            "not_limited": sorted(self._not_limited),
            "host_use": self._use,
            "limits": {name: one.to_json() for name, one in self._limits.items() if one != Limits()},
        }

    def _used(self, name: str) -> dict[str, int | None]:
        """What a host has used until now, as the record has it."""
        counts = ("memory_peak_bytes", "out_of_memory_kills", "sent_bytes", "received_bytes")
        use: dict[str, int | None] = dict.fromkeys(counts)
        cgroup = self.cgroups[name]
        with contextlib.suppress(TfhetError, OSError):
            use["memory_peak_bytes"] = cgroup.memory_peak_bytes()
            use["out_of_memory_kills"] = cgroup.out_of_memory_kills()
        with contextlib.suppress(TfhetError, OSError, subprocess.SubprocessError):
            if self._bridge is not None and name in self._attached:
                traffic = self._bridge.bytes(name)
                use |= {"sent_bytes": traffic.sent_bytes, "received_bytes": traffic.received_bytes}
        return use

    async def close(self) -> None:
        is_clean = True
        self._use = {name: self._used(name) for name in self.cgroups}
        for name, use in self._use.items():
            if killed := use["out_of_memory_kills"]:
                limit = self._limits[name].memory_bytes
                most = f"its memory limit of {limit / 2**20:.0f} MiB" if limit else "want of memory"
                self._on_line("simulate")(f"[simulate] {name}: the kernel killed {killed} of its processes for {most}")
        for name, cgroup in self.cgroups.items():
            try:
                left = [f"process {pid} does not end" for pid in await asyncio.to_thread(cgroup.remove)]
            except (TfhetError, OSError) as error:
                left = [str(error)]
            is_clean &= not left
            for line in left:
                self._on_line("simulate")(f"[simulate] {name}: {line}")
        if self._bridge is not None:
            try:
                self._bridge.close()
            except (TfhetError, OSError, subprocess.SubprocessError) as error:  # it goes with this process
                self._on_line("simulate")(f"[simulate] the network: {error}")
        if self._scratch is not None:
            await asyncio.to_thread(shutil.rmtree, self._scratch, ignore_errors=True)
            is_clean &= not self._scratch.exists()
        if self._owner is not None:
            self._owner.release(is_clean=is_clean)

    def _container(self, host: SimulatedHost, scratch: Path) -> Container:
        job = self._submission
        channels = job.seen_by(host.group, self._channels)
        config = job.resource_config(host, self.hosts)
        host.write(config, channels, self._parameters(), {name: job.mode(name) for name in channels})
        inside = replace(host, paths=HostPaths(BASE))
        mounts = [Mount(str(host.paths.base), str(BASE), SHARED)]
        mounts += [Mount(path, path) for path in self._carried()]
        for place, directory in host.directories(channels, job.code, job.checkpoints).items():
            at = str(BASE / place.relative_to(host.paths.base))
            kind = OVERLAY
            if place == host.paths.checkpoints:
                kind = SHARED
            elif place != host.paths.code and job.mode(place.name) == "FastFile":
                kind = READ_ONLY
            mounts.append(Mount(str(directory), at, kind))
        env = self._environment(host)
        first = [sys.executable, "-m", "tfhet.launch.init"]
        if job.start == "toolkit":
            command = [*first, str(Path(sys.executable).parent / "train")]
        else:
            env |= inside.variables(config, list(channels), job.job, job.command[1:])
            per_host = ["--processes_per_host", str(host.ranks)]
            command = [*first, sys.executable, *job.command, *per_host]
        return Container(
            name=host.name,
            scratch=str(scratch),
            interface="eth0",
            command=command,
            environment=env,
            directory=str(BASE / "code"),
            mounts=mounts,
            files={"/etc/hosts": self._etc_hosts(), "/etc/hostname": host.name + "\n", **self._keys},
        )

    def _parameters(self) -> dict[str, str]:
        """Hyperparameters as the SDK writes them for a job with MPI on the dnn group, under the job's own."""
        job = self._submission
        if job.parameters is not None and "sagemaker_program" in job.parameters:
            return dict(job.parameters)
        told = hyperparameters(job.command if job.parameters is None else job.command[:1], job.job)
        ranks = max(one.ranks for one in self.hosts if one.group == job.dnn_group)
        return {
            **told,
            "sagemaker_container_log_level": "20",
            "sagemaker_mpi_enabled": "true",
            "sagemaker_mpi_num_of_processes_per_host": str(ranks),
            "sagemaker_mpi_custom_mpi_options": json.dumps(MPI_OPTIONS),
            "sagemaker_distribution_instance_groups": json.dumps([job.dnn_group]),
            **(job.parameters or {}),
        }

    def _environment(self, host: SimulatedHost) -> dict[str, str]:
        """What the platform gives a container, and what the simulator's user meant for the job."""
        job = self._submission
        passed = {
            name: value for name, value in self._env.items() if name.startswith(_PASSED_ON) or name in _PASSED_ON_NAMES
        }
        return {
            "LANG": "C.UTF-8",
            # Hosts share CPUs here: a rank that polls for others would take theirs (4 ranks on 2 CPUs: steps x 2.5).
            "OMPI_MCA_mpi_yield_when_idle": "1",
            **passed,
            "PATH": f"{Path(sys.executable).parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            **({} if _is_installed() else {"PYTHONPATH": _with_package(passed.get("PYTHONPATH", ""))}),
            "PYTHONUNBUFFERED": "1",
            "TRAINING_JOB_NAME": job.job,
            "SAGEMAKER_JOB_NAME": job.job,
            "CURRENT_HOST": host.name,
            SECRET_VARIABLE: self._secret,
            **job.environment,
        }

    def _carried(self) -> list[str]:
        """Directories that the job needs, and that lie where a container would not see them."""
        wanted = {
            sys.prefix,
            sys.base_prefix,
            str(_PACKAGE),
            self._env.get("XDG_CACHE_HOME", ""),
        }
        wanted |= set(self._env.get("PYTHONPATH", "").split(":"))
        hidden = sorted(path for path in wanted if path.startswith(_HIDDEN) and Path(path).is_dir())
        return [path for path in hidden if not any(path.startswith(other + "/") for other in hidden)]

    def _etc_hosts(self) -> str:
        lines = [f"{host.address} {host.name}" for host in self.hosts]
        return "\n".join(["127.0.0.1 localhost", *lines, ""])


async def _isolated(child: Child) -> None:
    """Waits until the child has a network namespace of its own. Raises JobFailed."""
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


def _not_made(child: Child) -> str:
    failures = [said.cause for said in map(parse_line, child.tail) if isinstance(said, ContainerFailureLine)]
    why = failures[-1] if failures else describe_exit(child.code or 0, child.tail)
    return f"the container {child.name} could not be made: {why}"


def _ssh_files(scratch: Path) -> dict[str, str]:
    """What lets root of any host log in to any other, and nobody else: keys of this run."""
    files = {}
    for name in ("root", "host"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "tfhet", "-f", str(scratch / name)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
        if done.returncode:
            raise UsageError(f"{' '.join(words)}: {done.stderr.strip()}")
    key, public = ((scratch / f"root{end}").read_text(encoding="ascii") for end in ("", ".pub"))
    files["/root/.ssh/id_ed25519"] = key
    files["/root/.ssh/authorized_keys"] = public
    files["/root/.ssh/config"] = (
        "Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n"
    )
    files["/etc/ssh/ssh_host_ed25519_key"] = (scratch / "host").read_text(encoding="ascii")
    files["/etc/ssh/ssh_host_ed25519_key.pub"] = (scratch / "host.pub").read_text(encoding="ascii")
    return files


def _with_package(path: str) -> str:
    return ":".join(filter(None, (str(_PACKAGE), path)))


def _is_installed() -> bool:
    """Whether hosts find tfhet by themselves, or another one that their requirements.txt puts in its place."""
    try:
        metadata.distribution("tfhet")
    except metadata.PackageNotFoundError:
        return False
    return True


def _existing(path: Path) -> Path:
    """The nearest directory above `path` that is there."""
    return next(folder for folder in path.parents if folder.is_dir())
