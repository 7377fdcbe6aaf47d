"""bench/cpu.py and cpu_work.py: the same work everywhere, and how it becomes a speed."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import psutil
import pytest
from fake_clock import FakeClock

from tfhet.bench import cpu, cpu_work
from tfhet.bench.cpu import ALONE, PASS_MS, SPEED, SUITE, Turn
from tfhet.errors import TfhetError, UsageError
from tfhet.events import Event
from tfhet.record import Figure, Record


def options(**given: object) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    SUITE.options(parser)
    return argparse.Namespace(**{**vars(parser.parse_args([])), "repeats": 2, "warmup": 1, **given})


def record(pass_ms: float, alone_ms: float, share: float = 1.0) -> Record:
    figures = {PASS_MS: Figure.single(pass_ms, unit="ms"), PASS_MS + ALONE: Figure.single(alone_ms, unit="ms")}
    return Record("cpu", figures, {"shares": {"all": [share], "alone": [1.0]}}, machine={"cpu": "Z80"})


class Process:
    """Answers at once."""

    def __init__(self, cpu_s: float, wall_s: float, checksum: int = cpu_work.CHECKSUM):
        self.requests: list[dict] = []
        self._answer = {"cpu_s": cpu_s, "wall_s": wall_s, "checksum": checksum}

    def request(self, request: dict) -> None:
        self.requests.append(request)

    def answer(self) -> dict:
        return self._answer


def test_a_pass_is_the_same_work_everywhere():
    batch = cpu_work.images()
    assert batch.shape == (64, 128, 128, 3) and batch.dtype == np.uint8
    assert 126.5 < batch.mean() < 128.5 and np.unique(batch).size == 256
    before = batch.copy()
    assert cpu_work.one_pass(batch) == cpu_work.CHECKSUM == cpu_work.one_pass(batch)
    assert (batch == before).all()


def test_so_many_passes_are_done_as_were_asked_for(monkeypatch):
    clock, done = FakeClock(), []
    monkeypatch.setattr(cpu_work, "one_pass", lambda batch: done.append(batch) or clock.sleep(0.5) or 7)
    batch = np.zeros(1)
    assert cpu_work.answer(batch, {"passes": 3}, clock) == {"cpu_s": 1.5, "wall_s": 1.5, "checksum": 7}
    assert len(done) == 3


def test_a_turn_is_the_mean_over_processes_and_the_longest_wall_time():
    processes = [Process(1.0, 1.25), Process(2.0, 2.0)]
    found = cpu.turn(processes, 10)  # type: ignore[arg-type]
    assert found == Turn((1.0, 2.0), 2.0)
    assert [process.requests for process in processes] == [[{"passes": 10}]] * 2
    assert found.pass_ms(10) == 150.0 and found.share == 0.75


def test_other_work_than_the_references_is_an_error():
    with pytest.raises(TfhetError, match="the work made 3, not"):
        cpu.turn([Process(1, 1, checksum=3)], 10)  # type: ignore[list-item]


def test_a_machine_that_takes_half_the_time_is_twice_as_fast():
    taken = {"": [Turn((1.0, 1.0), 1.0)] * 3, ALONE: [Turn((0.4,), 0.4)] * 3}
    figures = cpu.figures_of(taken, 100, record(20.0, 6.0))
    assert figures[SPEED].value == pytest.approx(2.0) and figures[SPEED + ALONE].value == pytest.approx(1.5)
    assert figures[PASS_MS].value == pytest.approx(10.0) and figures[PASS_MS + ALONE].value == pytest.approx(4.0)
    assert figures[SPEED].against == "a vCPU of Z80" and figures[SPEED].unit == "x"


def test_processes_that_were_kept_from_their_cpus_are_told():
    assert any("had a CPU 50% of the time" in note for note in SUITE.notes(record(1.0, 1.0, share=0.5)))
    assert not any("had a CPU" in note for note in SUITE.notes(record(1.0, 1.0)))


def test_real_processes_do_the_work_and_are_gone_afterwards(tmp_path: Path):
    record(1.0, 1.0).write(tmp_path / "reference.json")
    events: list[Event] = []
    made = cpu._run(options(processes=2, passes=1, reference=tmp_path / "reference.json"), events.append, ("tfhet",))
    assert made.figures[SPEED].n == 2 and made.figures[SPEED].value > 0
    assert [len(each["cpu_s"]) for each in made.details["turns"]["all"]] == [2, 2]
    assert len(events) == 6
    assert not [child for child in psutil.Process().children() if "cpu_work" in " ".join(child.cmdline())]


def test_the_processes_end_with_an_error_too(monkeypatch):
    monkeypatch.setattr(cpu_work, "CHECKSUM", 3)
    with pytest.raises(TfhetError, match="the work made"):
        cpu._run(options(processes=1, passes=1), lambda event: None, ("tfhet",))
    assert not [child for child in psutil.Process().children() if "cpu_work" in " ".join(child.cmdline())]


@pytest.mark.parametrize("wrong", [{"passes": 0}, {"processes": 0}])
def test_nothing_is_not_measured(wrong):
    with pytest.raises(UsageError, match="give more than 0"):
        cpu._run(options(**wrong), lambda event: None, ("tfhet",))


def test_a_record_of_another_suite_is_no_reference(tmp_path: Path):
    Record("limits", {}).write(tmp_path / "limits.json")
    with pytest.raises(UsageError, match="a record of limits, not of `tfhet bench cpu`"):
        cpu._run(options(reference=tmp_path / "limits.json"), lambda event: None, ("tfhet",))
