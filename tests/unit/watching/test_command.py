import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tfhet.record import RunFolder
from tfhet.report.picture import Watcher
from tfhet.watching.command import START, environment_of

TRAIN = """
import sys, time, tfhet
def batches():
    for _ in range(30):
        time.sleep(0.01)
        yield [1, 2]
for _ in tfhet.watch(batches()):
    time.sleep(0.01)
print("trained", *sys.argv[1:])
"""
OWN_LOADER = """
import time, tfhet

class Squares:
    def __len__(self):
        return 60
    def __getitem__(self, at):
        return at * at

def squares(shard):
    return Squares()

if __name__ == "__main__":
    train = tfhet.batches(squares, batch_size=2)
    validation = tfhet.batches(squares, batch_size=4, training=False)
    for epoch in range(2):
        for batch in train:
            time.sleep(0.001)
        for batch in validation:
            pass
"""
OWN_PIPELINE = """
import numpy, tfhet

images = numpy.zeros((320, 64, 64, 3), numpy.uint8)
source = tfhet.ArraySource(images, numpy.zeros(320, int))
loader = tfhet.batches(tfhet.Pipeline(source, "gaussian_blur(51, 9.0); rescale()", batch_size=8))
for epoch in range(2):
    for batch in loader:
        pass
"""
LIMIT_S = 120


@pytest.fixture
def watch(tmp_path):
    """Returns a function that watches a command in a folder; `out` is the record."""

    def run(*command: str, **more: str) -> subprocess.CompletedProcess:
        root = Path(__file__).parents[3]
        env = {**os.environ, "PYTHONPATH": str(root), **more}
        words = [sys.executable, "-m", "tfhet", "watch", "--out", "out", "--", *command]
        return subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=LIMIT_S)

    return run


def test_output_is_untouched_and_the_verdict_follows(watch, tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    found = watch(sys.executable, "train.py", "--epochs", "1")
    assert found.returncode == 0 and found.stdout == "trained --epochs 1\n"
    summary = RunFolder(tmp_path / "out").read_summary()
    assert summary.steps == 30 and summary.name == "train"
    assert summary.wait_ms.median >= 10 and summary.step_ms.median >= 20  # a sleep is not shorter than asked for
    assert summary.watched["memory_rss_peak_bytes"] > 1e6 and summary.watched["memory_pss_peak_bytes"] > 1e6
    assert (tmp_path / "out" / "report.html").is_file()
    assert not list((tmp_path / "out").glob("notes-*"))


def test_loaders_of_tfhet_are_seen(watch, tmp_path):
    (tmp_path / "train.py").write_text(OWN_LOADER)
    found = watch(sys.executable, "train.py")
    assert found.returncode == 0, found.stderr
    summary = RunFolder(tmp_path / "out").read_summary()
    assert summary.steps == 60 and summary.watched["other_batches"] == 30 and summary.batch_size == 2


def test_parts_of_a_pipeline_have_their_share(watch, tmp_path):
    (tmp_path / "train.py").write_text(OWN_PIPELINE)
    found = watch(sys.executable, "train.py")
    assert found.returncode == 0, found.stderr
    watched = RunFolder(tmp_path / "out").read_summary().watched
    assert watched["where_role"] == "core"
    assert {each["what"] for each in watched["where"]} == {"read", "gaussian_blur", "rescale"}
    assert "The parts of the pipeline cost: " in found.stderr


@pytest.mark.parametrize(("code", "expected"), [("raise SystemExit(7)", 7), ("import os; os.abort()", 134)])
def test_exit_code_is_of_the_command(watch, tmp_path, code, expected):
    found = watch(sys.executable, "-c", code)
    assert found.returncode == expected and found.stdout == ""
    assert RunFolder(tmp_path / "out").read_summary().exit_code == expected


def test_a_script_watches_itself(tmp_path):
    code = TRAIN.replace("def batches", "watch = tfhet.watch(out='out', name='own')\ndef batches")
    code += "print(watch.verdict())\nwatch.close()\nprint(watch.verdict() != '')\n"
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    words = [sys.executable, "-c", code]
    found = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=LIMIT_S)
    assert found.returncode == 0 and "input-bound" in found.stdout.lower(), found.stderr
    summary = RunFolder(tmp_path / "out").read_summary()
    assert summary.steps == 30 and summary.name == "own" and summary.exit_code == 0


