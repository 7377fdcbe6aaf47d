"""The things that a simulated job must not leave behind. tests/conftest.py finds others."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path

import psutil

from tfhet.simulate.simulation import Simulation

PATIENCE_S = 5.0


def left_behind(job: Simulation, since_s: float, gone: Collection[str], patience_s: float = PATIENCE_S) -> list[str]:
    """Returns descriptions of the things that a job which has ended left behind.

    Args:
        job: The job.
        since_s: When it began, in seconds since 1970.
        gone: Names of the hosts whose launchers a fault killed, so that they could not clean up their disks.
        patience_s: Seconds in which killed processes may end.
    """
    until_s = time.monotonic() + patience_s
    while (left := _left(job, since_s, gone)) and time.monotonic() < until_s:
        time.sleep(0.2)
    return left


def _left(job: Simulation, since_s: float, gone: Collection[str]) -> list[str]:
    bases = [host.paths.base for host in job.hosts if host.name not in gone]
    journals = [path for base in bases for path in base.glob("tfhet/tfhet-journal-*")]
    folder = job.folder.path.resolve()
    ports = {port for host in job.hosts for port in host.ports.every}
    return [
        *processes(folder),
        *(f"mount {line.split()[4]}" for line in _lines("/proc/self/mountinfo") if str(folder) in line),
        *(f"cgroup {path}" for cgroup in job.cgroups.values() for path in cgroup.folders),
        *listeners(ports, since_s),
        *(f"folder {path}" for path in sorted([*journals, *folder.rglob(".scratch-*")])),
        *(f"folder {path}" for path in sorted(folder.parent.glob("tmp/tfhet-*"))),
    ]


def processes(folder: Path) -> list[str]:
    """Descriptions of the living processes of the run in `folder`, which is in their environment or command."""
    found, text = [], str(folder)
    for process in psutil.process_iter():
        try:
            words = [*process.environ().values(), *process.cmdline()]
            if process.status() != psutil.STATUS_ZOMBIE and any(text in word for word in words):
                found.append(f"process {process.pid}: {' '.join(process.cmdline())[:80]}")
        except psutil.Error:
            continue
    return found


def listeners(ports: Collection[int], since_s: float) -> list[str]:
    """Descriptions of the sockets that listen at one of `ports`, of processes that began after `since_s` (seconds since
    1970). An older process cannot be of the job: it was given a port that the job had given back."""
    found = []
    for connection in psutil.net_connections(kind="tcp"):
        port = connection.laddr.port if connection.laddr else 0
        if connection.status != psutil.CONN_LISTEN or port not in ports:
            continue
        try:
            began_s = psutil.Process(connection.pid).create_time() if connection.pid else since_s
        except psutil.Error:
            continue
        if began_s >= since_s - 1.0:
            found.append(f"port {port}: process {connection.pid} listens")
    return sorted(found)


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
