"""Things that a simulated job must not leave behind: processes, sockets, folders, control groups, shared memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cluster_runs.observed_job import ObservedJob
from tfhet.clock import SYSTEM, Clock
from tfhet.simulate import Fault

SHARED_MEMORY = Path("/dev/shm")
PATIENCE_S = 3.0
"""Seconds that killed processes may take to be gone."""


@dataclass(frozen=True)
class Before:
    """The state of the machine before a job."""

    at_s: float
    """When, in seconds since 1970."""
    shared: frozenset[str]
    """Names in /dev/shm."""

    @classmethod
    def now(cls, clock: Clock = SYSTEM) -> Before:
        return cls(clock.wall(), _shared())

    def left_by(
        self, job: ObservedJob, gone: Iterable[str] = (), clock: Clock = SYSTEM, *, patience_s: float = PATIENCE_S
    ) -> tuple[str, ...]:
        """Descriptions of the things that `job`, which has ended, left behind, one for each.

        gone: names of hosts that a fault took away for good: what lies on their disks went with them. patience_s:
        seconds that what was killed may take to be gone.
        """
        until_s = clock.monotonic() + patience_s
        while (left := self._left_by(job, set(gone), clock)) and clock.monotonic() < until_s:
            clock.sleep(0.2)
        return left

    def _left_by(self, job: ObservedJob, gone: set[str], clock: Clock) -> tuple[str, ...]:
        ports = {port for host in job.hosts for port in host.ports.every}
        journals = [
            path
            for host in job.hosts
            if host.name not in gone
            for path in host.paths.base.glob("tfhet/tfhet-journal-*")
        ]
        return (
            *processes(job.folder.path),
            *containers(job.folder.path),
            *(f"cgroup {folder}" for cgroup in job.cgroups.values() for folder in cgroup.folders),
            *sockets(ports, self.at_s, clock.wall()),
            *(f"folder {path}" for path in sorted([*journals, *job.temporary.glob("tfhet-*")])),
            *(f"shared memory {name}" for name in sorted(_shared() - self.shared)),
        )


def taken_away(fault: Fault, job: ObservedJob) -> set[str]:
    """Names of the hosts with a launcher that `fault` kills, or freezes for good, so that it cannot clean up."""
    for_good = fault.kind in ("kill", "hang") and fault.for_s is None
    return (
        {host.name for host in job.named(fault.host)} if for_good and fault.process in ("host", "launcher") else set()
    )


def processes(folder: Path) -> tuple[str, ...]:
    """Processes of the run in `folder` that still live: the folder is in the environment of each of them."""
    import psutil

    found, text = [], str(folder.resolve())
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and text in " ".join(process.environ().values()):
                found.append(f"process {process.pid}: {' '.join(process.cmdline())[:80]}")
        except psutil.Error:
            continue
    return tuple(found)


def containers(folder: Path) -> tuple[str, ...]:
    """Descriptions of what the containers of the run in `folder` left: processes, and folders that they wrote."""
    import psutil

    found = [f"folder {path}" for path in folder.rglob(".scratch-*")]
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or ())
        if "tfhet.container.container" in words and str(folder.resolve()) in words:
            found.append(f"process {process.pid}: {words}")
    return tuple(found)


def sockets(ports: Iterable[int], since_s: float, until_s: float) -> tuple[str, ...]:
    """Sockets that listen on one of `ports`, of processes that began in this time (seconds since 1970) or that are not
    ours to see. Somebody else may have been given a port meanwhile, but not by a process that was there before."""
    import psutil

    wanted, found = set(ports), []
    for connection in psutil.net_connections(kind="tcp"):
        port = connection.laddr.port if connection.laddr else 0
        if connection.status != psutil.CONN_LISTEN or port not in wanted:
            continue
        try:
            began_s = psutil.Process(connection.pid).create_time() if connection.pid else since_s
        except psutil.Error:
            continue
        if since_s - 1.0 <= began_s <= until_s:
            found.append(f"port {port}: process {connection.pid} listens")
    return tuple(sorted(found))


def _shared() -> frozenset[str]:
    return frozenset(path.name for path in SHARED_MEMORY.iterdir()) if SHARED_MEMORY.is_dir() else frozenset()
