"""A job on spot hosts that are taken away, and its retry, as `tfhet simulate --job` runs both."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from tfhet.__main__ import main
from tfhet.record import RunFolder, RunSummary

pytestmark = [pytest.mark.timeout(280), pytest.mark.horovod, pytest.mark.slow]

EXAMPLES, EPOCHS = 6000, 3
JOB = f"""\
name: spot
image: 123456789012.dkr.ecr.us-east-1.amazonaws.com/tfhet:0.1
role: arn:aws:iam::123456789012:role/training
output: s3://my-bucket/jobs
code: {{directory: code, script: launcher.py}}
hyperparameters:
  model: emulated
  step_ms: 20
  epochs: {EPOCHS}
  validation: none
  data: "synthetic:{EXAMPLES}:300:uneven"
  checkpoint_every_steps: 40
pipeline: {{chain: none, batch_size: 32, shuffle: 500}}
groups:
  data_group: {{type: ml.c5.xlarge, count: 1}}
  dnn_group: {{type: ml.p3.8xlarge, count: 1, ranks: 2}}
limits: {{max_run_s: 600}}
spot: {{max_wait_s: 1200}}
"""


def run(folder: Path, name: str, *options: str) -> tuple[int, RunSummary, str]:
    """The exit code, the summary and all logs of one attempt, with the checkpoints that all attempts share."""
    record = folder / name
    places = ["--run-dir", str(record), "--checkpoints", str(folder / "checkpoints")]
    code = main(["simulate", "--job", str(folder / "job.yaml"), *places, "--max-run-s", "120", *options])
    logs = "".join(path.read_text() for path in sorted(RunFolder(record).logs_path.glob("*.log")))
    return code, RunFolder(record).read_summary(), logs


def test_retry_resumes_at_the_interrupted_step(tmp_path, repository):
    (tmp_path / "code").mkdir()
    shutil.copy(repository / "scripts" / "launcher.py", tmp_path / "code")
    (tmp_path / "job.yaml").write_text(JOB)
    taken_away = [f"--fault=sigterm:host@{host}:after=1.5" for host in ("data-1", "dnn-1")]

    code, first, _ = run(tmp_path, "first", *taken_away)
    assert code == 1 and set(first.exit_codes.values()) == {143}, first.cause
    assert "was asked to stop (SIGTERM)" in (first.cause or "")
    assert first.steps and sum(epoch["once"] for epoch in first.epochs) < EPOCHS * EXAMPLES

    code, retry, logs = run(tmp_path, "retry")
    assert code == 0, retry.cause
    assert f"resumed at epoch={retry.epochs[0]['epoch']} step={first.steps}" in logs
    assert (retry.steps or 0) > first.steps
    seen: Counter[int] = Counter()
    for epoch in (*first.epochs, *retry.epochs):
        assert (epoch["before"], epoch["repeated"]) == (seen[epoch["epoch"]], 0)
        seen[epoch["epoch"]] += epoch["once"]
    assert seen == dict.fromkeys(range(EPOCHS), EXAMPLES)
