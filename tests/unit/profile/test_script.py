"""profile/script.py, handed_over.py: `tfhet profile --script`, with scripts in processes of their own."""

from __future__ import annotations

import json
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
    """Scripts are in a folder of their own and started from another one."""
    for name in ("scripts", "here"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PYTHONPATH", str(repository))


def profiled(text: str, *more: str, arguments: tuple[str, ...] = ()) -> int:
    Path("../scripts/train.py").write_text(text)
    effort = ("--budget_s", "0.05", "--repeats", "2")
    return main(["profile", "--script", "../scripts/train.py", *effort, *more, "--", *arguments])


def test_script_runs_up_to_its_training_data(capsys):
    Path("../scripts/neighbour.py").write_text(NEIGHBOUR)
    assert profiled(KERAS, "--json", "profile.json", arguments=("--batch", "64")) == 0
    found = Profile.of(Record.read("profile.json"))
    assert [cost.name for cost in found.costs] == ["source Range", "1 Map double", "2 Batch"]
    assert found.costs[-1].examples == 64
    assert Path("told.txt").read_text() == "['../scripts/train.py', '--batch', '64'] __main__"
    assert Path("ended").exists() and not Path("trained").exists()
    out, err = capsys.readouterr()
    assert "1 Map double" in out and "[profile] 2 of 2 rounds" in err
    children = psutil.Process(os.getpid()).children(recursive=True)
    assert [child for child in children if "train.py" in child.cmdline()] == []


OF_ONE_RANK = """
import json, os, socket
from pathlib import Path
import numpy as np
import tfhet

class Rows:
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return np.full(3, index)

def make(shard):
    return Rows()

if __name__ == "__main__":
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "SM_HOSTS", "SM_NUM_CPUS", "SM_MODEL_DIR")
    config = json.loads(os.environ["TF_CONFIG"])
    (worker,) = config["cluster"]["worker"]
    store, server = socket.socket(), socket.socket()
    store.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    store.bind((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(("127.0.0.1", int(worker.rpartition(":")[2])))
    Path("place.json").write_text(json.dumps([[os.environ[name] for name in names[:4]], config["task"]]))
    assert [os.environ[name] for name in names[4:]]
    next(iter(tfhet.batches(make, batch_size=8)))
"""


def test_script_is_the_only_rank(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setenv("SM_MODEL_DIR", "elsewhere")
    assert profiled(OF_ONE_RANK, "--json", "profile.json") == 0
    assert json.loads(Path("place.json").read_text()) == [["0", "1", "0", "1"], {"type": "worker", "index": 0}]


UNREADABLE = "import tensorflow as tf, tfhet\ntfhet.distribute(tf.data.TFRecordDataset('none.tfrecord').batch(2))"


@pytest.mark.slow  # each case imports TensorFlow in a process of its own
@pytest.mark.parametrize(
    ("text", "code", "error"),
    [
        (DECLARED, 0, ""),
        ("print('nothing')", 2, r"exit code 0 .*tfhet\.distribute"),
        ("raise OSError('no channel')", 2, "exit code 1 .*OSError: no channel"),
        ("import tfhet\ntfhet.distribute([1, 2])", 1, "list"),
        (UNREADABLE, 1, r"NotFoundError: .*none\.tfrecord"),
    ],
    ids=["declared", "ends before", "fails before", "no dataset", "unreadable"],
)
def test_scripts_end_with_a_code(text, code, error, capsys):
    assert profiled(text, "--json", "profile.json") == code
    assert re.search(error, capsys.readouterr().err.splitlines()[-1], re.S)
    if not code:
        assert Profile.of(Record.read("profile.json")).costs[1].name.startswith("dilate")


@pytest.mark.slow  # the script has 8 s
def test_late_script_ends_with_its_children(capsys):
    text = "import subprocess, time\nchild = subprocess.Popen(['sleep', '1234.5'])\ntime.sleep(600)"
    assert profiled(text, "--deadline_s", "8") == 1
    assert "--deadline_s" in capsys.readouterr().err
    assert not [each for each in psutil.process_iter(["cmdline"]) if "1234.5" in (each.info["cmdline"] or ())]
