from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tfhet.errors import UsageError
from tfhet.record import HostUsage, StepTime, Timeline, UsageSample
from tfhet.telemetry import write_scalars

PARTS = {"host": "algo-1", "epoch": 0, "dur_s": 0.5, "wait_s": 0.125, "copy_s": 0.0625}
STEPS = [StepTime(rank=0, step=n + 1, at_s=10.0 + n, allreduce_s=0.25, **PARTS) for n in range(3)]
WITHOUT_ALLREDUCE = StepTime(rank=1, step=1, at_s=10.5, allreduce_s=None, **PARTS)
MACHINE = HostUsage(1.5, 4, "cgroup", 3 << 20, 0, 1 << 20)
USE = UsageSample("algo-2", 11.0, 1.0, "algo-2", {"worker-0": 0.75, "launcher": 0.5}, MACHINE)


def read(folder: Path) -> dict[str, list[tuple[float, int, float]]]:
    """Wall time, step and value by tag, as TensorBoard reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    tags = found.Tags()["scalars"]
    return {tag: [(each.wall_time, each.step, each.value) for each in found.Scalars(tag)] for tag in tags}


def test_tensorboard_reads_ranks_and_hosts(tmp_path):
    timeline = Timeline.of([*STEPS, WITHOUT_ALLREDUCE, USE])
    assert write_scalars(timeline, tmp_path) == write_scalars(timeline, tmp_path), "files are replaced"
    values = {"ms": 500.0, "wait_ms": 125.0, "copy_ms": 62.5, "compute_ms": 62.5, "allreduce_ms": 250.0}
    assert read(tmp_path / "rank-0") == {
        f"step/{name}": [(10.5 + n, n + 1, value) for n in range(3)] for name, value in values.items()
    }
    assert "step/allreduce_ms" not in read(tmp_path / "rank-1")
    values = {"cpus/worker-0": 0.75, "cpus/launcher-algo-2": 0.5, "host/cgroup_cpus": 1.5, "host/memory_mib": 3.0}
    values |= {"host/received_mib_per_s": 0.0, "host/sent_mib_per_s": 1.0}
    assert read(tmp_path / "host-algo-2") == {tag: [(12.0, 2, value)] for tag, value in values.items()}


def test_missing_tensorboard_is_named(tmp_path, monkeypatch):
    for name in ("tensorboard", "tensorboard.compat.proto.event_pb2"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match="pip install 'tensorboard'"):
        write_scalars(Timeline.of(STEPS), tmp_path)
    assert not list(tmp_path.rglob("*tfevents*"))


def test_tensorflow_is_not_imported(tmp_path):
    code = (
        "import sys; from pathlib import Path; from tfhet.record import StepTime, Timeline\n"
        "from tfhet.telemetry import write_scalars\n"
        f"write_scalars(Timeline.of([StepTime(0.5, 0.0)]), Path({str(tmp_path)!r}))\n"
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=120, check=False).returncode == 0
