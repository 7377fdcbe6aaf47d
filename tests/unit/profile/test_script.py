"""profile/script.py, handed_over.py: `tfhet profile --script`, with scripts in processes of their own."""

from __future__ import annotations

import os
import re
from pathlib import Path

import psutil
import pytest

from tfhet.__main__ import main
from tfhet.profile import Profile
from tfhet.record import Record

NEIGHBOUR = """
import tensorflow as tf
def double(x):
    return 2 * tf.cast(x, tf.float32)
"""
KERAS = """
import sys
from pathlib import Path
import tensorflow as tf
import tfhet
from neighbour import double

def main():
    Path("told.txt").write_text(f"{sys.argv} {__name__}")
    tfhet.distribute(tf.data.Dataset.range(9), training=False)
    try:
        ds = tf.data.Dataset.range(4096).map(double).batch(int(sys.argv[2]))
        tfhet.distribute(ds, steps_per_epoch=3)
        Path("trained").touch()
    finally:
        Path("ended").touch()

if __name__ == "__main__":
    main()
"""
DECLARED = """
from tfhet import Pipeline, SyntheticSource, distribute
distribute(Pipeline(SyntheticSource(512, 4, shape=(8, 6, 3)), "dilate(3); rescale()", 16))
"""


@pytest.fixture(autouse=True)
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: Path) -> None:
    """Scripts in a folder of their own, started from another one."""
    for name in ("scripts", "here"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PYTHONPATH", str(repository))


def profiled(text: str, *more: str, arguments: tuple[str, ...] = ()) -> int:
    Path("../scripts/train.py").write_text(text)
    effort = ("--budget_s", "0.05", "--repeats", "2")
    return main(["profile", "--script", "../scripts/train.py", *effort, *more, "--", *arguments])


def test_a_script_is_run_as_python_runs_it_up_to_the_data_that_it_trains_on(capsys):
    Path("../scripts/neighbour.py").write_text(NEIGHBOUR)
    assert profiled(KERAS, "--json", "profile.json", arguments=("--batch", "64")) == 0
    found = Profile.of(Record.read("profile.json"))
    assert [cost.name for cost in found.costs] == ["source Range", "1 Map double", "2 Batch"]
    assert found.costs[-1].examples == 64
    assert Path("told.txt").read_text() == "['../scripts/train.py', '--batch', '64'] __main__"
    assert Path("ended").exists() and not Path("trained").exists()
    said = capsys.readouterr()
    assert "1 Map double" in said.out and "[profile] 2 of 2 rounds" in said.err
    assert [
        child for child in psutil.Process(os.getpid()).children(recursive=True) if "train.py" in child.cmdline()
    ] == []


@pytest.mark.slow
def test_a_declared_pipeline_is_profiled_stage_by_stage():
    assert profiled(DECLARED, "--json", "profile.json") == 0
    assert Profile.of(Record.read("profile.json")).costs[1].name.startswith("dilate")


@pytest.mark.parametrize(
    ("text", "code", "error"),
    [
        ("print('nothing')", 2, "ended with exit code 0 before it handed data for training to tfhet.distribute"),
        pytest.param(
            "raise OSError('no channel')",
            2,
            "train.py ended with exit code 1 before it handed data .*OSError: no channel",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "import tfhet\ntfhet.distribute([1, 2])",
            1,
            "cannot be profiled: it hands over a list; wanted a Pipeline",
            marks=pytest.mark.slow,
        ),
        (
            "import tensorflow as tf, tfhet\ntfhet.distribute(tf.data.TFRecordDataset('none.tfrecord').batch(2))",
            1,
            "cannot be profiled: it hands over NotFoundError: .*none.tfrecord",
        ),
    ],
    ids=["ends before", "fails before", "no data set", "data that cannot be read"],
)
def test_a_script_whose_data_cannot_be_profiled_says_why(text, code, error, capsys):
    assert profiled(text) == code
    assert re.search(error, capsys.readouterr().err.splitlines()[-1] if code else "", re.S)


@pytest.mark.slow
def test_a_script_that_is_late_is_ended_with_its_children(capsys):
    text = "import subprocess, time\nchild = subprocess.Popen(['sleep', '1234.5'])\ntime.sleep(600)"
    assert profiled(text, "--deadline_s", "8") == 1
    assert "has not called tfhet.distribute within 8 s (--deadline_s)" in capsys.readouterr().err
    assert not [each for each in psutil.process_iter(["cmdline"]) if "1234.5" in (each.info["cmdline"] or ())]


@pytest.mark.parametrize(
    "words", [[], ["synthetic", "--script", "a.py"], ["--script", "a.py", "--stages", "rescale()"]]
)
def test_either_a_target_or_a_script_is_profiled(words, capsys):
    assert main(["profile", *words]) == 2
    assert "give a TARGET, or --script FILE" in capsys.readouterr().err


def test_a_script_that_is_not_there_is_named(capsys):
    assert main(["profile", "--script", "none.py"]) == 2
    assert "--script none.py: no such file" in capsys.readouterr().err
