"""The suite that measures what simulated hosts get, but for the measuring."""

from __future__ import annotations

import argparse
import os
import socket
import threading

import pytest
from fake_clock import FakeClock

from benchmarks import child_environment
from benchmarks.limits import busy_process
from benchmarks.limits import suite as limits
from benchmarks.limits.suite import BANDWIDTH, CPU, SUITE, Trial
from tfhet.bench.child_process import AnsweringProcess
from tfhet.container import kernel
from tfhet.errors import TfhetError, UsageError
from tfhet.events import Event
from tfhet.record import Record


def trials(*had: tuple[str, float, list[float]]) -> list[Trial]:
    return [
        Trial(f"trial {i}", figure, str(i), limit, iter(values).__next__)
        for i, (figure, limit, values) in enumerate(had)
    ]


def record_of(*had: tuple[str, float, list[float]], busy_pct: float = 0.0) -> Record:
    made = trials(*had)
    taken = limits.measured(made, 0, len(had[0][2]), lambda event: None, FakeClock())
    return Record.of("limits", limits.figures_of(made, taken), details={"machine_busy_pct": busy_pct})


def test_the_figure_is_the_worst_deviation_whatever_its_sign():
    record = record_of(
        (CPU, 0.5, [0.51, 0.5, 0.495]), (CPU, 2.0, [2.0, 1.94, 2.0]), (BANDWIDTH, 1e8, [1e8, 9.5e7, 1e8])
    )
    assert record.figures[CPU].value == pytest.approx(3.0)
    assert record.figures[CPU].n == 6 and record.figures[CPU].with_level().level is None, "no median"
    assert record.figures[BANDWIDTH].value == pytest.approx(5.0)
    assert record.figures[f"{CPU}.0"].samples == pytest.approx((2.0, 0.0, -1.0))


def test_the_promise_is_kept_within_five_and_ten_percent():
    kept = record_of((CPU, 1.0, [1.049]), (BANDWIDTH, 1e8, [9.1e7]))
    assert SUITE.is_kept(kept) and SUITE.notes(kept) == []
    for broken, name in (
        (record_of((CPU, 1.0, [1.0, 1.051])), CPU),
        (record_of((BANDWIDTH, 1e8, [8.9e7])), BANDWIDTH),
    ):
        assert not SUITE.is_kept(broken)
        assert any(name in note for note in SUITE.notes(broken))


def test_a_busy_machine_is_told():
    assert any("was 75 % busy" in note for note in SUITE.notes(record_of((CPU, 1.0, [1.0]), busy_pct=75.0)))


def test_trials_are_taken_in_rounds_and_the_warm_up_does_not_count():
    told: list[Event] = []
    made = trials((CPU, 1.0, [9.0, 1.1, 1.2]), (CPU, 1.0, [9.0, 1.0, 1.0]))
    taken = limits.measured(made, 1, 2, told.append, FakeClock())
    assert taken["trial 0"] == pytest.approx([10.0, 20.0])
    assert [event.fields["case"] for event in told] == [f"trial {index}" for index in (0, 1, 1, 0, 0, 1)]


def test_every_quota_and_rate_is_tried_with_one_thread_and_more_and_both_ways():
    assert len({trial.key for trial in limits.cpu_trials("abcd", 1.0, 0.005)}) == 6
    assert [trial.key for trial in limits.bandwidth_trials("abcd", 1.0)] == ["100_out", "100_in", "1000_out", "1000_in"]


def test_options_that_measure_nothing_are_refused():
    options = argparse.Namespace(seconds=0.0, period_ms=5.0, only=None, repeats=1, warmup=0)
    with pytest.raises(UsageError, match="--seconds 0.0"):
        SUITE.run(options, lambda event: None, ("tfhet",))


def test_a_busy_process_uses_the_cpu_once_it_is_asked_to():
    with AnsweringProcess.of_module("benchmarks.limits.busy_process", env=child_environment()) as process:
        with pytest.raises(TfhetError, match="KeyError"):
            process.ask({})
        before = len(os.listdir(f"/proc/{process.pid}/task"))
        process.ask({"spin": 2})
        assert len(os.listdir(f"/proc/{process.pid}/task")) == before + 2


def test_what_is_received_is_counted_without_the_beginning(monkeypatch):
    monkeypatch.setattr(busy_process, "SETTLED_S", 0.0)
    found: dict[str, float] = {}
    with socket.create_server(("127.0.0.1", 0)) as server:
        receiver = threading.Thread(target=lambda: found.update(busy_process.receive(server)))
        receiver.start()
        busy_process.send("127.0.0.1", server.getsockname()[1], 0.1)
        receiver.join(60)
    assert found["bytes"] > 0 and found["seconds"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("sends", [True, False], ids=["out", "in"])
def test_a_limited_host_carries_no_more_than_its_limit(sends):
    if kernel.missing(kernel.LIMIT) or os.getuid() != 0:
        pytest.skip("needs root, and what `tfhet doctor` names")
    # Not how close it comes: that is for the suite, on a machine that has nothing else to do.
    assert 0 < limits.bits_per_s_had("test", 50e6, sends, 0.5) < 60e6
