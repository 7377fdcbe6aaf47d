"""a second job on a host: where it meets the first one."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.cluster_runs.clusters import cluster_named
from benchmarks.cluster_runs.observed_job import ObservedJob
from benchmarks.cluster_runs.second_jobs import listening
from tfhet.simulate import Fault


@pytest.mark.parametrize(
    ("faults", "variables"),
    [
        (["kill:worker@data-1:after=0.5", "second-job:dnn-1:from=scripts"], {"TFHET_LISTEN": "0.0.0.0"}),
        (["second-job:data-1:after=0.5"], {}),
        (["same-base:dnn-1"], {}),
        ([], {}),
    ],
)
def test_a_job_listens_everywhere_where_a_second_one_comes_to_its_leader(
    faults: list[str], variables: dict[str, str], tmp_path: Path
) -> None:
    parsed = [Fault.parse(text) for text in faults]
    assert listening(parsed) == variables
    (launcher := tmp_path / "launcher.py").touch()
    job = ObservedJob(cluster_named("one-and-one"), [str(launcher)], tmp_path / "job", faults=parsed)
    assert job._env.get("TFHET_LISTEN") == variables.get("TFHET_LISTEN")
