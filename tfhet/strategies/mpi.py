"""Ranks that mpirun has started, for every strategy. Under the SageMaker toolkit a launcher has two more tasks:

- The toolkit's `train` dies of SIGTERM and leaves mpirun and the ranks running: the launcher watches these processes. -
On every dnn host except the first, `train` waits for a file that the first host's `train` writes by SSH after mpirun
  has succeeded (sagemaker_training/mpi.py, 5.1.4). If the job fails, the launcher writes it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tfhet.cluster import Place, Rank, job_name
from tfhet.strategies.strategy import RankSource

if TYPE_CHECKING:
    import psutil

POLL_S = 0.5
DONE = "/tmp/done"
"""First part of the path of the toolkit's file; the name of the first host follows."""
_MPI = {"mpirun", "mpiexec", "orterun", "prterun", "prte", "mpirun.openmpi", "mpiexec.openmpi"}
_SHELLS = {"sh", "dash", "bash"}
_REMOTE = {"sshd", "sshd-session", "orted", "prted"}
"""Processes whose parents are on another host, or did not start the job."""


@dataclass(frozen=True)
class MpiSource(RankSource):
    async def gone(self, place: Place) -> str:
        ancestors = watched(place.env, place.rank)
        if not ancestors:
            return await super().gone(place)
        process = await first_gone(ancestors)
        return f"{ancestors[process]}, process {process.pid}, by which it was started, is gone"

    def release(self, place: Place, folder: Path = Path(DONE).parent) -> None:
        """Writes the file for which the toolkit waits, on each dnn host except the first."""
        first = place.roles.dnn_hosts[0]
        waits = place.rank is not None and place.rank.source == "mpi" and place.leads_host and place.host != first
        if waits and job_name(place.env):
            with contextlib.suppress(OSError):
                (folder / f"{Path(DONE).name}.{first}").touch()


MPI = MpiSource(
    "mpi",
    "mpirun",
    "started by mpirun",
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
)
"""Open MPI: mpirun(1), "Environment Variables"."""


def above_mpirun(pid: int) -> dict[psutil.Process, str]:
    """`pid` and its ancestors with names, from mpirun to the first other program; {} if that is on another host."""
    import psutil

    line: dict[psutil.Process, str] = {}
    with contextlib.suppress(psutil.Error):
        process: psutil.Process | None = psutil.Process(pid)
        while process is not None and process.pid > 1:
            name = line[process] = process.name()
            if name in _REMOTE:
                return {}
            if name not in _MPI | _SHELLS:
                break
            process = process.parent()
    names = list(line.values())
    is_whole = len(names) > 1 and names[0] in _MPI and names[-1] not in _MPI | _SHELLS
    return line if is_whole else {}


def watched(env: Mapping[str, str], rank: Rank | None) -> dict[psutil.Process, str]:
    """The processes whose end is a request to stop for the launcher of this rank: in a job, one launcher per host."""
    if rank is None or rank.local_rank or not job_name(env):
        return {}
    return above_mpirun(os.getppid())


async def first_gone(line: Iterable[psutil.Process], poll_s: float = POLL_S) -> psutil.Process:
    """Waits until a process has ended, and returns it; the last one of `line` is checked first."""
    import asyncio

    from tfhet.process import lives

    downwards = [*line][::-1]
    while (gone := next((each for each in downwards if not lives(each)), None)) is None:
        await asyncio.sleep(poll_s)
    return gone
