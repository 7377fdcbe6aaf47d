from __future__ import annotations

import re
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fake_clock import FakeClock

from tfhet.messages import rank
from tfhet.record import WARM_UP_STEPS, Pause, RunFolder, StepTime, Timeline, TimelineFile, Waiting
from tfhet.steps.kept import ENDS, MOST, Sample
from tfhet.steps.meter import Journal, Meter
from tfhet.strategies import JobContext
from tfhet.telemetry import rank_summaries

# The documented line: `[tfhet] step=500 epoch=2 step_ms=86.1 examples_per_s=95143 loss=2.30 wait_pct=3.1`
NUMBER = r"([0-9.]+)"
LINE = re.compile(
    rf"^\[tfhet\] step=(\d+) epoch=(\d+) step_ms={NUMBER} examples_per_s={NUMBER}(?: loss={NUMBER})? wait_pct={NUMBER}$"
)


def meter(*steps: tuple[float, float, float]) -> Meter:
    made = Meter()
    for step in steps:
        made.add(StepTime(*step))
    return made


def test_line_has_numbers_since_the_last_one():
    made = meter((0.1, 0.01, 8), (0.3, 0.03, 8))
    found = LINE.match(str(made.line(2, 0, 2.30258)))
    assert found is not None
    assert found.groups() == ("2", "0", "200.0", "40", "2.3026", "10.0")
    made.add(StepTime(0.5, 0.5, 10))
    found = LINE.match(str(made.line(3, 1, None)))
    assert found is not None
    assert found.groups() == ("3", "1", "500.0", "20", None, "100.0")


def test_warm_up_steps_are_separate():
    slow, fast = (9.0, 9.0, 1), (0.1, 0.025, 10)
    made = meter(*[slow] * WARM_UP_STEPS, *[fast] * 4)
    line = made.line(7, 0, None)
    assert (line.step_ms, line.wait_pct) == (pytest.approx(100), pytest.approx(25)), "as in the table"
    assert made.step_ms().median == pytest.approx(100)  # type: ignore[union-attr]
    assert made.wait_ms().median == pytest.approx(25)  # type: ignore[union-attr]
    assert made.wait_pct() == pytest.approx(25)
    assert made.examples_per_s() == pytest.approx(100)


def test_short_and_empty_runs():
    assert meter((0.2, 0.1, 6)).wait_pct() == pytest.approx(50)  # no longer than the warm-up
    made = meter()
    assert (made.step_ms(), made.wait_ms(), made.wait_pct(), made.examples_per_s()) == (None, None, None, None)


def of_parts(*allreduce_s: float | None) -> Meter:
    made = Meter()
    for one in allreduce_s:
        made.add(StepTime(1.0, 0.25, 8, copy_s=0.125, allreduce_s=one))
    return made


def test_parts_of_a_step_are_medians():
    assert of_parts(0.5, 0.25, 0.0).parts_ms() == {"wait": 250.0, "copy": 125.0, "compute": 375.0, "allreduce": 250.0}
    assert Meter().parts_ms() == {}
    assert "wait_ms=250.00 copy_ms=125.00 " in of_parts(0.5, 0.25, 0.0).parts_line()
    # An allreduce that is not known of every step is no part.
    assert of_parts(0.5, None).parts_ms() == {"wait": 250.0, "copy": 125.0, "compute": 375.0}


def test_pauses_are_counted_by_name():
    clock, made = FakeClock(3.0), Meter()
    for name, seconds in (("checkpoint", 2.0), ("validation", 5.0), ("checkpoint", 1.0)):
        with pytest.raises(OSError), made.pause(name, clock):
            clock.sleep(seconds)
            raise OSError("a full disk")
    assert made.summary(JobContext("job", "local")).checkpoint_s == 3.0
    assert [each.at_s for each in made.pauses] == [3.0, 5.0, 10.0]


def test_totals_include_the_warm_up():
    made = meter((0.5, 0.25, 6), (0.25, 0.125, 8))
    assert made.totals() == rank.Progress(steps=2, examples=14.0, step_s=0.75, wait_s=0.375)
    made.line(2, 0, None)  # takes nothing away
    assert made.totals().steps == 2
    assert Meter().totals() == rank.Progress(0, 0.0, 0.0, 0.0)


