"""`tfhet launch`: a launcher without a file of its own."""

from __future__ import annotations

import sys

import pytest

from tfhet import arguments, launch, planes
from tfhet.__main__ import main


@pytest.fixture
def launched(monkeypatch) -> list[object]:
    """Arguments of the launcher (None: the process's) and of the process."""
    got: list[object] = []
    monkeypatch.setattr(launch, "main", lambda argv=None: got.append((argv, sys.argv[1:])) or 3)
    return got


def test_words_go_to_the_launcher(launched, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["pytest"])
    assert main(["launch", "--train_script", "train.py", "--help", "--", "more"]) == 3
    assert launched == [(["--train_script", "train.py", "--help", "--", "more"], [])]


def test_own_process_becomes_the_launcher(launched, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["tfhet", "launch", "--lease_s", "3"])
    assert main() == 3
    assert launched == [(None, ["--lease_s", "3"])]


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_starts_no_launcher(launched, word, capsys):
    with pytest.raises(SystemExit) as end:
        main(["launch", word])
    assert end.value.code == 0 and not launched
    out = capsys.readouterr().out
    assert out.startswith("usage: tfhet launch")
    for kind in (launch.LaunchSettings, planes.get("feed").settings):
        assert all(f"--{name} " in out and words for name, words in arguments.described(kind).items())


def test_wrong_arguments_end_with_2(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SAGEMAKER_BASE_DIR", str(tmp_path))
    assert main(["launch", "--lease_s", "soon"]) == 2
    assert "--lease_s" in capsys.readouterr().err
    assert "--lease_s" in (tmp_path / "output" / "failure").read_text()
