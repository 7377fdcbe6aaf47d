"""The guide of ten minutes shows the request that its job file makes."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tfhet.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
TOLD = (ROOT / "docs" / "ten-minutes.md").read_text().splitlines()


def test_it_quotes_the_request_that_its_job_file_makes(tmp_path, monkeypatch, capsys):
    text = "\n".join(TOLD)
    job = re.search(r"```yaml job\n(.*?)```", text, flags=re.DOTALL)[1]
    answer = re.search(r"tfhet submit --dry_run job.yaml\n```\n\n```text\n(.*?)```", text, flags=re.DOTALL)[1]
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