@pytest.mark.parametrize(("end", "state"), [("raise SystemExit(3)", "ended"), ("raise OSError", "failed")])
def test_top_ends_with_a_script_that_watches_itself(tmp_path, end, state):
    code = TRAIN.replace("def batches", "watch = tfhet.watch(out='out')\ndef batches") + end
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, timeout=LIMIT_S)
    picture = Watcher(RunFolder(tmp_path / "out")).look()
    assert picture.is_over and picture.state.startswith(state) and picture.exit_code != 0


def test_the_exit_code_survives_a_lost_record(watch, tmp_path):
    found = watch(sys.executable, "-c", "import shutil; shutil.rmtree('out'); open('out', 'w'); raise SystemExit(5)")
    assert found.returncode == 5 and "incomplete" in found.stderr


def test_standard_output_is_of_the_command(tmp_path, capsys):
    from tfhet.__main__ import main

    assert main(["watch", "--json", "-", "--", "true"]) == 2
    assert main(["watch", "--out", str(tmp_path / "out")]) == 2
    assert "--" in capsys.readouterr().err


def test_unknown_command_is_an_error(watch):
    found = watch("no-such-command-here")
    assert found.returncode == 2 and "no-such-command-here" in found.stderr


def test_a_folder_in_use_is_not_overwritten(watch, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("")
    assert watch(sys.executable, "-c", "").returncode == 2
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_reach_the_command(tmp_path, number):
    code = (
        "import signal, sys, time\n"
        f"signal.signal({int(number)}, lambda *_: sys.exit(9))\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    root = Path(__file__).parents[3]
    words = [sys.executable, "-m", "tfhet", "watch", "--out", "out", "--", sys.executable, "-c", code]
    process = subprocess.Popen(
        words, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(root)}, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.wait(LIMIT_S) == 9
    finally:
        process.kill()
        process.communicate()


def test_own_sitecustomize_runs(watch, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import builtins; builtins.own_ran = __name__\n")
    root = Path(__file__).parents[3]
    code = "import sys; print(own_ran, sys.modules['sitecustomize'].__file__)"
    found = watch(sys.executable, "-c", code, PYTHONPATH=f"{own}{os.pathsep}{root}")
    assert found.stdout.split() == ["sitecustomize", str(own / "sitecustomize.py")]


@pytest.mark.parametrize("option", ["-I", "-S", "-E"])
def test_isolated_python_runs(watch, option):
    found = watch(sys.executable, option, "-c", "print(1)")
    assert found.returncode == 0 and found.stdout == "1\n"


def start(tmp_path: Path, code: str) -> subprocess.CompletedProcess:
    """Runs code with the hooks in an environment without tfhet."""
    env = environment_of({name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, tmp_path)
    words = [sys.executable, "-s", "-c", code]
    return subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=LIMIT_S)


def test_processes_without_a_reader_load_nothing(tmp_path):
    found = start(tmp_path, "import sys; print(*sorted(each for each in sys.modules if 'tfhet' in each))")
    assert found.stdout.split() == [
        *("tfhet.watching.inside", "tfhet.watching.inside.hooks", "tfhet.watching.inside.recorder")
    ]
    assert not list(tmp_path.iterdir())


def test_hooks_need_no_other_package(tmp_path):
    (tmp_path / "ray" / "data").mkdir(parents=True)
    (tmp_path / "ray" / "__init__.py").touch()
    (tmp_path / "ray" / "data" / "__init__.py").touch()
    (tmp_path / "ray" / "data" / "iterator.py").write_text(
        "class DataIterator:\n    def iter_batches(self, *, batch_size):\n        return [[1] * batch_size] * 3\n"
    )
    (tmp_path / "tfhet.py").write_text("raise ImportError('no tfhet in this environment')")
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from ray.data.iterator import DataIterator\n"
        "print(sum(len(each) for each in DataIterator().iter_batches(batch_size=2)))\n"
        "print([each for each in sys.modules if each.partition('.')[0] in ('tfhet', 'numpy', 'lazy_loader')])\n"
    )
    found = start(tmp_path, code)
    total, loaded = found.stdout.splitlines()
    assert total == "6" and "numpy" not in loaded and "'tfhet'" not in loaded
    assert list(tmp_path.glob("notes-*.jsonl")) and not (tmp_path / "errors.log").exists()


def test_the_start_folder_holds_one_module():
    assert [path.name for path in START.glob("*.py")] == ["sitecustomize.py"]
