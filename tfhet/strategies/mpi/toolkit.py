"""What a launcher does for the SageMaker toolkit, which leaves hosts waiting when a job under mpirun has failed.

On every dnn host but the first, `train` waits, when the ranks have ended, for a file that the first host's `train`
writes by ssh once mpirun has succeeded. When the job has failed that file is never written, and these hosts look for it
every 30 s for as long as they reach the first one: machines that are paid for (sagemaker_training/mpi.py, 5.1.4).
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from tfhet.cluster import Place, job_name

DONE = "/tmp/done"


def release(place: Place, folder: Path = Path(DONE).parent) -> Path | None:
    """Writes that file where the toolkit waits for it: in a SageMaker job whose ranks mpirun has started, once on each
    dnn host but the first. Returns what was written."""
    first = place.roles.dnn_hosts[0]
    waits = place.rank is not None and place.rank.source == "mpi" and place.leads_host and place.host != first
    if not waits or not job_name(place.env):
        return None
    path = folder / f"{Path(DONE).name}.{first}"
    with contextlib.suppress(OSError):
        path.touch()
    return path
