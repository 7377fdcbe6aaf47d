from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fake_clock import FakeClock
from hypothesis import given, settings
from hypothesis import strategies as st

from tfhet.launch.hearing import Hearing
from tfhet.messages import MetricLine, rank
from tfhet.record import StepTime
from tfhet.trainer.meter import Meter

LINE = MetricLine(10, 0, 86.14, 1280.0, 3.1, 2.3)
SHORT = MetricLine(10, 0, 86.1, 1280.0, 3.1, 2.3)
"""As the line is printed."""


class Heard:
    """What came out of a hearing."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.metrics: list[MetricLine] = []
        self.reading: list[bool] = []
        self.hearing = Hearing(self.lines.append, self.metrics.append, self.reading.append)

    def take(self, report: rank.Report) -> None:
        self.hearing.take(rank.to_json(report))


def test_lines_go_to_the_log_and_messages_do_not():
    heard = Heard()
    heard.hearing.hear("hello")
    heard.take(rank.Reading(endless=True))
    heard.hearing.take({"type": "something new", "x": 1})
    assert heard.lines == ["hello"]
    assert heard.reading == [True] and heard.metrics == []


def test_the_metric_lines_of_a_script_that_sends_no_messages_are_counted():
    heard = Heard()
    for step in (10, 20):
        heard.hearing.hear(str(MetricLine(step, 0, 86.1, 1280.0, 3.1, 2.3)))
    assert heard.hearing.metrics == heard.metrics[-1] and [line.step for line in heard.metrics] == [10, 20]
    assert len(heard.lines) == 2


@pytest.mark.parametrize("first", ["line", "message", "both lines"])
def test_metrics_that_are_printed_and_sent_are_counted_once(first):
    heard = Heard()
    later = MetricLine(20, 0, 80.04, 1300.0, 3.0, 2.0)
    acts = {LINE: [str(LINE), LINE], later: [str(later), later]}
    order = [*acts[LINE], *acts[later]]
    if first == "message":
        order = [*reversed(acts[LINE]), *reversed(acts[later])]
    elif first == "both lines":
        order = [acts[LINE][0], acts[later][0], acts[LINE][1], acts[later][1]]
    for each in order:
        if isinstance(each, str):
            heard.hearing.hear(each)
        else:
            heard.take(each)
    assert [line.step for line in heard.metrics] == [10, 20]
    assert heard.metrics[0] == (LINE if first == "message" else SHORT)
    assert heard.lines == [str(LINE), str(later)]


def test_the_totals_of_the_trainer_are_kept():
    meter, heard = Meter(), Heard()
    for _ in range(2):
        meter.add(StepTime(0.5, 0.125, 64))
    heard.take(meter.totals())
    assert heard.hearing.totals == {"steps": 2, "examples": 128.0, "step_s": 1.0, "wait_s": 0.25}
    heard.take(rank.Progress(wait_s=0.5))
    assert heard.hearing.totals == {"steps": 2, "examples": 128.0, "step_s": 1.0, "wait_s": 0.5}


values = st.none() | st.integers() | st.floats() | st.text()


@settings(deadline=None)
@given(st.text(), st.dictionaries(st.text(max_size=6), values), st.sampled_from(sorted(rank.REPORTS.kinds)))
def test_no_line_and_no_message_ends_the_hearing(line: str, odd: dict[str, Any], kind: str):
    heard = Heard()
    heard.hearing.hear(line)
    heard.hearing.take(odd)
    heard.hearing.take({**odd, "type": kind})
    assert heard.lines == [line]


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
    hearing.take(rank.to_json(rank.Progress()))
    clock.sleep(9.0)
    assert not stalls_after(hearing, 10.0)
    clock.sleep(1.0)
    assert stalls_after(hearing, 10.0)
    assert not stalls_after(hearing, 0.0)
    hearing.expect_progress()
    assert not stalls_after(hearing, 10.0)
