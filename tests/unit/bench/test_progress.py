"""bench/progress.py: plain lines."""

from __future__ import annotations

import io

from tfhet.bench import Case, ProcessMeter, measure, progress
from tfhet.clock import FakeClock
from tfhet.events import Event


def test_each_run_gets_one_whole_line() -> None:
    out, clock = io.StringIO(), FakeClock()
    meter = ProcessMeter(clock, lambda: 0.0)
    case = Case("example", lambda _: clock.sleep(0.002), 10, "image")
    measure([case], repeats=1, warmup=1, meter=meter, clock=clock, observer=progress.shown(out))
    assert out.getvalue().splitlines() == [
        "[bench] 1/2 example (2.00 ms): 200 us CPU per image",
        "[bench] 2/2 example (2.00 ms): 200 us CPU per image",
    ]


def test_what_is_missing_is_told_and_other_events_are_not_shown() -> None:
    out = io.StringIO()
    progress.shown(out)(Event("case.missing", 0.0, {"case": "peer dali", "reason": "not installed"}))
    progress.shown(out)(Event("case.prepared", 0.0, {"case": "x"}))
    assert out.getvalue() == "[bench] peer dali is missing: not installed\n"
