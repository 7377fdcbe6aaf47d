"""bench/command.py: a line for each run."""

from __future__ import annotations

import pytest
from fake_clock import FakeClock

from tfhet.bench import Case, ProcessMeter, measure
from tfhet.cli.bench import show_progress
from tfhet.events import Event


def test_each_run_gets_one_whole_line(capsys: pytest.CaptureFixture[str]) -> None:
    clock = FakeClock()
    meter = ProcessMeter(clock, lambda: 0.0)
    case = Case("example", lambda _: clock.sleep(0.002), 10, "image")
    measure([case], repeats=1, warmup=1, meter=meter, clock=clock, observer=show_progress)
    assert capsys.readouterr().err.splitlines() == [
        "[bench] 1/2 example (2.00 ms): 200 us CPU per image",
        "[bench] 2/2 example (2.00 ms): 200 us CPU per image",
    ]


def test_what_is_missing_is_reported_and_other_events_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    show_progress(Event("case.missing", 0.0, {"case": "peer dali", "reason": "not installed"}))
    show_progress(Event("case.prepared", 0.0, {"case": "x"}))
    assert capsys.readouterr().err == "[bench] peer dali is missing: not installed\n"
