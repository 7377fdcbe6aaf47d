from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

from fake_clock import FakeClock

from tfhet.record import Pause, StepTime, Timeline, TimelineFile
from tfhet.steps.meter import Journal, Meter
from tfhet.strategies import JobContext

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
