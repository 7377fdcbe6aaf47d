from __future__ import annotations

import json
import subprocess
import sys

import pytest

from benchmarks.scripts import suite as scripts
from benchmarks.scripts.stopwatch import HOOKS
from benchmarks.scripts.suite import WatchedStep, watched_steps
from tfhet.record import Record

LOOP, OTHER = "train.py:10", "train.py:20"


def rounded(notes: list) -> list[tuple[float, float]]:
    return [(round(step.dur_s, 3), round(step.wait_s, 3)) for step in watched_steps(notes)]


def test_a_step_of_a_loop_lasts_until_the_script_asks_again():
    notes = [(0.0, "ask", LOOP), (0.1, "got", LOOP), (1.0, "ask", LOOP), (1.3, "got", LOOP), (3.0, "ask", LOOP)]
    assert watched_steps(notes) == [WatchedStep(1.0, 0.1), WatchedStep(2.0, pytest.approx(0.3))]


def test_a_validation_ends_a_step_and_is_none():
    validation = [(2.0, "ask", OTHER), (2.1, "got", OTHER), (3.0, "ask", OTHER)]
    notes = [(0.0, "ask", LOOP), (0.5, "got", LOOP), *validation, (4.0, "ask", LOOP), (4.1, "got", LOOP)]
    assert rounded([*notes, (5.0, "ask", LOOP)]) == [(2.0, 0.5), (1.0, 0.1)]


def test_keras_says_where_the_last_step_of_an_epoch_ends():
    def step(at_s: float) -> list:
        return [(at_s, "ask", "graph"), (at_s + 0.1, "got", "graph"), (at_s + 0.8, "batch_end", "keras")]

    test = [(5.0, "test_begin", "keras"), (5.1, "ask", "graph"), (5.2, "got", "graph"), (6.0, "test_end", "keras")]
    notes = [(0.0, "epoch_begin", "keras"), *step(1.0), *step(2.0), *test, (7.0, "epoch_begin", "keras"), *step(8.0)]
    assert rounded(notes) == [(1.0, 0.1), (0.8, 0.1), (0.8, 0.1)]


def taken(step_ms: float = 20.1, wait_pct: float = 11.0, empty: tuple[str, ...] = ()) -> dict:
    found = {"step_ms": step_ms, "watched_step_ms": 20.0, "wait_pct": wait_pct, "watched_wait_pct": 10.0}
    return {"custom_loop.alone": [found | {"empty": list(empty)}]}


def test_bounds_that_are_not_kept_are_named():
    assert scripts.SUITE.is_kept(Record.of("scripts", scripts.figures_of(taken())))
    cases = {"step_pct": taken(21.0), "wait_points": taken(wait_pct=13.0), "empty": taken(empty=("x",))}
    for name, broken in cases.items():
        record = Record.of("scripts", scripts.figures_of(broken))
        assert not scripts.SUITE.is_kept(record)
        assert scripts.SUITE.notes(record)[0] == f"not kept: scripts.custom_loop.alone.{name}"


SCRIPT = """
import sys, tensorflow as tf
tf.config.threading.set_inter_op_parallelism_threads(2)  # only before the first tensor
train = tf.data.Dataset.range(8).map(lambda n: (tf.fill([4], float(n)), 1.0)).batch(2)
for batch in train:
    pass
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(train, epochs=2, verbose=0, validation_data=train)
assert sys.argv[1:] == ["--rate", "3"]
"""


def test_the_stopwatch_sees_what_a_script_and_keras_ask_for(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(scripts.HERE.parents[1]), "SM_OUTPUT_DATA_DIR": str(tmp_path)}
    command = [sys.executable, str(scripts.HERE / "stopwatch.py"), str(script), "--rate", "3"]
    subprocess.run(command, env=env, check=True, timeout=100)
    notes = json.loads((tmp_path / "stopwatch-0.json").read_text())
    assert [kind for _, kind, site in notes if site.startswith(str(script))] == ["ask", "got"] * 4 + ["ask"]
    in_keras = [(kind, site) for _, kind, site in notes if site in ("keras", "graph")]
    assert in_keras.count(("got", "graph")) == 2 * (4 + 4)
    counts = {kind: in_keras.count((kind, "keras")) for kind in HOOKS.values()}
    assert counts == {"batch_end": 8, "epoch_begin": 2, "test_begin": 2, "test_end": 2}
    eager = next(site for _, _, site in notes)
    assert len(watched_steps([note for note in notes if note[2] != eager])) == 8
