"""What a launcher does for the SageMaker toolkit that started its ranks, where the toolkit forgets somebody.

On the dnn hosts behind the first one `train` waits, when their ranks have ended, for a file that the first host's
`train` writes by ssh when mpirun has succeeded. When the job has failed nobody writes it, and they look for it every
30 s for as long as the first host can be reached: machines that are paid for (sagemaker_training/mpi.py, 5.1.4).
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from tfhet.cluster import job_name
from tfhet.launch.place import Place

DONE = "/tmp/done"


def release(place: Place, folder: Path = Path(DONE).parent) -> Path | None:
    """Writes that file on a host behind the first, of a SageMaker job whose ranks mpirun has started; else does
    nothing. What was written."""
    first = place.roles.dnn_hosts[0]
    behind = place.rank is not None and place.rank.by == "mpirun" and place.leads_host and place.host != first
    if not behind or not job_name(place.env):
        return None
    path = folder / f"{Path(DONE).name}.{first}"
    with contextlib.suppress(OSError):
        path.touch()
    return path
