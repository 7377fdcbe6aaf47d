from __future__ import annotations

import random
from pathlib import Path

import pytest

from tfhet.cluster import HostPaths
from tfhet.record import RunFolder
from tfhet.simulate.other_jobs import CAUSE, damage_newest, leave_earlier_job

CONTENT = bytes(range(1, 101))


@pytest.fixture
def checkpoints(tmp_path: Path) -> Path:
    for name in ("checkpoint-0001-0000000020", "checkpoint-0001-0000000040", ".checkpoint-0002-0000000060.1"):
        (tmp_path / name).mkdir()
        for file in ("state.index", "manifest.json"):
            (tmp_path / name / file).write_bytes(CONTENT)
        (tmp_path / name / "empty").touch()
    return tmp_path


def test_a_file_of_the_newest_checkpoint_loses_a_part_as_the_seed_says(checkpoints: Path):
    seen = set()
    for seed in range(40):
        (said,) = {damage_newest(checkpoints, random.Random(seed))}
        name, damage = said.split(" ", 1)
        path = checkpoints / name
        assert path.parent.name == "checkpoint-0001-0000000040" and path.name != "empty"
        left = path.read_bytes() if path.exists() else None
        assert left == {"cut to half": CONTENT[:50], "zeroed": bytes(100), "removed": None}[damage]
        seen.add((path.name, damage))
        path.write_bytes(CONTENT)
        assert damage_newest(checkpoints, random.Random(seed)) == said
        path.write_bytes(CONTENT)
    assert len(seen) == 6


def test_without_a_checkpoint_nothing_is_damaged(tmp_path: Path):
    assert damage_newest(tmp_path, random.Random(0)) == damage_newest(tmp_path / "none", random.Random(0)) == ""


@pytest.mark.parametrize("apart", [True, False])
def test_an_earlier_job_leaves_its_record_its_failure_and_half_a_checkpoint(tmp_path: Path, apart: bool):
    paths = HostPaths(tmp_path / "algo-1")
    leave_earlier_job(paths, tmp_path / "kept" if apart else None)
    assert RunFolder(paths.output_data / "tfhet").read_summary().cause == CAUSE
    assert paths.failure.read_text() == f"{CAUSE}\n"
    (half,) = (tmp_path / "kept" if apart else paths.checkpoints).iterdir()
    assert half.name.startswith(".checkpoint-")
