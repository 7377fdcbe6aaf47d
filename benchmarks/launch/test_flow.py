"""both launchers end a job on hosts that are processes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from benchmarks.launch.flow_run import FLOWS, Load, flow_run
from tfhet.simulate import ClusterFile, GroupFile

CLUSTER = ClusterFile(
    "flow", {"data_group": GroupFile(hosts=2), "dnn_group": GroupFile()}, {"training": "digits/train"}
)


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("flow", sorted(name for name in FLOWS if not FLOWS[name].is_cold))
def test_every_flow_trains_and_all_its_launchers_end(flow: str, tmp_path: Path) -> None:
    for module in ("horovod", *(("tensorflow_addons",) if flow != "tfhet" else ())):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    load = Load("small_cnn", 16, 8)
    run = flow_run(FLOWS[flow], load, CLUSTER, tmp_path / "run", hosts="process", start="ranks", seed=0, limit_s=150.0)
    assert len(run.step_ms) == 3 and run.step > 0.0
    assert 0.0 < run.first_batch_s < run.first_step_s
    assert 0.0 < run.teardown_s <= run.containers_s
