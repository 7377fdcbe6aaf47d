"""`tfhet profile` of Ray data sets, with Ray."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import psutil
import pytest

from tfhet.__main__ import main
from tfhet.planes.ray import MARK
from tfhet.profile import Profile
from tfhet.record import Record

pytestmark = [pytest.mark.ray, pytest.mark.timeout(400)]
SCRIPT = """
import sys
import time
import numpy as np
import tfhet
from beside import grown

SPIN_S = 0.002

def spin(batch):
    end = time.process_time() + SPIN_S * len(batch["id"])
    while time.process_time() < end:
        pass
    return batch

def make(shard, rows):
    import ray
    ids = ray.data.range(rows, override_num_blocks=rows // 20)
    return ids.map_batches(spin, batch_size=20).map_batches(grown, batch_size=20, num_cpus=2)

def half():
    import ray
    return ray.data.range(200, override_num_blocks=10).filter(lambda row: row["id"] % 2 == 0).map_batches(spin)

def fails():
    import ray
    return ray.data.range(20).map_batches(lambda batch: {}["picture"])

def on_a_gpu():
    import ray
    return ray.data.range(20).map_batches(spin, num_gpus=1, batch_size=4)

class Keeps:
    def __call__(self, batch):
        return batch

def in_actors():
    import ray
    return ray.data.range(20).map_batches(Keeps, concurrency=1).map_batches(spin)

def has_run():
    import ray
    return ray.data.range(20).materialize()

table = [1]

if __name__ == "__main__":
    for batch in tfhet.batches(make, arguments={"rows": int(sys.argv[1])}, batch_size=8):
        raise AssertionError("it was to be profiled")
"""
BESIDE = """
import numpy as np

def grown(batch):
    return {**batch, "image": np.zeros((len(batch["id"]), 16, 16, 3), np.uint8)}
"""
EFFORT = ("--budget_s", "3", "--repeats", "2")


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: Path) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(repository))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    (tmp_path / "beside.py").write_text(BESIDE)
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path / "train.py"


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch):
    """Neither a process of Ray nor a file: all of them are below a folder of the test's own, with a short path."""
    with tempfile.TemporaryDirectory(prefix="tfhet-lane-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield
        left = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(MARK, "").startswith(f"{folder}/"):
                    left.append(process.cmdline())
        assert left == [] and list(Path(folder).iterdir()) == []


def test_script_is_profiled_by_operator(script, capsys):
    path = script.parent / "profile.json"
    assert main(["profile", "--script", str(script), *EFFORT, "--json", str(path), "--", "4000"]) == 0
    found = Profile.of(Record.read(path))
    assert [cost.name for cost in found.costs] == ["ReadRange", "MapBatches(spin)", "MapBatches(grown)"]
    assert [(cost.bytes_per_example, cost.dtype) for cost in found.costs] == [
        (8, "int64"),
        (8, "int64"),
        (776, "uint8"),
    ]
    assert found.us(1) >= 2000 and found.whole_us >= 2000
    assert found.costs[-1].examples == 8 and found.plane == "ray"
    assert 20 <= found.examples < 4000 and found.examples % 20 == 0, "the first inputs only"
    assert all(us > 0 for samples in found.beside_us.values() for us in samples)
    assert "Ray itself takes" in capsys.readouterr().out
    words = ["plan", "--profile", str(path), "--cluster", "ml.g5.xlarge", "--accelerator_ms", "5"]
    assert main([*words, "--max_hosts", "2"]) == 0
    assert "a step of 8 examples" in capsys.readouterr().out


def test_function_is_profiled_by_rows(script):
    path = script.parent / "profile.json"
    assert main(["profile", f"{script}:half", *EFFORT, "--json", str(path)]) == 0
    found = Profile.of(Record.read(path))
    assert len(found.costs) == 3 and found.us(2) >= 2000 and found.costs[-1].examples == 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fails", "KeyError: 'picture'"),
        ("on_a_gpu", "asks for num_gpus=1"),
        ("in_actors", "MapBatches(Keeps) runs in actors, and MapBatches(spin) after it"),
        ("has_run", "without its materialize()"),
        ("table", "is a list; wanted a Pipeline or a tf.data.Dataset"),
        ("lacking", "has no 'lacking'; it has"),
    ],
)
def test_unprofilable_data_are_refused(script, capsys, name, words):
    assert main(["profile", f"{script}:{name}", *EFFORT]) == 1
    assert words in capsys.readouterr().err
