"""Runs that are taken up from checkpoints of which the newest was cut: the judge counts, not the audit."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from benchmarks.judge.judge import Run, Verdict, content_of, judge
from tfhet.record import RunSummary
from tfhet.simulate import ClusterFile, Fault, GroupFile, simulate
from tfhet.source.digits import digits

pytestmark = [pytest.mark.horovod, pytest.mark.slow, pytest.mark.timeout(900)]

EPOCHS = 2
CUTS = 20 if os.environ.get("TFHET_FUZZ") == "full" else 3
CLUSTER = ClusterFile(
    "cut", {"data_group": GroupFile(1), "dnn_group": GroupFile(1, ranks=2)}, {"training": "digits/train"}
)


def run(repository: Path, folder: Path, checkpoints: Path, *faults: str) -> RunSummary:
    """One run of a job that writes a checkpoint every four steps."""
    step_ms = 150 if faults else 1  # a slow machine, too, takes enough steps for two checkpoints
    words = (
        f"--train_script benchmarks/job_scripts/witness_train.py --model emulated --step_ms {step_ms} --batch_size 16"
    )
    words += f" --epochs {EPOCHS} --shuffle 0 --chain none --validation none --export false --checkpoint_every_steps 4"
    command = [str(repository / "scripts" / "launcher.py"), *words.split()]
    chosen = [Fault.parse(text) for text in faults]
    return simulate(CLUSTER, command, folder, max_run_s=120.0, checkpoints=checkpoints, faults=chosen)


def test_every_example_comes_once_though_the_newest_checkpoint_was_cut(repository, tmp_path):
    first = run(repository, tmp_path / "first", tmp_path / "checkpoints", "sigterm:launcher@dnn-1:after=6")
    assert first.exit_code == 143, first.cause
    assert len(list((tmp_path / "checkpoints").glob("checkpoint-*"))) > 1
    expected, draw = content_of(digits() / "train"), random.Random(17)
    for number in range(CUTS):
        checkpoints = tmp_path / f"checkpoints-{number}"
        shutil.copytree(tmp_path / "checkpoints", checkpoints)
        newest = sorted(checkpoints.glob("checkpoint-*"))[-1]
        file = draw.choice(sorted(newest.iterdir()))
        size = draw.randrange(file.stat().st_size)
        os.truncate(file, size)
        again = run(repository, tmp_path / f"again-{number}", checkpoints)
        where = f"{file.name} cut after {size} bytes"
        assert again.exit_code == 0, f"{where}: {again.cause}"
        runs = [Run.read(tmp_path / "first"), Run.read(tmp_path / f"again-{number}")]
        assert 0 < runs[1].first < len(runs[0].steps), where
        assert judge(runs, expected, EPOCHS) == Verdict(), where
        logs = "".join(path.read_text() for path in (tmp_path / f"again-{number}").glob("logs/*.log"))
        assert f"{newest.name} is not whole" in logs, where
        shutil.rmtree(checkpoints)
