"""Jobs that resume after the newest checkpoint was cut: the judge counts, not the audit."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from faults.invariants import judged, violations
from faults.job import EPOCHS, WITNESS, FinishedJob, cluster_named, run_job
from faults.judge import Run

CUTS = 20 if os.environ.get("TFHET_FUZZ") == "full" else 3


def run(place: Path, checkpoints: Path) -> FinishedJob:
    """A job that writes a checkpoint every four steps."""
    words = f"--train_script {WITNESS} --model emulated --step_ms 1 --batch_size 16 --epochs {EPOCHS} --shuffle 0"
    words += " --chain none --validation none --export false --checkpoint_every_steps 4"
    return run_job(cluster_named("one-and-one"), words.split(), place, checkpoints=checkpoints)


@pytest.mark.slow
@pytest.mark.horovod
@pytest.mark.timeout(900)
def test_cut_checkpoint_is_passed_over(place: Path) -> None:
    first = run(place / "first", place / "checkpoints")
    assert violations(first, judged(first)) == []
    assert len(list((place / "checkpoints").glob("checkpoint-*"))) > 1
    draw = random.Random(17)
    for number in range(CUTS):
        checkpoints = place / f"checkpoints-{number}"
        shutil.copytree(place / "checkpoints", checkpoints)
        newest = sorted(checkpoints.glob("checkpoint-*"))[-1]
        file = draw.choice(sorted(newest.iterdir()))
        os.truncate(file, size := draw.randrange(file.stat().st_size))
        again = run(place / f"again-{number}", checkpoints)
        where = f"{file.name} cut after {size} bytes"
        assert violations(first, judged(first, again), again) == [], where
        assert 0 < Run.read(again.folder).first < len(Run.read(first.folder).steps), where
        logs = "".join(path.read_text() for path in again.folder.glob("logs/*.log"))
        assert f"{newest.name} is not whole" in logs, where
