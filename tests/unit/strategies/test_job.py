from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tfhet.cluster import Rank
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


def test_job_is_passed_in_one_variable() -> None:
    assert list(JOB.to_env()) == ["TFHET_JOB"]
    assert JobContext.from_env(JOB.to_env()) == JOB
    assert JOB.is_served


def test_process_without_a_launcher() -> None:
    job = JobContext.from_env({"SM_CURRENT_HOST": "algo-1", "TRAINING_JOB_NAME": "mine"})
    assert (job.mode, job.rank, job.size, job.host, job.job_id) == ("local", 0, 1, "algo-1", "mine")
    assert not job.is_served and JobContext.from_env({}).host
    env = {name.replace("TFHET", "HOROVOD"): value for name, value in Rank(1, 4, 1, 2, "").to_env().items()}
    job = JobContext.from_env(env)
    assert (job.mode, job.rank, job.size, job.local_rank, job.local_size) == ("homogeneous", 1, 4, 1, 2)


def test_inherited_job_of_another_rank_is_refused() -> None:
    def mpi(rank: int) -> dict[str, str]:
        numbers = Rank(rank, 2, rank, 2, "").to_env()
        return {name.replace("TFHET", "OMPI_COMM_WORLD"): value for name, value in numbers.items()}

    with pytest.raises(ClusterError, match="mpi .*rank 0 of 2"):
        JobContext.from_env(JOB.to_env() | mpi(0))
    assert JobContext.from_env(JOB.to_env() | mpi(1)) == JOB


WRONG: list[dict[str, object]] = [
    *({"mode": value} for value in ("other", 7)),
    *({"rank": value} for value in (2, -1, True)),
    *({"plane": value} for value in ("", None)),
    *({"order": value} for value in (None, [1])),
    *({"job_id": ""}, {"size": "2"}, {"seed": 1.5}, {"strategy": 7}, {"output_dir": 7}),
]


@pytest.mark.parametrize("change", [*WRONG, "{", "[]", "7", "{}", "7 8"], ids=str)
def test_wrong_job_is_refused(change: dict[str, object] | str) -> None:
    text = change if isinstance(change, str) else json.dumps(json.loads(JOB.to_env()["TFHET_JOB"]) | change)
    with pytest.raises(ClusterError):
        JobContext.from_env({"TFHET_JOB": text})


def test_ranks_of_a_host_share_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfhet.strategies.job.os.cpu_count", lambda: 8)
    jobs = [replace(JOB, rank=0, local_rank=0, size=size, local_size=size) for size in (1, 4, 20)]
    assert [job.threads for job in jobs] == [8, 2, 1]
