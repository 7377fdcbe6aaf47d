"""watching/live.py: what `tfhet top` shows of a run that is watched, while it runs."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from fake_clock import FakeClock

from tfhet.record import RunFolder
from tfhet.report.picture import Watcher
from tfhet.watching.live import EVERY_S, MOST_ROWS, LiveTotals

LIMIT_S = 120
PROCESS = {"kind": "process", "pid": 7, "host": "h", "source": "RANK", "size": 2, "ahead_s": 0.0}


class Rank:
    """Writes the notes of a rank whose steps last 40 ms, `wait_s` of them waiting."""

    def __init__(self, folder: Path, rank: int, wait_s: float):
        self.path, self.wait_s, self.at_s, self.steps = folder / f"notes-h-{rank}.jsonl", wait_s, 10.0, 0
        passes = [{"kind": "pass", "pass": number, "reader": 1, "of": ""} for number in (1, 2)]
        self.write({**PROCESS, "rank": rank}, {"kind": "reader", "reader": 1, "name": "L", "facts": {}}, *passes)

    def write(self, *lines: object) -> None:
        with open(self.path, "a") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines))

    def train(self, count: int) -> None:
        for _ in range(count):
            self.write([1, self.at_s, self.at_s + self.wait_s, 4, 1, self.steps, None])
            self.at_s, self.steps = self.at_s + 0.04, self.steps + 1

    def validate(self, count: int) -> None:
        for _ in range(count):
            self.write([2, self.at_s, self.at_s + 0.001, 4, 0, self.steps, None])
            self.at_s += 0.5


def test_ranks_are_shown_while_they_train(tmp_path):
    run, clock = RunFolder(tmp_path).create(), FakeClock()
    live = LiveTotals(run, tmp_path, clock)
    ranks = [Rank(tmp_path, 0, 0.01), Rank(tmp_path, 1, 0.02)]

    def look():
        clock.sleep(EVERY_S)
        live.write()
        return Watcher(run).look()

    for rank in ranks:
        rank.train(30)
    live.write()
    assert not run.live_path.exists(), "not before its time"
    picture = look()
    (step,) = picture.steps
    assert step.step == 30 and 39 < step.step_ms < 41 and 24 < step.wait_pct < 26
    assert 190 < step.examples_per_s < 210 and picture.state == "training"
    assert "waiting 50" in picture.hosts["rank 1 on h"]
    ranks[0].validate(2 * MOST_ROWS)
    (step,) = look().steps
    assert step.step == 30 and 39 < step.step_ms < 41, "validation is no step"
    ranks[0].write("rubbish", {"kind": "pass"}, [1])
    ranks[0].train(5)
    assert look().steps[-1].step == 35
    live.remove()
    assert run.read_live().ranks == ()


def test_an_error_does_not_reach_the_script(tmp_path, monkeypatch):
    run, clock = RunFolder(tmp_path).create(), FakeClock()
    live = LiveTotals(run, tmp_path, clock)
    Rank(tmp_path, 0, 0.01).train(30)
    monkeypatch.setattr("tfhet.watching.live._ranks", lambda _: 1 / 0)
    clock.sleep(EVERY_S)
    live.write()
    assert "ZeroDivisionError" in run.log_path("live").read_text()


TRAIN = """
import pathlib, time, tfhet
def batches():
    until_s = time.monotonic() + 60
    while not pathlib.Path("go").exists() and time.monotonic() < until_s:
        time.sleep(0.01)
        yield [1, 2]
for _ in tfhet.watch(batches()):
    time.sleep(0.01)
"""


def test_top_shows_the_ranks_of_a_command(tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    ranks = " & ".join(f"RANK={rank} WORLD_SIZE=2 {sys.executable} train.py" for rank in (0, 1))
    words = [sys.executable, "-m", "tfhet", "watch", "--out", "out", "--", "sh", "-c", f"{ranks} & wait"]
    run, until_s = RunFolder(tmp_path / "out"), time.monotonic() + LIMIT_S
    with subprocess.Popen(words, cwd=tmp_path, env=env, stderr=subprocess.DEVNULL) as command:
        try:
            while len(run.read_live().ranks) < 2 and time.monotonic() < until_s:
                time.sleep(0.1)
            picture = Watcher(run).look()
        finally:
            (tmp_path / "go").touch()
            command.wait(LIMIT_S)
    assert picture.state == "training" and not picture.is_over and picture.elapsed_s > 0
    assert {name.partition(" on ")[0] for name in picture.hosts} == {"rank 0", "rank 1"}
    after = Watcher(run).look()
    assert after.state == "succeeded" and not run.live_path.exists()
