from __future__ import annotations

from pathlib import Path

import pytest

from tfhet.cluster import Place
from tfhet.launch import LaunchSettings
from tfhet.launch.assignment import Assignment
from tfhet.strategies.mpi import MPI

pytest.importorskip("sagemaker_training")


def place(environment_of, host: str, rank: int | None, job: str = "job") -> Place:
    env = environment_of(host, rank, dnn=("t1", "t2"), ranks=2)
    for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE"):
        if rank is not None:
            env[f"OMPI_COMM_WORLD_{name}"] = env.pop(f"HOROVOD_{name}")
    env["TRAINING_JOB_NAME"] = job
    return Assignment.of(env, LaunchSettings()).place


def test_the_file_is_the_one_that_the_toolkit_looks_for(environment_of, tmp_path: Path):
    from sagemaker_training import mpi

    MPI.release(place(environment_of, "t2", 2), tmp_path)
    (written,) = tmp_path.glob("done*")
    assert f"/tmp/{written.name}" == f"{mpi.MPI_FINISHED_STATUS_FILE}.t1"


@pytest.mark.parametrize(
    ("host", "rank", "job"),
    [("t1", 0, "job"), ("t1", 1, "job"), ("t2", 3, "job"), ("d1", None, "job"), ("t2", 2, "")],
    ids=["first host", "its second rank", "second rank of the other", "data host", "no job of a platform's"],
)
def test_nobody_else_writes_one(environment_of, tmp_path: Path, host, rank, job):
    MPI.release(place(environment_of, host, rank, job), tmp_path)
    assert not list(tmp_path.glob("done*"))


def test_ranks_that_mpirun_did_not_start_need_none(environment_of, tmp_path: Path):
    alone = Assignment.of(environment_of("t2", 2, dnn=("t1", "t2"), ranks=2), LaunchSettings()).place
    MPI.release(alone, tmp_path)
    assert not list(tmp_path.glob("done*"))
