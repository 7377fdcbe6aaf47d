"""Process mode: every host is a process tree of its own on this machine. Needs no root."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import random
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import psutil

from tfhet.clock import SYSTEM
from tfhet.cluster import HostPaths, Ports, environment, free_ports
from tfhet.control import SECRET_VARIABLE, new_secret
from tfhet.errors import TfhetError, UsageError
from tfhet.events import Event
from tfhet.launch.ring import Ring
from tfhet.launch.settings import LaunchSettings
from tfhet.process import Child, describe_exit
from tfhet.record import RunFolder, RunSummary, machine, versions
from tfhet.report import write_html
from tfhet.simulate.channels import found
from tfhet.simulate.cluster_file import ClusterFile, GroupFile
from tfhet.simulate.drive import drive
from tfhet.simulate.fault import Fault
from tfhet.simulate.host import SimulatedHost, hyperparameters
from tfhet.simulate.injector import Injector
from tfhet.simulate.partition import Network
from tfhet.simulate.slow_disk import SlowDisk, build

DATA_GROUP, DNN_GROUP = "data_group", "dnn_group"
STOP_GRACE_S = 30.0
"""From SIGTERM to SIGKILL, for launchers (SageMaker gives 120 s)."""
TOLD_TO_STOP = "told to stop"
SILENT_SCRIPT_S = 30.0
"""A script that does not say, through tfhet, that it reads its data is taken to have begun after so long."""


class Simulation:
    """One run of a command on every host of a simulated cluster."""

    def __init__(
        self,
        cluster: ClusterFile,
        command: Sequence[str],
        folder: Path,
        *,
        max_run_s: float = 3600.0,
        checkpoints: Path | None = None,
        seed: int = 0,
        faults: Sequence[Fault] = (),
        on_line: Callable[[str], None] = print,
        env: Mapping[str, str] | None = None,
    ):
        self.cluster = cluster
        self.folder = RunFolder(folder)
        self.codes: dict[str, int] = {}
        """Exit code by launcher, as `host` or `host/rank`."""
        self._env = dict(environment() if env is None else env)
        self._last_exit_s = 0.0
        self._started_s: float | None = None
        self._events: list[Event] = []
        self._command = [*command[:1], *cluster.arguments(), *command[1:]]
        self._settings, _ = LaunchSettings.parse(self._command[1:])
        self._max_run_s = max_run_s
        self._checkpoints = checkpoints
        self._on_line = on_line
        self._dnn = self._settings.dnn_group or (DNN_GROUP if len(cluster.groups) > 1 else next(iter(cluster.groups)))
        self._job = f"{cluster.name}-{datetime.fromtimestamp(SYSTEM.wall()):%Y%m%d-%H%M%S}"
        if not command or not Path(command[0]).is_file():
            raise UsageError(
                f"the command {' '.join(command) or '(none)'}: expected a Python file, like scripts/launcher.py"
            )
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"--run-dir {folder} is there already; give a folder that is new or empty")
        self.hosts = self._hosts(random.Random(seed), any(fault.kind == "partition" for fault in faults))
        self._children: dict[str, Child] = {}
        self._injector = Injector(
            faults, self.hosts, self._dnn, self._children, self._has_begun, self._tell_fault, seed=seed
        )
        self._injector.check()
        if any(host.detour for host in self.hosts):
            self._injector.network = Network.of(self.hosts, self._dnn)
        if slow := self._injector.of_kind("slow-disk"):
            library = build(self._env)
            self._injector.disks = {
                name: SlowDisk(library, self.folder.path.resolve() / "hosts" / f"{name}.slow") for name in slow
            }

    def run(self) -> RunSummary:
        """Runs to the end of the last host, and gives the completed record."""
        self.folder.create()
        began = SYSTEM.wall()
        channels = found(self.cluster.channels, self._env, self._on_line)
        dnn_hosts = [host for host in self.hosts if host.group == self._dnn]
        ring = Ring([h.name for h in dnn_hosts], dnn_hosts[0].ranks) if _ranks(dnn_hosts) > 1 else None
        try:
            if ring:
                ring.start("127.0.0.1", "lo")
            cause = drive(lambda stop: self._run(channels, ring, stop))
        finally:
            if ring:
                ring.stop()
        return self._conclude(dnn_hosts, cause, began)

    async def _run(self, channels: Mapping[str, Path], ring: Ring | None, stop: asyncio.Event) -> str | None:
        secret = {SECRET_VARIABLE: new_secret()}
        addresses = {"TFHET_ADDRESSES": json.dumps({host.name: host.address for host in self.hosts})}
        children = self._children
        network = self._injector.network
        injecting = asyncio.create_task(self._injector.run())
        begun_s = SYSTEM.monotonic()
        try:
            if network is not None:
                await network.start()
            for host in sorted(self.hosts, key=self._injector.delay_s):
                if not await self._comes(begun_s + self._injector.delay_s(host), stop):
                    break
                config = self._resource_config(host)
                host.write(config, channels, Path.cwd(), self._checkpoints, hyperparameters(self._command, self._job))
                variables = host.variables(config, list(channels), self._job, self._command[1:])
                path = ":".join(filter(None, (str(host.paths.code), self._env.get("PYTHONPATH", ""))))
                env = {**self._env, **variables, **host.sees.to_env(), **addresses, **secret, "PYTHONPATH": path}
                if disk := self._injector.disks.get(host.name):
                    env |= disk.variables(env, channels.values())
                is_dnn = host.group == self._dnn
                for local_rank in range(host.ranks if is_dnn else 1):
                    rank = ring.environment(host.name, local_rank) if ring and is_dnn else {}
                    label = f"{host.name}/{rank.get('HOROVOD_RANK', 0)}" if is_dnn else host.name
                    children[label] = await Child.start(
                        label,
                        [sys.executable, *self._command],
                        env={**env, **rank, "PYTHONUNBUFFERED": "1"},
                        on_line=self._logger(host.name),
                        cwd=host.paths.code,
                        when_orphaned=signal.SIGTERM,
                    )
            return await self._wait(children, stop)
        finally:
            injecting.cancel()
            (error,) = await asyncio.gather(injecting, return_exceptions=True)
            if isinstance(error, Exception):
                self._tell_fault(f"a fault could not be done: {error!r}")
            await asyncio.gather(*(child.stop(STOP_GRACE_S) for child in children.values()))
            if network is not None:
                await network.close()

    async def _comes(self, at_s: float, stop: asyncio.Event) -> bool:
        """Waits until a host that joins late may start; False when the job is over by then."""
        while (left_s := at_s - SYSTEM.monotonic()) > 0:
            gone = [child.code is not None for child in self._children.values()]
            if stop.is_set() or (gone and all(gone)):
                return False
            await asyncio.sleep(min(left_s, 0.2))
        return True

    async def _wait(self, children: Mapping[str, Child], stop: asyncio.Event) -> str | None:
        async def see_end(label: str, child: Child) -> None:
            self.codes[label] = await child.wait()
            if label not in self._injector.frozen:
                self._last_exit_s = SYSTEM.wall()

        ends = {label: asyncio.create_task(see_end(label, child)) for label, child in children.items()}

        async def see_all() -> None:
            # A launcher that was frozen for ever is one that is gone: nobody waits for it, and nobody else can end it.
            while not all(end.done() for label, end in ends.items() if label not in self._injector.frozen):
                await asyncio.wait([end for end in ends.values() if not end.done()], timeout=0.2)
            for label, child in children.items():
                if label in self._injector.frozen:
                    await _killed(child)
            await asyncio.gather(*ends.values())

        every = asyncio.create_task(see_all())
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({every, stopped}, timeout=self._max_run_s, return_when=asyncio.FIRST_COMPLETED)
        cause = None
        if not every.done():
            cause = TOLD_TO_STOP if stopped.done() else f"the job ran longer than {self._max_run_s:g} s"
            await asyncio.gather(*(child.stop(STOP_GRACE_S) for child in children.values()))
        await every
        stopped.cancel()
        return cause

    def _conclude(self, dnn_hosts: Sequence[SimulatedHost], cause: str | None, began: float) -> RunSummary:
        """The chief's record, completed with what only the simulator saw."""
        kept = RunFolder(dnn_hosts[0].paths.output_data / "tfhet")
        self._events.append(Event("launchers.gone", self._last_exit_s, {}))
        try:
            summary = kept.read_summary()
        except TfhetError:
            summary = RunSummary()
        for event in self._events:
            kept.write_event(event)
        self.folder.events_path.write_bytes(kept.events_path.read_bytes())
        bad = {label: code for label, code in self.codes.items() if code and label not in summary.lost_hosts}
        exit_code = summary.exit_code if summary.exit_code is not None else max([1, *self.codes.values()])
        if bad and not exit_code:
            exit_code, cause = 1, "; ".join(f"{label}: {describe_exit(code)}" for label, code in bad.items())
        if exit_code or cause:
            cause = cause or summary.cause or self._first_failure()
            exit_code = exit_code or 1
        summary = dataclasses.replace(
            summary,
            name=self.cluster.name,
            mode="heterogeneous" if len({host.group for host in self.hosts}) > 1 else "homogeneous",
            started=began,
            duration_s=SYSTEM.wall() - began,
            teardown_s=self._teardown_s(kept),
            machine=machine(),
            versions=versions(),
            exit_codes=dict(sorted(self.codes.items())),
            exit_code=exit_code,
            cause=cause,
        )
        self.folder.write_summary(summary)
        write_html(self.folder)
        return summary

    def _teardown_s(self, kept: RunFolder) -> float | None:
        """From the end of the last rank's script to the end of the last launcher; None when a rank never ended."""
        ends = [float(event["time_s"]) for event in kept.events() if event.get("event") == "rank.ended"]
        return None if not ends else max(0.0, self._last_exit_s - max(ends))

    def _tell_fault(self, line: str) -> None:
        self._events.append(Event("fault.injected", SYSTEM.wall(), {"fault": line}))
        self._on_line(f"[simulate] {line}")

    def _has_begun(self) -> bool:
        chief = next(host for host in self.hosts if host.group == self._dnn)
        events = RunFolder(chief.paths.output_data / "tfhet").events_path
        with contextlib.suppress(OSError):
            found = events.read_text(encoding="utf-8")
            if "training.started" in found and self._started_s is None:
                self._started_s = SYSTEM.monotonic()
            silent = self._started_s is not None and SYSTEM.monotonic() > self._started_s + SILENT_SCRIPT_S
            return silent or "training.reading" in found
        return False

    def _first_failure(self) -> str:
        for host in self.hosts:
            if host.paths.failure.is_file():
                return host.paths.failure.read_text(encoding="utf-8", errors="replace").split("\n")[0]
        codes = ", ".join(f"{label}: {describe_exit(code)}" for label, code in sorted(self.codes.items()))
        return f"no launcher said why ({codes})"

    def _hosts(self, order: random.Random, detours: bool) -> list[SimulatedHost]:
        """Names are dealt out to groups at random, as SageMaker does: algo-1 may be anything.

        detours: whether the hosts reach the chief's through forwarders.
        """
        groups = [(name, group) for name, group in self.cluster.groups.items() for _ in range(group.hosts)]
        order.shuffle(groups)
        workers = [self._workers(name) for name, _ in groups]
        free = iter(free_ports(2 + sum(workers) + 2 * len(groups) * detours))
        control, dispatcher = next(free), next(free)
        hosts: list[SimulatedHost] = []
        for index, ((group, spec), count) in enumerate(zip(groups, workers, strict=True), start=1):
            name = f"algo-{index}"
            ports = Ports(control, dispatcher, tuple(next(free) for _ in range(count)))
            paths = HostPaths(self.folder.path.resolve() / "hosts" / name)
            ranks = spec.ranks if group == self._dnn else 1
            is_chief = group == self._dnn and all(host.group != group for host in hosts)
            detour = (next(free), next(free)) if detours and not is_chief else None
            address = f"127.0.0.{index + 1}"
            hosts.append(SimulatedHost(name, group, spec.instance_type, address, ports, ranks, paths, detour))
        if not any(host.group == self._dnn for host in hosts):
            there = ", ".join(f"{name} ({group.hosts} hosts)" for name, group in self.cluster.groups.items())
            raise UsageError(
                f"cluster {self.cluster.name!r}: no host trains: there is no group {self._dnn!r} with hosts; "
                f"groups: {there}"
            )
        return hosts

    def _workers(self, group: str) -> int:
        return self._settings.dnn_host_workers if group == self._dnn else self._settings.data_host_workers

    def _resource_config(self, host: SimulatedHost) -> dict[str, object]:
        def members(name: str, group: GroupFile) -> dict[str, object]:
            names = [h.name for h in self.hosts if h.group == name]
            return {"instance_group_name": name, "instance_type": group.instance_type, "hosts": names}

        return {
            "current_host": host.name,
            "current_instance_type": host.instance_type,
            "current_group_name": host.group,
            "hosts": [h.name for h in self.hosts],
            "instance_groups": [members(name, group) for name, group in self.cluster.groups.items()],
            "network_interface_name": "lo",
        }

    def _logger(self, host: str) -> Callable[[str], None]:
        path = self.folder.log_path(host)

        def write(line: str) -> None:
            with open(path, "a", encoding="utf-8") as log:
                log.write(line + "\n")
            self._on_line(line)

        return write