def test_cpu_is_counted_over_several_steps():
    made, cpu_s = Meter(), 0.0
    for steps, spent_s in ((2, 8.0), (2, 4.0), (3, 0.25), (2, 0.75), (10, 2.0)):
        for _ in range(steps):
            made.add(StepTime(0.1, 0.0))
        cpu_s += spent_s
        made.count_cpu(cpu_s)
    assert made.summary(JobContext("job", "local")).cpu_ms.samples == (200.0, 200.0)  # 5 steps in 1 s, 10 in 2 s
    assert Meter().summary(JobContext("job", "local")).cpu_ms is None


def test_steps_are_kept_without_rank_and_host():
    given = [
        StepTime(0.3, 0.1, 64, 0.01, None, 12.5, 1, 0),
        StepTime(0.2, 0.0, 31.5, 0.0, 0.05, 12.8, 2, 1),
        StepTime(0.1, 0.0, step=3, epoch=1),
    ]
    made = Meter()
    for each in given:
        made.add(each)
    assert list(made.steps) == made.steps[:] == given
    assert (made.steps[-1], made.steps[1:], len(made.steps)) == (given[2], given[1:], 3)
    assert isinstance(made.steps[0].examples, int) and isinstance(made.steps[0].step, int), "as the timeline has them"
    assert made.parts_ms().keys() == {"wait", "copy", "compute"}, "the allreduce of one is not known"


# Long runs


