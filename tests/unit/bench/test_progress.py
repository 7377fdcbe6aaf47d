"""bench/progress.py: plain lines in a log, a bar on a terminal."""

from __future__ import annotations

import io

from tfhet.bench import Case, ProcessMeter, measure, progress
from tfhet.clock import FakeClock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run(out: io.StringIO) -> str:
    clock = FakeClock()
    meter = ProcessMeter(clock, lambda: 0.0)
    case = Case("example", lambda _: clock.sleep(0.002), 10, "image")
    with progress.shown(out) as observer:
        measure([case], repeats=2, warmup=1, meter=meter, clock=clock, observer=observer)
    return out.getvalue()


def test_a_log_gets_one_whole_line_per_run() -> None:
    assert run(io.StringIO()).splitlines() == [
        "[bench] example: 3 runs",
        "[bench] warm-up 1/1 example: 200 us CPU per image (2.00 ms)",
        "[bench] repeat 1/2 example: 200 us CPU per image (2.00 ms)",
        "[bench] repeat 2/2 example: 200 us CPU per image (2.00 ms)",
    ]


def test_a_terminal_gets_a_bar_that_ends() -> None:
    assert "3/3" in run(Terminal())