async def _killed(child: Child) -> None:
    """Ends a frozen launcher with all below it, which is in sessions of its own."""
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(child.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                process.kill()
    child.kill()
    await child.wait()


def _ranks(hosts: Sequence[SimulatedHost]) -> int:
    return sum(host.ranks for host in hosts)


def run_dir(cluster: ClusterFile) -> Path:
    """Where the record of a run goes when nobody says: `runs/NAME-TIME`."""
    return Path("runs") / f"{cluster.name}-{datetime.fromtimestamp(SYSTEM.wall()):%Y%m%d-%H%M%S}"


def simulate(
    cluster: ClusterFile,
    command: Sequence[str],
    folder: Path | None = None,
    *,
    max_run_s: float = 3600.0,
    checkpoints: Path | None = None,
    seed: int = 0,
    faults: Sequence[Fault] = (),
    on_line: Callable[[str], None] = print,
) -> RunSummary:
    """Runs `command` (a Python file and its arguments) on every host of `cluster`, to the end of the last one.

    `folder`: where the run record goes, new or empty. `checkpoints`: a directory that outlives the run. `seed`: which
    host gets which name. `faults`: what is done to the job on the way. Raises UsageError for what cannot be run; a job
    that fails is told by the record.
    """
    folder = folder or run_dir(cluster)
    return Simulation(
        cluster,
        command,
        folder,
        max_run_s=max_run_s,
        checkpoints=checkpoints,
        seed=seed,
        faults=faults,
        on_line=on_line,
    ).run()
