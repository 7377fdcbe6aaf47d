from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfhet.clock import FakeClock
from tfhet.launch.hearing import TOTALS, Hearing
from tfhet.messages import MetricLine
from tfhet.trainer.meter import Meter, StepTime

LINE = MetricLine(10, 0, 86.1, 1280.0, 3.1, 2.3)


def notice(**fields: object) -> str:
    return "@tfhet " + json.dumps(fields)


class Heard:
    """What came out of a hearing."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.metrics: list[tuple[MetricLine, int]] = []
        self.reading: list[bool] = []
        self.hearing = Hearing(
            self.lines.append, lambda line: self.metrics.append((line, len(self.lines))), self.reading.append
        )


def test_lines_go_to_the_log_and_notices_do_not():
    heard = Heard()
    for line in ("hello", notice(event="reads", endlessly=True), notice(event="something new", x=1), "@tfhet rubbish"):
        heard.hearing.hear(line)
    assert heard.lines == ["hello", "@tfhet rubbish"]
    assert heard.reading == [True] and heard.metrics == []


def test_a_metric_line_is_told_once_it_is_in_the_log():
    heard = Heard()
    heard.hearing.hear(f"{LINE}")
    assert heard.lines == [str(LINE)] and heard.metrics == [(LINE, 1)] and heard.hearing.metrics == LINE


def test_what_the_trainer_says_of_its_steps_is_kept():
    meter, heard = Meter(), Heard()
    for _ in range(2):
        meter.add(StepTime(0.5, 0.125, 64))
    heard.hearing.hear(notice(event="goes on", **meter.totals()))
    assert heard.hearing.totals == {"steps": 2, "examples": 128.0, "step_s": 1.0, "wait_s": 0.25}
    assert tuple(meter.totals()) == TOTALS
    heard.hearing.hear(notice(event="goes on"))
    assert heard.hearing.totals["steps"] == 2


@pytest.mark.parametrize("value", [None, "7", True, -1, float("nan"), float("inf"), [1], {}])
def test_a_total_that_is_no_amount_is_left_out(value):
    heard = Heard()
    heard.hearing.hear(notice(event="goes on", steps=value, step_s=1.5))
    assert heard.hearing.totals == {"step_s": 1.5}


@settings(deadline=None)
@given(st.text() | st.dictionaries(st.text(max_size=6), st.none() | st.integers() | st.text()).map(json.dumps))
def test_no_line_ends_the_hearing(line):
    heard = Heard()
    heard.hearing.hear(line)
    heard.hearing.hear(f"@tfhet {line}")
    assert heard.lines[:1] == [line]


def stalls_after(hearing: Hearing, limit_s: float) -> bool:
    """Whether it is taken for stalled at once."""

    async def scenario() -> bool:
        task = asyncio.create_task(hearing.stalls(limit_s))
        for _ in range(3):
            await asyncio.sleep(0)
        stalled = task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return stalled

    return asyncio.run(scenario())


def test_a_script_that_told_of_its_progress_stalls_when_it_does_no_more():
    clock = FakeClock(100.0)
    hearing = Hearing(lambda line: None, clock=clock)
    clock.sleep(1000.0)
    assert not stalls_after(hearing, 10.0)  # it never said that it would
    hearing.hear(notice(event="goes on"))
    clock.sleep(9.0)
    assert not stalls_after(hearing, 10.0)
    clock.sleep(1.0)
    assert stalls_after(hearing, 10.0)
    assert not stalls_after(hearing, 0.0)
    hearing.expect_progress()
    assert not stalls_after(hearing, 10.0)