@pytest.fixture(scope="module")
def long_run() -> tuple[Meter, int]:
    """A meter of 100,000 steps of 0.1 s, in which every eighth step waits 0.05 s, and one at 71,000 waits 9 s."""
    made, steps = Meter(), 100_000
    for number in range(1, steps + 1):
        wait_s = 9.0 if number == 71_000 else 0.05 * (number % 8 == 0)
        made.add(StepTime(max(wait_s, 0.1), wait_s, 8, at_s=float(number), step=number, epoch=number // 5000))
    return made, steps


def test_long_runs_keep_ends_slow_steps_and_totals(long_run):
    made, steps = long_run
    numbers = [step.step for step in made.steps]
    assert len(numbers) <= MOST and numbers == sorted(set(numbers)) and made.steps.added == steps
    assert numbers[:ENDS] == list(range(1, ENDS + 1)) and numbers[-ENDS:] == list(range(steps - ENDS + 1, steps + 1))
    assert [step.times for step in made.steps if step.step == 71_000] == [1]
    assert sum(step.times for step in made.steps) == steps
    assert made.totals().examples == 8 * steps
    wait_s = 0.05 * (steps // 8 - 1) + 9.0
    assert made.wait_pct() == pytest.approx(100 * wait_s / (0.1 * steps + 8.9), rel=1e-3)
    assert np.mean(made.measured("wait_s") > 0) == pytest.approx(1 / 8, abs=0.04)
    summary = made.summary(JOB)
    for found in (Waiting.of(list(made.steps)), Waiting.of_run(summary)):
        assert found.stalls.total_s == pytest.approx(9.0, rel=0.02) and len(found.stalls.waits_s) == 1
        assert found.mean_pct == pytest.approx(made.wait_pct(), abs=1.0)


def test_records_of_long_runs_are_small(long_run, tmp_path):
    made, steps = long_run
    folder = RunFolder(tmp_path / "run").create()
    job = replace(JOB, rank=0, timeline_dir=str(folder.path / "timeline"))
    Journal(job, made).write(is_last=True)
    folder.write_summary(made.summary(job))
    folder.join_timeline()
    assert folder.summary_path.stat().st_size < 2e6 and folder.timeline_path.stat().st_size < 2e6
    assert sum(summary.steps for summary in rank_summaries(folder.timeline())) == steps - WARM_UP_STEPS


def test_journal_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("tfhet.steps.meter.MOST_LINES", 50)
    for attempt in range(2):  # the second one, after a restart, keeps the lines of the first
        meter = Meter()
        journal = Journal(replace(JOB, timeline_dir=str(tmp_path)), meter)
        for number in range(200):
            meter.add(StepTime(0.5, 0.125, 8, at_s=float(number), step=number + 1000 * attempt))
            if number % 10 == 0:
                journal.write()
        journal.write(is_last=True)
    found = [step.step for step in read(tmp_path).steps]
    assert sorted(found) == [*range(200), *range(1000, 1200)]


def test_journal_follows_another_meter(tmp_path):
    look, training = meter((0.1, 0.0, 8)), meter((0.2, 0.0, 8), (0.3, 0.0, 8))
    journal = Journal(replace(JOB, timeline_dir=str(tmp_path)), look)
    journal.write()
    journal.follow(training)
    journal.write(is_last=True)
    assert [step.dur_s for step in read(tmp_path).steps] == [0.2, 0.3]


@pytest.mark.parametrize("count", [10, MOST, 50 * MOST])
def test_samples_are_bounded_and_in_order(count):
    sample = Sample()
    for _ in range(10):
        sample.extend(range(count // 10))
    kept = list(sample.values)
    assert len(kept) <= MOST and (len(kept) == count // 10 * 10 or len(kept) > MOST / 4)
    assert np.mean(kept) == pytest.approx(np.mean(range(count // 10)), rel=0.1)


# The journal


JOB = JobContext("job", "heterogeneous", rank=1, size=2, host="algo-2")


class Apart(FakeClock):
    """A wall clock far from the monotonic one."""

    ahead_s = 1000.0

    def wall(self) -> float:
        return super().wall() + self.ahead_s


def read(folder: Path) -> Timeline:
    return Timeline.join(folder.glob("*.jsonl"))


def test_steps_and_pauses_have_wall_times(tmp_path):
    clock, meter = Apart(10.0), Meter()
    journal = Journal(replace(JOB, timeline_dir=str(tmp_path / "timeline")), meter, clock)
    journal.write()
    meter.add(StepTime(0.5, 0.125, 8, 0.0625, 0.25, at_s=11.0, step=1, epoch=0))
    with meter.pause("checkpoint", clock):
        clock.sleep(2.0)
    journal.write()
    journal.write()
    meter.add(StepTime(0.5, 0.125, 8, 0.0625, None, at_s=12.0, step=2, epoch=1))
    clock.ahead_s = 5000.0  # the wall clock is set
    journal.write(is_last=True)
    found = read(tmp_path / "timeline")
    step = StepTime(0.5, 0.125, 8, 0.0625, 0.25, at_s=1011.0, step=1, epoch=0, host="algo-2", rank=1)
    assert found.steps == (step, replace(step, step=2, epoch=1, at_s=1012.0, allreduce_s=None))
    assert found.pauses == (Pause(host="algo-2", rank=1, name="checkpoint", at_s=1010.0, dur_s=2.0),)


def test_nothing_is_written_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    meter = Meter()
    meter.add(StepTime(0.5, 0.125, 8))
    Journal(JOB, meter).write()
    assert not list(tmp_path.iterdir())


def test_full_disk_is_reported_once(tmp_path, caplog):
    (tmp_path / "full").write_text("no folder")
    meter = Meter()
    journal = Journal(replace(JOB, timeline_dir=str(tmp_path / "full")), meter)
    for _ in range(3):
        meter.add(StepTime(0.5, 0.125, 8))
        journal.write()
    journal.write(is_last=True)
    assert len(caplog.records) == 1


def test_stalled_disk_delays_no_step(tmp_path, monkeypatch):
    goes_on, append = threading.Event(), TimelineFile.append

    def slow(*given: object) -> None:
        goes_on.wait(3)
        append(*given)

    monkeypatch.setattr(TimelineFile, "append", slow)
    meter = Meter()
    journal = Journal(replace(JOB, timeline_dir=str(tmp_path)), meter)
    for step in range(3):
        meter.add(StepTime(0.5, 0.125, 8, step=step))
        journal.write()
    assert not list(tmp_path.iterdir())
    goes_on.set()
    journal.write(is_last=True)
    assert [step.step for step in read(tmp_path).steps] == [0, 1, 2]
