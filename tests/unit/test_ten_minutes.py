"""What the guide of ten minutes quotes is what its two records hold."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tfhet.__main__ import main
from tfhet.record import Record, RunSummary, document
from tfhet.record.run import KIND
from tfhet.report import numbers, run_table, text

ROOT = Path(__file__).resolve().parents[2]
TOLD = (ROOT / "docs" / "ten-minutes.md").read_text().splitlines()
PROFILE = ROOT / "results" / "ten-minutes-profile.json"


def test_it_quotes_the_run_that_is_recorded():
    summary = RunSummary.from_json(document.read(ROOT / "results" / "ten-minutes.json", KIND))
    lines = [line.rstrip() for line in text(run_table(summary)).splitlines() if line.strip()]
    assert [line for line in lines if line not in TOLD] == []


@pytest.mark.parametrize(
    ("begins", "name"),
    [
        (" source ParallelInterleave", "source_parallelinterleave"),
        (" 1 Shuffle", "1_shuffle"),
        (" 2 ParallelMap parse", "2_parallelmap_parse"),
        (" 3 ParallelMap augment", "3_parallelmap_augment_batch"),
        (" the whole", "whole"),
    ],
)
def test_it_quotes_the_profile_that_is_recorded(begins, name):
    figures = Record.read(PROFILE).figures
    (line,) = [line for line in TOLD if line.startswith(begins)]
    assert f" {numbers.number(figures[f'profile.{name}.us'].value)} " in line


def test_it_quotes_the_plan_that_is_made_of_the_profile(capsys):
    told = [line for line in TOLD if line.startswith(("Today, ", "With a data group ", "Stay with "))]
    asked = ["--cluster", "ml.g5.xlarge", "--accelerator_ms", "1.0..1.2", "--batch_size", "32"]
    assert main(["plan", "--profile", str(PROFILE), *asked]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert len(told) == 3 and [line for line in told if line not in printed] == []


def test_it_quotes_the_request_that_its_job_file_makes(tmp_path, monkeypatch, capsys):
    text = "\n".join(TOLD)
    job = re.search(r"```yaml job\n(.*?)```", text, flags=re.DOTALL)[1]
    answer = re.search(r"tfhet submit --dry-run job.yaml\n```\n\n```text\n(.*?)```", text, flags=re.DOTALL)[1]
    (tmp_path / "job.yaml").write_text(job)
    (tmp_path / "src").mkdir()
    shutil.copy(ROOT / "scripts" / "launcher.py", tmp_path / "src")
    (tmp_path / "src" / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    name = re.search(r'"TrainingJobName": "(.*)"', answer)[1]
    assert main(["submit", "--dry-run", "job.yaml", "--name", name]) == 0
    printed = capsys.readouterr()
    told = [line for line in answer.splitlines() if line != "[...]" and "sourcedir.tar.gz" not in line]  # has a hash
    left = iter([*printed.err.splitlines(), *printed.out.splitlines()])
    assert len(told) > 20 and [line for line in told if line not in left] == []  # an iterator: in this order
