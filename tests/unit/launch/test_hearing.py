from __future__ import annotations

import asyncio

from fake_clock import FakeClock
from hypothesis import given, strategies as st

from tfhet.launch.script import Hearing
from tfhet.messages import MetricLine, rank
from tfhet.record import StepTime
from tfhet.steps.meter import Meter

LINE = MetricLine(10, 0, 86.14, 1280.0, 3.1, 2.3)


class Heard:
    """The results of a hearing: lines, metrics, and when the script reads."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.metrics: list[MetricLine] = []
        self.reading: list[bool] = []
        self.hearing = Hearing(self.lines.append, self.metrics.append, self.reading.append)

    def take(self, report: rank.Report | MetricLine) -> None:
        self.hearing.take(rank.Metrics(report.exact()) if isinstance(report, MetricLine) else report)


def test_lines_go_to_the_log_and_messages_do_not():
    heard = Heard()
    heard.hearing.hear("hello")
    heard.take(rank.Reading(endless=True))
    assert heard.lines == ["hello"]
    assert heard.reading == [True] and heard.metrics == []


def test_the_metric_lines_of_a_script_that_sends_no_messages_are_counted():
    heard = Heard()
    for step in (10, 20):
        heard.hearing.hear(str(MetricLine(step, 0, 86.1, 1280.0, 3.1, 2.3)))
    assert heard.hearing.metrics == heard.metrics[-1] and [line.step for line in heard.metrics] == [10, 20]
    assert len(heard.lines) == 2


def test_the_metric_lines_of_a_script_that_sends_them_are_printed_and_those_in_its_log_not_counted():
    heard = Heard()
    heard.take(LINE)
    heard.hearing.hear(str(MetricLine(15, 0, 1.0, 1.0, 1.0, 1.0)))
    heard.take(MetricLine(20, 0, 80.0, 1300.0, 3.0, 2.0))
    assert [line.step for line in heard.metrics] == [10, 20] and heard.metrics[0] == LINE
    assert [line.split()[1] for line in heard.lines] == ["step=10", "step=15", "step=20"]


def test_the_totals_of_the_trainer_are_kept():
    meter, heard = Meter(), Heard()
    for _ in range(2):
        meter.add(StepTime(0.5, 0.125, 64))
    heard.take(meter.totals())
    assert heard.hearing.totals == {"steps": 2, "examples": 128.0, "step_s": 1.0, "wait_s": 0.25}
    heard.take(rank.Progress(wait_s=0.5))
    assert heard.hearing.totals == {"steps": 2, "examples": 128.0, "step_s": 1.0, "wait_s": 0.5}


@given(st.text(), st.text())
def test_no_line_ends_the_hearing(line: str, odd: str):
    heard = Heard()
    heard.hearing.hear(line)
    heard.hearing.take(rank.Metrics(odd))
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
    hearing.take(rank.Progress())
    clock.sleep(9.0)
    assert not stalls_after(hearing, 10.0)
    clock.sleep(1.0)
    assert stalls_after(hearing, 10.0)
    assert not stalls_after(hearing, 0.0)
    hearing.expect_progress()
    assert not stalls_after(hearing, 10.0)
