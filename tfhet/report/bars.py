"""The geometry of horizontal bars with their intervals, for the templates to draw as inline SVG."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfhet.record import Figure, Record
from tfhet.report import numbers
from tfhet.report.chart import MOST, Axis, Tick, nice_ticks

LOG_FROM = 30.0
"""Largest over smallest value from which the axis is logarithmic; below, short bars can still be seen."""


@dataclass(frozen=True)
class Bar:
    """One figure; places in percent of the axis."""

    name: str
    value: str
    at: float
    low: float
    high: float
    words: str
    limit: float | None
    """Place of a limit of the value; None without one."""


@dataclass(frozen=True)
class BarChart:
    """Bars on one axis."""

    title: str
    bars: Sequence[Bar]
    ticks: Sequence[Tick]
    zero: float | None
    """Place where bars begin; None for points on a logarithmic axis, where the length of a bar would mean nothing."""
    note: str
    """Omissions of the drawing, and the meaning of its whiskers."""


def bar_chart(
    title: str,
    figures: Mapping[str, Figure],
    *,
    limits: Mapping[str, float] | None = None,
    is_linear: bool = False,
) -> BarChart | None:
    """The bars of `figures`, which share one unit; None when none of them is finite.

    limits: a value that the figure cannot exceed, by name; the axis includes it.
    is_linear: values far apart are bars too, since they are parts of one whole.
    What is not finite is left out and counted in the note.
    """
    shown = {name: figure for name, figure in figures.items() if abs(figure.value) < MOST}
    if not shown:
        return None
    limits = {name: limit for name, limit in (limits or {}).items() if name in shown and 0 < limit < MOST}
    values, ends = [figure.value for figure in shown.values()], {name: _ends(each) for name, each in shown.items()}
    is_points = not (limits or is_linear) and len(values) > 1 and 0 < min(values) <= max(values) / LOG_FROM
    if is_points:
        first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        apart = math.ceil((last - first) / 6)  # few enough that each number has room
        axis = Axis(first, last, is_logarithmic=True)
        ticks = axis.ticks(10.0**power for power in range(first, last + 1, apart))
    else:
        low = min(0.0, *values, *(end for end, _ in ends.values()))
        high = max(0.0, *values, *(end for _, end in ends.values()), *limits.values())
        ticked = [0.0] if low < 0 else nice_ticks(high)
        axis = Axis(low, max(high, ticked[-1]))
        ticks = axis.ticks(ticked)
    bars = [
        Bar(
            name=name,
            value=numbers.number(figure.value, unit=figure.unit),
            at=axis.at(figure.value),
            low=axis.at(ends[name][0]),
            high=axis.at(ends[name][1]),
            words=in_words(name, figure),
            limit=axis.at(limits[name]) if name in limits else None,
        )
        for name, figure in shown.items()
    ]
    notes = []
    if len(shown) < len(figures):
        notes.append(f"{len(figures) - len(shown)} without a finite value left out")
    if is_points:
        notes.append("points on a logarithmic axis")
    if any(low < high for low, high in ends.values()):
        notes.append("whiskers: 95 % interval of the median")
    return BarChart(title, bars, ticks, None if is_points else axis.at(0.0), "; ".join(notes))


def in_words(name: str, figure: Figure) -> str:
    """A figure in one line: value, interval, samples, what it is against."""
    interval = f", 95 % interval {numbers.interval(figure)}" if figure.low != figure.high else ""
    against = f", against {figure.against}" if figure.against else ""
    samples = f"{figure.n} sample{'s' * (figure.n != 1)}"
    return f"{name}: {numbers.number(figure.value, unit=figure.unit)}{interval}, {samples}{against}"


def _ends(figure: Figure) -> tuple[float, float]:
    """The ends of the interval in order; the value itself where one is not finite."""
    low, high = sorted((figure.low, figure.high))
    return (low, high) if abs(low) < MOST and abs(high) < MOST else (figure.value, figure.value)


def benchmark_charts(record: Record) -> tuple[str, list[BarChart]]:
    """The common beginning of all figures' names, which the charts leave out, and a chart for each unit of which there
    are at least two figures."""
    shared = os.path.commonprefix(list(record.figures)) if len(record.figures) > 1 else ""
    prefix = shared[: shared.rfind(".") + 1]
    by_unit: dict[str, dict[str, Figure]] = {}
    for name, figure in record.figures.items():
        by_unit.setdefault(figure.unit, {})[name.removeprefix(prefix)] = figure
    charts = []
    for unit, figures in by_unit.items():
        against = {figure.against for figure in figures.values()}
        common = against.pop() if len(against) == 1 else None
        title = f"In {unit or 'no unit'}{f', against {common}' if common else ''}"
        if len(figures) > 1 and (chart := bar_chart(title, figures)):
            charts.append(chart)
    return prefix, charts
