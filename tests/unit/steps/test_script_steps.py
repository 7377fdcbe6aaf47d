from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from fake_clock import FakeClock
from sent import Sent

from tfhet.messages import MetricLine, rank
from tfhet.pipeline import Pipeline
from tfhet.planes import distribute
from tfhet.record import RunFolder, Timeline
from tfhet.source import SyntheticSource
from tfhet.steps import ScriptSteps, StepCallback, script_steps as room, step
from tfhet.steps.finder import MAY_END
from tfhet.steps.noted import Note
from tfhet.strategies import JobContext

JOB = JobContext("job", "homogeneous", rank=0, size=2, local_size=2, host="algo-1")


class Played:
    """A data set whose notes are written by the test."""

    def __init__(self, dataset: tf.data.Dataset, ops: Any | None, has_ids: bool = False, passes: Any = None):
        self.dataset = dataset
        self.notes: list[Note] = []
        self.ids = np.zeros([2, 0], np.int64)
        self.lengths: dict[str, int] = {}
        self.pending_s: dict[str, float] = {}

    def take_ids(self) -> np.ndarray:
        taken, self.ids = self.ids, self.ids[:, :0]
        return taken

    def take(self) -> list[Note]:
        taken, self.notes = self.notes, []
        return taken

    def take_deliveries(self) -> list[Note]:
        return []


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptSteps:
    monkeypatch.setattr("tfhet.steps.noted.NotedDataset", Played)
    folders = {"record_dir": str(tmp_path / "record"), "timeline_dir": str(tmp_path / "record" / "timeline")}
    made = ScriptSteps(JobContext(**{**vars(JOB), **folders}), Sent(), FakeClock(100.0))
    monkeypatch.setattr(ScriptSteps, "_of_process", made)
    return made


def play(steps: ScriptSteps, *notes: Note, of: int = 0) -> None:
    steps._sets[of].noted.notes += notes  # type: ignore[attr-defined]


def epoch(start_s: float, steps: int = 10) -> list[Note]:
    """Steps of 0.1 s with a wait of 0.025 s, and the end of the pass."""
    batches = [Note(start_s + 0.1 * n, start_s + 0.1 * n + 0.025, 16, n) for n in range(steps)]
    return [*batches, Note(start_s + 0.1 * steps, start_s + 0.1 * steps, None, steps)]


def test_script_leaves_summary_and_timeline(steps, tmp_path):
    steps.watch(tf.data.Dataset.range(3))
    play(steps, *epoch(100.0), *epoch(102.0))
    steps.close()
    summary = RunFolder(tmp_path / "record").read_summary()
    assert (summary.job_id, summary.mode, summary.ranks) == ("job", "homogeneous", 2)
    assert (summary.steps, summary.batch_size) == (20, 16)
    assert summary.step_ms is not None and summary.step_ms.median == pytest.approx(100.0)
    assert summary.wait_ms is not None and summary.wait_ms.median == pytest.approx(25.0)
    assert summary.wait_pct == pytest.approx(25.0)
    assert summary.examples_per_s == pytest.approx(320.0)
    assert summary.first_batch_s == pytest.approx(0.025)
    assert list(summary.epochs) == [{"epoch": n, "steps": 10, "examples": 320} for n in (0, 1)]
    timeline = Timeline.join((tmp_path / "record" / "timeline").glob("*.jsonl"))
    assert [each.step for each in timeline.steps] == list(range(1, 21))
    assert [pause.name for pause in timeline.pauses] == ["between epochs"]


def test_launcher_gets_totals_and_metric_lines(steps):
    steps.watch(tf.data.Dataset.range(3))
    sent = steps._channel.reports
    play(steps, *epoch(100.0))
    steps.take()
    assert [type(each) for each in sent] == [rank.Progress] and sent[0].steps == 10
    steps.take()
    assert len(sent) == 1  # nothing happened
    steps._clock.sleep(room.LINE_S)
    play(steps, *epoch(102.0))
    steps.take()
    line = MetricLine.parse(sent[-1].line)
    assert (line.step, line.epoch, line.loss) == (20, 1, None)
    assert line.step_ms == pytest.approx(100.0) and line.wait_pct == pytest.approx(25.0)


def pipeline(**how: Any) -> Pipeline:
    return Pipeline(SyntheticSource(100, 4), "random_flip(); rescale()", batch_size=16, **how)


def deliver(steps: ScriptSteps, ids: np.ndarray, epoch: int) -> None:
    played = steps._sets[0].noted
    played.ids = np.concatenate([played.ids, np.stack([ids, np.full_like(ids, epoch)])], axis=1)  # type: ignore


def delivered(steps: ScriptSteps) -> list[rank.Delivered]:
    return [each for each in steps._channel.reports if isinstance(each, rank.Delivered)]  # type: ignore


