"""The examples run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tfhet.__main__ import main
from tfhet.simulate import load

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def blocks(guide: str, language: str) -> list[str]:
    """The fenced blocks of a guide that begin with a language, and its marks."""
    text = (ROOT / "docs" / guide).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(  # slow: each trains three epochs in a process of its own
    "name",
    [
        pytest.param("keras", marks=[pytest.mark.horovod, pytest.mark.slow]),
        pytest.param("horovod-loop", marks=[pytest.mark.horovod, pytest.mark.slow]),
        pytest.param("multi-worker", marks=pytest.mark.slow),
        pytest.param("mirrored", marks=pytest.mark.slow),
        pytest.param("own-stage", marks=pytest.mark.slow),
        pytest.param("photos", marks=pytest.mark.slow),
    ],
)
def test_example_trains_alone(name, tmp_path):
    kept = {variable: value for variable, value in os.environ.items() if not variable.startswith(("SM_", "TFHET_JOB"))}
    done = subprocess.run(
        [sys.executable, EXAMPLES / name / "train.py"],
        cwd=tmp_path,
        env={**kept, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "model" / "1" / "saved_model.pb").is_file()
    losses = re.findall(r"^(?:epoch|\d+/\d+) .*?loss:? (\d+\.\d+)", done.stdout, flags=re.MULTILINE)
    assert len(losses) == 3, done.stdout  # one for each epoch


def test_every_example_is_listed():
    listed = re.findall(r"^\| \[(\S+)\]\(\1/\)", (EXAMPLES / "README.md").read_text(), flags=re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("cluster.yaml")), ids=lambda path: path.parent.name)
def test_cluster_file_has_two_groups(path):
    other = "ps_group" if path.parent.name == "parameter-server" else "data_group"
    assert {other, "dnn_group"} == set(load(str(path)).groups)


def test_job_file_equals_cluster_file(tmp_path, monkeypatch):
    shutil.copy(EXAMPLES / "job" / "job.yaml", tmp_path)
    (tmp_path / "src").mkdir()
    shutil.copy(ROOT / "scripts" / "launcher.py", tmp_path / "src")
    shutil.copy(EXAMPLES / "keras" / "train.py", tmp_path / "src")
    monkeypatch.chdir(tmp_path)
    assert main(["submit", "--dry-run", "job.yaml", "--json", "request.json"]) == 0
    asked = json.loads(Path("request.json").read_text())["ResourceConfig"]["InstanceGroups"]
    cluster = load(str(EXAMPLES / "job" / "cluster.yaml"))
    assert {each["InstanceGroupName"]: (each["InstanceType"], each["InstanceCount"]) for each in asked} == {
        name: (group.instance_type, group.hosts) for name, group in cluster.groups.items()
    }
