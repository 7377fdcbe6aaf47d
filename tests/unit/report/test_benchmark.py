"""report/bars.py: the figures of a record, by unit."""

from __future__ import annotations

from tfhet.record import Figure, Record
from tfhet.report.bars import benchmark_charts


def test_figures_of_one_unit_share_a_chart_and_lose_the_words_that_all_have() -> None:
    units = {"a.b.one": "us", "a.b.two": "us", "a.bc": "x"}
    figures = {name: Figure.single(1.0, unit=unit) for name, unit in units.items()}
    prefix, charts = benchmark_charts(Record("r", figures))
    assert prefix == "a."
    assert [(chart.title, [bar.name for bar in chart.bars]) for chart in charts] == [("In us", ["b.one", "b.two"])]


def test_ratios_against_one_thing_say_it_once() -> None:
    figures = {name: Figure.single(2.0, unit="x", against="the other") for name in ("one", "two")}
    assert [chart.title for chart in benchmark_charts(Record("r", figures))[1]] == ["In x, against the other"]


def test_a_record_without_figures_has_no_chart() -> None:
    assert benchmark_charts(Record("r"))[1] == []
