"""`tfhet init`: the files of a first job, which work at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfhet import simulate, submit
from tfhet.__main__ import main

ROOT = Path(__file__).resolve().parents[3]
FILES = ["cluster.yaml", "job.yaml", "train.py"]


@pytest.fixture
def job(tmp_path, monkeypatch, capsys) -> Path:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "job"]) == 0
    monkeypatch.chdir(tmp_path / "job")
    return tmp_path / "job"


def test_it_writes_a_script_a_cluster_and_a_job_and_says_what_to_type(job, capsys):
    assert sorted(path.name for path in job.iterdir()) == FILES
    assert main(["init", str(job.parent / "another")]) == 0
    said = capsys.readouterr().out
    for command in ("tfhet simulate cluster.yaml -- ", "tfhet package src ", "tfhet submit --dry_run job.yaml"):
        assert command in said


def test_the_cluster_is_one_that_can_be_simulated_and_has_a_data_group(job):
    cluster = simulate.load("cluster.yaml")
    assert {name: group.hosts for name, group in cluster.groups.items()} == {"data_group": 1, "dnn_group": 1}


def test_the_job_is_accepted_once_its_code_is_packaged(job, capsys):
    assert main(["submit", "--dry-run", "job.yaml"]) == 2
    assert "src is none (tfhet package makes one)" in capsys.readouterr().err
    assert main(["package", "src", "--script", "train.py"]) == 0
    assert main(["submit", "--dry-run", "job.yaml"]) == 0
    assert '"train_script": "\\"train.py\\""' in capsys.readouterr().out
    assert submit.read(Path("job.yaml")).code.directory == Path("src")


@pytest.mark.parametrize("name", FILES)
def test_it_writes_over_nothing(name, tmp_path, capsys):
    (tmp_path / name).write_text("mine")
    assert main(["init", str(tmp_path)]) == 2
    assert f"{tmp_path}: {name} is there already" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [name] and (tmp_path / name).read_text() == "mine"


def test_the_checkouts_entry_point_is_that_of_the_package():
    assert submit.LAUNCHER.read_text() == (ROOT / "scripts" / "launcher.py").read_text()
