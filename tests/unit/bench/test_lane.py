"""bench/lane.py: the cost of a turn."""

from __future__ import annotations

import subprocess
import sys

import pytest
from fake_clock import FakeClock

from tfhet.bench import lane
from tfhet.bench.lane import CLIENTS, LEAST, WORKERS, Lane, rounds
from tfhet.clock import cpu_of
from tfhet.errors import TfhetError
from tfhet.events import Event


class Client:
    """Takes 10 ms for a batch, in which it and its worker (pids 1 and 2) use CPU."""

    def __init__(self, clock: FakeClock, used_s: dict[int, float]):
        self.asked: list[tuple[int, int]] = []
        self._clock, self._used_s = clock, used_s

    def request(self, request: dict[str, int]) -> None:
        self.asked.append((request["ahead"], request["count"]))

    def answer(self) -> dict[str, float]:
        ahead, count = self.asked[-1]
        self._clock.sleep(0.01 * (ahead + count))
        self._used_s[1] += 0.002 * (ahead + count)
        self._used_s[2] += 0.004 * (ahead + count)
        return {"seconds": 0.01 * count}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def used_s(monkeypatch: pytest.MonkeyPatch) -> dict[int, float]:
    """CPU seconds by process id."""
    used = {1: 0.0, 2: 0.0}
    monkeypatch.setattr(lane, "cpu_of", used.__getitem__)
    return used


def lane_of(clock: FakeClock, used_s: dict[int, float], key: str = "uint8.1MB.none", clients: int = 1) -> Lane:
    every = [Client(clock, used_s) for _ in range(clients)]
    return Lane(key, 1_000_000, every, {CLIENTS: [1], WORKERS: [2]}, ahead=2)  # type: ignore[arg-type]


def test_a_turn_counts_the_batches_ahead_in_cpu_and_not_in_speed(clock, used_s):
    turn = lane_of(clock, used_s).turn(8, clock)
    assert turn.bytes == 10_000_000
    assert turn.per_gb(CLIENTS) == pytest.approx(2.0)
    assert turn.per_gb(WORKERS) == pytest.approx(4.0)
    assert turn.all_per_gb == pytest.approx(6.0)
    assert turn.gb_per_s == pytest.approx(0.1)


def test_all_clients_of_a_job_count_together(clock, used_s):
    turn = lane_of(clock, used_s, clients=2).turn(8, clock)
    assert turn.bytes == 20_000_000
    assert turn.per_gb(CLIENTS) == pytest.approx(2.0)
    assert turn.gb_per_s == pytest.approx(0.2)


def test_a_turn_waits_until_the_buffers_are_full_again_and_counts_what_that_takes(clock, used_s, monkeypatch):
    later = iter([0.04, 0.03, 0.0, 0.02])  # a quiet look between two busy ones is not the end
    sleep = clock.sleep

    def filled(seconds: float) -> None:
        sleep(seconds)
        if seconds == lane.LOOK_S:
            used_s[2] += next(later, 0.0)

    monkeypatch.setattr(clock, "sleep", filled)
    turn = lane_of(clock, used_s).turn(8, clock)
    assert turn.cpu_s[WORKERS] == pytest.approx(0.04 + 0.09)


def test_processes_that_never_come_to_rest_are_told(clock, used_s, monkeypatch):
    sleep = clock.sleep
    monkeypatch.setattr(clock, "sleep", lambda s: (sleep(s), used_s.update({2: used_s[2] + s})))
    with pytest.raises(TfhetError, match=r"uint8\.1MB\.none: its processes work for 60 s after the last batch"):
        lane_of(clock, used_s).turn(8, clock)


def test_a_process_that_has_ended_is_told(clock, used_s, monkeypatch):
    monkeypatch.setattr(lane, "cpu_of", cpu_of)
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    with pytest.raises(TfhetError, match="one of its processes has ended"):
        Lane("x", 1, [], {WORKERS: [gone.pid]}).turn(8, clock)


def test_a_turn_is_made_as_long_as_it_is_wanted_and_never_too_short(clock, used_s):
    assert lane_of(clock, used_s).fitting(3.0, clock) == 300
    assert lane_of(clock, used_s).fitting(0.001, clock) == LEAST


def test_lanes_take_turns_and_the_warm_up_does_not_count(clock, used_s):
    told: list[Event] = []
    lanes = [lane_of(clock, used_s, "a"), lane_of(clock, used_s, "b")]
    taken = rounds(lanes, 0.1, 1, 3, told.append, clock)
    assert [event.fields["case"] for event in told] == ["a", "b", "b", "a"] * 2
    assert {key: len(turns) for key, turns in taken.items()} == {"a": 3, "b": 3}
    assert all(turn.bytes == 12_000_000 for turns in taken.values() for turn in turns)
