from __future__ import annotations

import random
from pathlib import Path

import pytest

from tfhet.cluster import HostPaths
from tfhet.record import RunFolder
from tfhet.simulate.other_jobs import CAUSE, damage_newest, leave_earlier_job

CONTENT = bytes(range(1, 101))


def test_newest_checkpoint_is_damaged_by_seed(tmp_path: Path):
    newest = "checkpoint-0001-0000000040"
    for name in ("checkpoint-0001-0000000020", newest, ".checkpoint-0002-0000000060.1"):
        (tmp_path / name).mkdir()
        for file in ("state.index", "manifest.json"):
            (tmp_path / name / file).write_bytes(CONTENT)
        (tmp_path / name / "empty").touch()
    seen = set()
    for seed in range(40):
        done = damage_newest(tmp_path, random.Random(seed))
        name, damage = done.split(" ", 1)
        path = tmp_path / name
        assert path.parent.name == newest and path.name != "empty"
        left = path.read_bytes() if path.exists() else None
        assert left == {"cut to half": CONTENT[:50], "zeroed": bytes(100), "removed": None}[damage]
        seen.add((path.name, damage))
        path.write_bytes(CONTENT)
        assert damage_newest(tmp_path, random.Random(seed)) == done
        path.write_bytes(CONTENT)
    assert len(seen) == 6


def test_without_checkpoint_nothing_is_damaged(tmp_path: Path):
    assert damage_newest(tmp_path, random.Random(0)) == damage_newest(tmp_path / "none", random.Random(0)) == ""


@pytest.mark.parametrize("apart", [True, False])
def test_earlier_job_leaves_record_failure_and_checkpoint(tmp_path: Path, apart: bool):
    paths = HostPaths(tmp_path / "algo-1")
    leave_earlier_job(paths, tmp_path / "kept" if apart else None)
    assert RunFolder(paths.output_data / "tfhet").read_summary().cause == CAUSE
    assert paths.failure.read_text() == f"{CAUSE}\n"
    (half,) = (tmp_path / "kept" if apart else paths.checkpoints).iterdir()
    assert half.name.startswith(".checkpoint-")
