"""Loads from memory beside a run."""

from __future__ import annotations

import threading
import time

import pytest

from benchmarks.cluster_runs.cold_loads import CALM_NS, EVERY_S, Calm, ColdLoads, beside, cold_loads


def names() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


def test_samples_are_taken_beside_a_run_until_it_ends() -> None:
    with cold_loads() as loads:
        assert "cold-loads" in names()
        time.sleep(2.5 * EVERY_S)
    assert "cold-loads" not in names()
    assert len(loads._taken_ns) >= 2 and loads.ns > 0.0


def test_a_run_that_is_over_at_once_has_a_sample() -> None:
    one = beside(lambda index: 3 * index, Calm(0.0))(2)
    assert one.found == 6 and one.cold_load_ns > 0.0


def test_nothing_goes_on_after_a_run_that_fails() -> None:
    with pytest.raises(ZeroDivisionError):
        beside(lambda index: 1 // index, Calm(0.0))(0)
    assert "cold-loads" not in names()


def test_the_sample_of_a_run_is_the_median() -> None:
    loads = ColdLoads()
    loads._taken_ns = [65.0, 550.0, 80.0]
    assert loads.ns == 80.0


def test_a_run_begins_when_loads_are_cheap_or_no_time_is_left_to_wait() -> None:
    slept: list[float] = []
    said: list[str] = []
    costs = iter([4 * CALM_NS, 2 * CALM_NS, CALM_NS, CALM_NS])
    calm = Calm(120.0, sleep=slept.append, taken=lambda: next(costs), say=said.append)
    assert calm.wait() and len(slept) == 2 and calm.waited_s == sum(slept)
    assert said[0] == "waits until loads from memory take 150 ns; now 600; for 2 min more"
    assert not calm.wait()
    never = Calm(40.0, sleep=slept.append, taken=lambda: 9 * CALM_NS, say=said.append)
    assert never.wait() and not never.wait()
    assert 40.0 <= never.waited_s < 60.0
