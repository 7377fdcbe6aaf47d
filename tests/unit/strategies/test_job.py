from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tfhet.errors import ClusterError
from tfhet.strategies import JobContext

JOB = JobContext(
    job_id="run-1",
    mode="heterogeneous",
    rank=1,
    size=2,
    local_rank=1,
    local_size=2,
    plane="tf_service",
    order={"dispatcher": "127.0.0.2:6000", "workers": 3, "data_hosts": ["algo-2", "algo-3"]},
    strategy="horovod",
    seed=7,
    host="algo-1",
    group="dnn_group",
    output_dir="/out",
    record_dir="/runs/1",
    timeline_dir="/runs/1/timeline",
)


def test_a_job_goes_into_one_variable_and_back() -> None:
    assert list(JOB.to_env()) == ["TFHET_JOB"]
    assert JobContext.from_env(JOB.to_env()) == JOB
    assert JOB.is_served


def test_without_a_launcher_a_process_is_alone() -> None:
    job = JobContext.from_env({"SM_CURRENT_HOST": "algo-1", "TRAINING_JOB_NAME": "mine"})
    assert (job.mode, job.rank, job.size, job.host, job.job_id) == ("local", 0, 1, "algo-1", "mine")
    assert not job.is_served
    assert JobContext.from_env({}).host


def test_without_a_launcher_horovods_ranks_make_a_homogeneous_job() -> None:
    env = {"HOROVOD_RANK": "1", "HOROVOD_SIZE": "4", "HOROVOD_LOCAL_RANK": "1", "HOROVOD_LOCAL_SIZE": "2"}
    job = JobContext.from_env(env)
    assert (job.mode, job.rank, job.size, job.local_rank, job.local_size) == ("homogeneous", 1, 4, 1, 2)


def test_an_inherited_job_that_contradicts_the_rank_is_refused() -> None:
    mpi = {
        "OMPI_COMM_WORLD_RANK": "0",
        "OMPI_COMM_WORLD_SIZE": "2",
        "OMPI_COMM_WORLD_LOCAL_RANK": "0",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    }
    with pytest.raises(ClusterError, match="mpi started this process as rank 0 of 2"):
        JobContext.from_env(JOB.to_env() | mpi)
    mpi |= {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
    assert JobContext.from_env(JOB.to_env() | mpi) == JOB


@pytest.mark.parametrize(
    "change",
    [
        {"mode": "other"},
        {"mode": 7},
        {"job_id": ""},
        {"rank": 2},
        {"rank": -1},
        {"rank": True},
        {"size": "2"},
        {"seed": 1.5},
        {"plane": ""},
        {"plane": None},
        {"strategy": 7},
        {"order": None},
        {"order": [1]},
        {"output_dir": 7},
    ],
)
def test_a_wrong_job_is_refused(change: dict[str, object]) -> None:
    value = json.loads(JOB.to_env()["TFHET_JOB"]) | change
    with pytest.raises(ClusterError):
        JobContext.from_env({"TFHET_JOB": json.dumps(value)})


@pytest.mark.parametrize("text", ["{", "[]", "7", "{}", "7 8"])
def test_what_is_not_a_job_is_refused(text: str) -> None:
    with pytest.raises(ClusterError, match="TFHET_JOB"):
        JobContext.from_env({"TFHET_JOB": text})


def test_the_ranks_of_a_host_share_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfhet.strategies.job.os.cpu_count", lambda: 8)
    job = JobContext("job", "homogeneous", size=4, local_size=4)
    assert job.threads == 2
    assert replace(job, size=20, local_size=20).threads == 1
    assert JobContext("job", "local").threads == 8