@pytest.mark.parametrize(("how", "over"), [({}, 1), ({"interleave": 4}, 0), ({"shuffle": 9}, 0)])
def test_ids_are_reported_by_epoch(steps, tmp_path, how, over):
    steps.watch(tf.data.Dataset.range(3), pipeline=pipeline(**how))
    deliver(steps, np.arange(100), 0)
    deliver(steps, np.arange(90), 2)
    play(steps, *epoch(100.0))  # 160 examples
    steps.take()
    assert delivered(steps) == []  # few, and nothing is due
    deliver(steps, np.arange(90, 100), 2)
    steps.close()
    found = [(each.epoch, rank.unpacked(each.ids).tolist(), each.expected, each.over) for each in delivered(steps)]
    assert found == [(number, list(range(100)), 100, over) for number in (0, 2)]
    (standing,) = [each for each in steps._channel.reports if isinstance(each, rank.Standing)]
    assert (standing.steps, standing.delivered, standing.unused) == (10, 200, 40)
    assert (standing.step_ms, standing.wait_pct) == (pytest.approx(100.0), pytest.approx(25.0))
    summary = RunFolder(tmp_path / "record").read_summary()
    assert summary.stages_where == {"random_flip()": "trainer", "rescale()": "trainer"}
    assert summary.not_counted is None and summary.batch_size == 16


def test_many_ids_are_sent_in_parts(steps):
    steps.watch(tf.data.Dataset.range(3), pipeline=pipeline())
    deliver(steps, np.arange(rank.MOST_IDS + 1), 0)
    steps.take()
    assert [len(rank.unpacked(each.ids)) for each in delivered(steps)] == [rank.MOST_IDS, 1]


@pytest.mark.parametrize("has_compiler", [True, False])
def test_record_states_why_examples_are_not_counted(steps, tmp_path, monkeypatch, has_compiler):
    if not has_compiler:
        monkeypatch.setattr("tfhet.native.ops", lambda name: None)
        assert not steps.takes_ids(True)
    steps.watch(tf.data.Dataset.range(3), pipeline=None if has_compiler else pipeline())
    play(steps, *epoch(100.0))
    steps.close()
    summary = RunFolder(tmp_path / "record").read_summary()
    assert ("ids" if has_compiler else "compiler") in str(summary.not_counted)
    assert len(summary.stages_where) == (0 if has_compiler else 2)


def test_validation_is_separate_and_counts_as_progress(steps):
    steps.watch(tf.data.Dataset.range(3))
    steps.watch(tf.data.Dataset.range(3), training=False)
    play(steps, *epoch(100.0)[:-1])
    play(steps, *epoch(101.5), of=1)
    play(steps, *epoch(103.0))
    steps.take()
    steps.close()
    assert [pause.name for pause in steps.meter.pauses] == ["validation"]
    assert steps.meter.steps.added == 20


def test_script_may_declare_steps_and_loss(steps):
    steps.watch(tf.data.Dataset.range(3))
    clock = steps._clock
    for number in range(4):
        at_s = clock.monotonic()
        with step() as this:
            play(steps, Note(at_s, at_s + 0.1, 16, 2 * number), Note(at_s + 0.5, at_s + 0.6, 16, 2 * number + 1))
            clock.sleep(1.0)
            this.loss = tf.constant(0.25)
        clock.sleep(3.0)  # part of no step
    steps.close()
    assert [round(each.dur_s, 6) for each in steps.meter.steps] == [1.0] * 4
    assert [each.examples for each in steps.meter.steps] == [64] * 4
    assert MetricLine.parse(steps._channel.reports[-1].line).loss == 0.25


def test_full_disk_does_not_end_the_measuring(steps, monkeypatch, caplog):
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    steps.watch(tf.data.Dataset.range(3))
    monkeypatch.setattr(RunFolder, "write_summary", full)
    monkeypatch.setattr(room, "TAKE_S", 0.01)
    play(steps, *epoch(100.0))
    steps._clock.sleep(room.LINE_S)
    thread = threading.Thread(target=steps._run, daemon=True)
    thread.start()
    for _ in range(500):
        steps._clock.sleep(room.LINE_S)
        if len(steps._channel.reports) > 9:
            break
        time.sleep(0.01)
    steps._closes.set()
    thread.join(10)
    assert not thread.is_alive() and len(steps._channel.reports) > 9
    assert steps.meter.steps.added == 10
    assert caplog.text.count("No space left") == 1


def test_callback_says_the_loss_and_where_a_step_may_end(steps):
    steps.watch(tf.data.Dataset.range(3))
    StepCallback().on_train_batch_end(0, {"loss": 2.0})
    assert [each.says for each in steps._said] == [MAY_END] and steps._loss == 2.0


def test_nothing_is_noted_without_a_launcher(monkeypatch):
    monkeypatch.setattr(ScriptSteps, "_of_process", None)
    data = tf.data.Dataset.range(3)
    assert distribute(data, job=JobContext("job", "local")) is data
    with step():
        pass
    assert ScriptSteps.here() is None
