"""Whole jobs by a data plane and a strategy of another package (tests/toys), whose hosts have three roles.

Nothing of tfhet knows them: the launchers find them by the entry points of a folder on their PYTHONPATH.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tfhet.record import RunFolder, RunSummary

TOYS = Path(__file__).parents[1] / "toys"
GROUPS = {"data_group": {}, "dnn_group": {"ranks": 2}, "toy_group": {}}
JOB = ["--model", "emulated", "--step_ms", "20", "--batch_size", "16", "--chain", "none", "--validation", "none"]
QUICK = ["--data_plane", "toy", "--strategy", "toy", "--lease_s", "5"]
EXAMPLES = 600

pytestmark = pytest.mark.timeout(240)


def run(folder: Path, repository: Path, *arguments: object, faults: tuple[str, ...] = ()) -> tuple[RunSummary, str]:
    """Runs the job by the simulator, in a process of its own; the record, and what all hosts printed."""
    cluster = folder / "cluster.yaml"
    cluster.write_text(json.dumps({"name": "toys", "groups": GROUPS}))  # JSON is YAML
    launcher = [str(repository / "scripts" / "launcher.py"), *QUICK, *JOB]
    options = ["--run-dir", str(folder / "record"), "--start", "alone", *(f"--fault={fault}" for fault in faults)]
    command = [sys.executable, "-m", "tfhet", "simulate", str(cluster), *options]
    env = {**os.environ, "PYTHONPATH": f"{repository}:{TOYS}"}
    done = subprocess.run(
        [*command, "--", *launcher, *map(str, arguments)],
        env=env,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    print(done.stdout, done.stderr)  # pytest shows it for a test that fails
    return RunFolder(folder / "record").read_summary(), done.stdout


@pytest.mark.slow
def test_job_of_three_roles_trains_exactly(tmp_path, repository):
    summary, log = run(tmp_path, repository, "--epochs", 2, "--data", f"synthetic:{EXAMPLES}:12:uneven")
    assert summary.exit_code == 0, summary.cause
    assert set(summary.exit_codes.values()) == {0}
    assert len(summary.exit_codes) == 3  # one launcher on each host, which starts the ranks' launchers
    assert [(epoch["once"], epoch["missing"], epoch["repeated"]) for epoch in summary.epochs] == [(EXAMPLES, 0, 0)] * 2
    assert {name: group["role"] for name, group in summary.cluster.items()} == {
        "data_group": "data",
        "dnn_group": "dnn",
        "toy_group": "toy",
    }
    assert summary.cluster["data_group"]["toy_servers"] == 1
    assert summary.ranks == 2 and summary.steps > 0
    assert "toy_servers 1" in log


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ("kill:toy-server@data-1:after=1", "the toy server on {host} ended (SIGKILL"),
        ("kill:host@toy-1:after=1", "{host} was lost: "),
    ],
    ids=["the plane's process", "the host of the third role"],
)
def test_dead_server_or_helper_is_the_cause(tmp_path, repository, fault, cause):
    arguments = ("--epochs", 200, "--data", f"synthetic:{EXAMPLES}:12:uneven")
    summary, _ = run(tmp_path, repository, *arguments, faults=(fault,))
    group = "toy_group" if "toy-1" in fault else "data_group"
    host = summary.cluster[group]["hosts"][0]
    assert summary.exit_code == 1
    assert cause.format(host=host) in str(summary.cause), summary.cause
    assert all(code for member, code in summary.exit_codes.items() if member != host)
