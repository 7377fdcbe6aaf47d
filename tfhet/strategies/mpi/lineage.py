"""The ancestors of mpirun: the SageMaker toolkit's `train` dies of SIGTERM and leaves mpirun and our ranks running.

The kernel tells a process only of the death of its parent (`process.end_with_parent`), and mpirun survives that of its
own. So the launcher watches the processes above mpirun. Linux only; nothing is watched elsewhere.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfhet.cluster import Rank, job_name

POLL_S = 0.5
_MPI = {"mpirun", "mpiexec", "orterun", "prterun", "prte", "mpirun.openmpi", "mpiexec.openmpi", "mpiexec.hydra"}
_SHELLS = {"sh", "dash", "bash"}
_REMOTE = {"sshd", "sshd-session", "orted", "prted", "hydra_pmi_proxy"}
"""The parents of these are on another host, or did not start the job."""


@dataclass(frozen=True)
class Ancestor:
    """One process, told apart from a later one with the same id."""

    pid: int
    name: str
    started: int
    """Start time in the kernel's ticks since it booted."""

    def is_alive(self, proc: Path = Path("/proc")) -> bool:
        """Whether it still runs; a zombie does not."""
        found = _read(self.pid, proc)
        return found is not None and found[0] == self


def behind_mpirun(pid: int, proc: Path = Path("/proc")) -> tuple[Ancestor, ...]:
    """The ancestors of a process, `pid` being its parent: mpirun, shells, and the first that is neither.

    Empty where that is on another host, or where mpirun has no such parent.
    """
    line: list[Ancestor] = []
    while pid > 1 and (found := _read(pid, proc)) is not None:
        process, pid = found
        if process.name in _REMOTE:
            return ()
        line.append(process)
        if process.name not in _MPI | _SHELLS:
            break
    is_whole = len(line) > 1 and line[0].name in _MPI and line[-1].name not in _MPI | _SHELLS
    return tuple(line) if is_whole else ()


def watched(env: Mapping[str, str], rank: Rank | None) -> tuple[Ancestor, ...]:
    """The processes whose death the launcher with this rank takes for a request to stop: in a job, once a host."""
    if rank is None or rank.local_rank or not job_name(env):
        return ()
    return behind_mpirun(os.getppid())


async def first_gone(line: Sequence[Ancestor], poll_s: float = POLL_S) -> Ancestor:
    """Returns the first of them that has ended, once one has."""
    while True:
        for process in reversed(line):
            if not process.is_alive():
                return process
        await asyncio.sleep(poll_s)


def _read(pid: int, proc: Path) -> tuple[Ancestor, int] | None:
    """A living process and the id of its parent."""
    try:
        head, _, rest = (proc / str(pid) / "stat").read_bytes().rpartition(b")")  # the name may hold anything
        fields = rest.split()  # from the third field on: proc_pid_stat(5)
        name = head.partition(b"(")[2].decode(errors="replace")
        return None if fields[0] in (b"Z", b"X") else (Ancestor(pid, name, int(fields[19])), int(fields[1]))
    except (OSError, IndexError, ValueError):
        return None
