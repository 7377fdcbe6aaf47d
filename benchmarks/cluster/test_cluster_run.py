"""one real run on scaled hosts. All of a case takes minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.cluster.case import CASES
from benchmarks.cluster.run import measured
from benchmarks.cluster_runs import job_data
from benchmarks.cluster_runs.load import Course
from tfhet.container import kernel

CASE = CASES["aws-post"]


@pytest.mark.slow
@pytest.mark.horovod
def test_a_step_from_data_hosts_takes_what_the_accelerator_takes_or_longer(tmp_path: Path) -> None:
    if lacking := kernel.missing("namespace", tmp_path):
        pytest.skip("; ".join(f"{feature.name}: {feature.what_to_do}" for feature in lacking))
    served = next(one for one in CASE.variants if one.key == "tfhet_heterogeneous")
    job_data.write_apart(tmp_path / "data", CASE.chain, CASE.batch_size, 48)
    point = measured(CASE, served, 0.05, Course(8, 16), tmp_path / "data", tmp_path / "run")
    assert point.data_hosts == 2 and point.steps == 16
    # The loop may be one step ahead of the device, whose steps take 50 ms: of 4 steps 3 have ended, of 16 steps 15.
    assert min(point.windows_ms) >= 50.0 * 3 / 4 and sum(point.windows_ms) / 4 >= 50.0 * 15 / 16
    assert point.quota_s == pytest.approx(1.5 * point.seconds)
    assert len(point.used_s) == 3 and point.kinds_s["workers"] > 0
