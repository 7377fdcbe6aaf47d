"""The file for which SageMaker's toolkit waits on every dnn host but the first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfhet.launch import LaunchSettings
from tfhet.launch.assignment import Assignment
from tfhet.strategies.mpi import MPI

mpi = pytest.importorskip("sagemaker_training.mpi")


@pytest.mark.parametrize(
    ("host", "rank", "job", "source", "is_written"),
    [
        ("t2", 2, "job", "OMPI_COMM_WORLD", True),
        ("t2", 2, "job", "HOROVOD", False),
        ("t2", 2, "", "OMPI_COMM_WORLD", False),
        ("t2", 3, "job", "OMPI_COMM_WORLD", False),
        ("t1", 0, "job", "OMPI_COMM_WORLD", False),
        ("d1", None, "job", "OMPI_COMM_WORLD", False),
    ],
)
def test_toolkit_is_released_once_per_host(environment_of, tmp_path: Path, host, rank, job, source, is_written):
    env = environment_of(host, rank, dnn=("t1", "t2"), ranks=2) | {"TRAINING_JOB_NAME": job}
    env = {name.replace("HOROVOD_", f"{source}_"): value for name, value in env.items()}
    MPI.release(Assignment.of(env, LaunchSettings()).place, tmp_path)
    written = [f"/tmp/{path.name}" for path in tmp_path.glob("done*")]
    assert written == [f"{mpi.MPI_FINISHED_STATUS_FILE}.t1"] * is_written
