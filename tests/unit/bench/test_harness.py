"""bench/harness.py and case.py: rounds, warm-up, and what is counted, on a clock that only the cases move."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from fake_clock import FakeClock

from tfhet.bench import Case, ProcessMeter, Sample, harness, measure
from tfhet.bench.case import children_cpu_s
from tfhet.clock import cpu_of
from tfhet.errors import UsageError


@pytest.fixture(autouse=True)
def without_collecting(monkeypatch: pytest.MonkeyPatch) -> None:
    """With TensorFlow loaded by other tests, one collection takes longer than all of these."""
    monkeypatch.setattr(harness.gc, "collect", lambda: 0)


class Work:
    """Cases that take a stated time on a fake clock, and a diary of what was called."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.diary: list[str] = []
        self.children_s = 0.0

    def meter(self) -> ProcessMeter:
        return ProcessMeter(self.clock, lambda: self.children_s)

    def case(self, name: str, *seconds: float, units: int = 1) -> Case:
        left = list(seconds)

        def run(state: object) -> None:
            assert state == f"state of {name}"
            self.diary.append(name)
            self.clock.sleep(left.pop(0) if len(left) > 1 else left[0])

        def prepare() -> str:
            self.diary.append(f"prepare {name}")
            self.clock.sleep(100.0)
            return f"state of {name}"

        return Case(name, run, units, "image", prepare, lambda _: self.diary.append(f"close {name}"))


def test_cases_run_in_turn_after_all_are_prepared_and_before_any_is_closed() -> None:
    work = Work()
    measure([work.case("a", 1.0), work.case("b", 1.0)], repeats=2, warmup=1, meter=work.meter())
    assert work.diary == ["prepare a", "prepare b", "a", "b", "b", "a", "a", "b", "close b", "close a"]


def test_warm_up_is_kept_apart_and_every_raw_sample_is_kept() -> None:
    work = Work()
    taken = measure([work.case("a", 9.0, 2.0, 4.0, 3.0, units=1000)], repeats=3, warmup=1, meter=work.meter())["a"]
    assert [sample.cpu_s for sample in taken.warmup] == [9.0]
    assert taken.cpu_us == pytest.approx((2000.0, 4000.0, 3000.0))
    assert taken.wall_us == pytest.approx((2000.0, 4000.0, 3000.0))
    assert taken.figure().value == pytest.approx(3000.0)
    assert taken.to_json()["samples"][1] == {"wall_s": 4.0, "cpu_s": 4.0}


def test_a_slow_spell_that_hits_both_leaves_their_ratio_as_it_is() -> None:
    work = Work()
    slow = work.case("slow", 40.0, 40.0, 120.0, 40.0, units=10)
    fast = work.case("fast", 1.0, 1.0, 3.0, 1.0, units=10)
    taken = measure([slow, fast], repeats=3, warmup=1, meter=work.meter())
    ratio = taken["fast"].cheaper_than(taken["slow"], "the slow one")
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((40.0, 40.0, 40.0))
    assert (ratio.against, ratio.n) == ("the slow one", 3)


def test_beginning_of_each_run_is_not_timed() -> None:
    work = Work()

    def begin(state: object) -> str:
        work.clock.sleep(50.0)
        work.diary.append(f"begin with {state}")
        return "begun"

    def run(state: object) -> None:
        work.diary.append(f"run with {state}")
        work.clock.sleep(1.0)

    case = Case("a", run, prepare=lambda: "state", begin=begin)
    taken = measure([case], repeats=2, warmup=0, meter=work.meter())["a"]
    assert [sample.wall_s for sample in taken.samples] == [1.0, 1.0]
    assert work.diary == ["begin with state", "run with begun"] * 2


def test_the_time_of_children_counts() -> None:
    work = Work()

    def run(state: object) -> None:
        work.clock.sleep(1.0)
        work.children_s += 5.0

    sample = measure([Case("a", run)], repeats=1, warmup=0, meter=work.meter())["a"].samples[0]
    assert sample == Sample(wall_s=1.0, cpu_s=6.0)


def test_the_readings_own_cost_falls_outside() -> None:
    clock = FakeClock()

    def children() -> float:
        clock.sleep(7.0)
        return 0.0

    taken = measure([Case("a", lambda _: clock.sleep(1.0))], repeats=2, meter=ProcessMeter(clock, children))
    assert [sample.wall_s for sample in taken["a"].samples] == [1.0, 1.0]


def test_living_and_ended_children_are_found() -> None:
    before = children_cpu_s()
    code = "import time; sum(range(10**6)); print(time.process_time(), flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    try:
        used = float(child.stdout.readline())
        while_it_lives = children_cpu_s() - before
    finally:
        child.communicate(b"\n", timeout=30)
    assert while_it_lives >= used - 0.02  # two ticks
    assert children_cpu_s() - before >= used - 0.02  # two ticks


def test_the_time_of_a_living_child_is_known_to_less_than_a_tick() -> None:
    code = "sum(range(10**6)); print(flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    try:
        child.stdout.readline()  # it has done something by now
        seen = {cpu_of(child.pid) for _ in range(3)}
        assert all(0.0 < second < 60.0 for second in seen), seen
        assert any(round(second * 1e9) % 10_000_000 for second in seen)
    finally:
        child.communicate(b"\n", timeout=30)
    with pytest.raises(OSError):
        cpu_of(child.pid)


@pytest.mark.parametrize("broken", ["prepare", "run"])
def test_a_case_that_raises_is_heard_and_what_was_prepared_is_closed(broken: str) -> None:
    work = Work()

    def fail(*_: object) -> None:
        raise RuntimeError("broken")

    bad = Case("bad", fail, prepare=fail) if broken == "prepare" else Case("bad", fail)
    with pytest.raises(RuntimeError, match="broken"):
        measure([work.case("a", 1.0), bad], repeats=1, warmup=0, meter=work.meter())
    assert work.diary[-1] == "close a"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: measure([]), "no case"),
        (lambda: measure([Case("a", print), Case("a", print)]), "names of their own, got a, a"),
        (lambda: measure([Case("a", print)], repeats=0), "repeats 0"),
        (lambda: Case("a", print, units=0), "units is 0"),
    ],
)
def test_what_cannot_be_measured_is_wrong_use(call: Callable[[], object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        call()
