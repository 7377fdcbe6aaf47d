"""The geometry of horizontal bars with their intervals, for the template to draw as inline SVG.

Every bar is a box of 1000 x 20 units of its own that the page stretches; names and values stand beside it as text, so
that they keep their size at any width.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfhet.record import Figure, Record
from tfhet.report import numbers
from tfhet.report.chart import MOST, WIDTH, Tick, nice_ticks

MANY = 20
"""A chart of more bars is folded away, and drawn when it is opened."""
LOG_FROM = 30.0
"""Largest over smallest value from which the axis is logarithmic; below, short bars can still be seen."""


@dataclass(frozen=True)
class Bar:
    """One figure, ready to be drawn; places in units of the box."""

    name: str
    value: str
    """The value with its unit."""
    start: float
    """Left end."""
    width: float
    """0 where only a point is drawn."""
    at: float
    """Place of the value."""
    low: float
    """Left end of the interval."""
    high: float
    """Right end of the interval; `low` where there is none."""
    words: str
    """The bar in words."""
    mark: str
    """How it is drawn, colour apart: `solid`, `hollow` or `dashed`."""
    limit: float | None
    """Place of a limit of the value; None without one."""


@dataclass(frozen=True)
class BarChart:
    """Bars on one axis."""

    title: str
    bars: Sequence[Bar]
    ticks: Sequence[Tick]
    is_points: bool
    """Whether values are points on a logarithmic axis: the length of a bar would mean nothing there."""
    note: str
    """What the drawing leaves out, and what its whiskers are."""


def bar_chart(
    title: str,
    figures: Mapping[str, Figure],
    *,
    marks: Mapping[str, str] | None = None,
    limits: Mapping[str, float] | None = None,
    is_linear: bool = False,
) -> BarChart | None:
    """The bars of `figures`, which share one unit; None when none of them is finite.

    marks: how a bar is drawn, by name. limits: a value that the figure cannot go beyond, by name; the axis holds it.
    is_linear: values far apart are bars too, since they are parts of one thing.
    What is not finite is left out and counted in the note.
    """
    shown = {name: figure for name, figure in figures.items() if abs(figure.value) < MOST}
    if not shown:
        return None
    limits = {name: limit for name, limit in (limits or {}).items() if name in shown and 0 < limit < MOST}
    values = [figure.value for figure in shown.values()]
    ends = {name: _interval(figure) for name, figure in shown.items()}
    positive = [value for value in values if value > 0]
    is_points = (
        len(positive) == len(values) > 1 and max(values) / LOG_FROM >= min(values) and not limits and not is_linear
    )
    low = min(0.0, *values, *(end[0] for end in ends.values()))
    high = max(0.0, *values, *(end[1] for end in ends.values()), *limits.values())
    axis = _logarithmic(values) if is_points else _linear(low, high)
    bars = []
    for name, figure in shown.items():
        at, (left, right) = axis.across(figure.value), (axis.across(end) for end in ends[name])
        start = min(axis.across(0.0), at) if not is_points else at
        bars.append(
            Bar(
                name=name,
                value=numbers.number(figure.value, unit=figure.unit),
                start=start,
                width=0.0 if is_points else max(axis.across(0.0), at) - start,
                at=at,
                low=left,
                high=right,
                words=in_words(name, figure),
                mark=(marks or {}).get(name, "solid"),
                limit=axis.across(limits[name]) if name in limits else None,
            )
        )
    notes = []
    if len(shown) < len(figures):
        notes.append(f"{len(figures) - len(shown)} without a finite value left out")
    if is_points:
        notes.append("points on a logarithmic axis")
    if any(left < right for left, right in ends.values()):
        notes.append("whiskers: 95 % interval of the median")
    return BarChart(title, bars, axis.ticks, is_points, "; ".join(notes))


def in_words(name: str, figure: Figure) -> str:
    """A figure in one line: value, interval, samples, what it is against."""
    interval = f", 95 % interval {numbers.interval(figure)}" if figure.low != figure.high else ""
    against = f", against {figure.against}" if figure.against else ""
    samples = f"{figure.n} sample{'s' * (figure.n != 1)}"
    return f"{name}: {numbers.number(figure.value, unit=figure.unit)}{interval}, {samples}{against}"


@dataclass(frozen=True)
class _Axis:
    low: float
    high: float
    ticks: Sequence[Tick]
    is_logarithmic: bool = False

    def across(self, value: float) -> float:
        """The place of a value, 0 to WIDTH."""
        if self.is_logarithmic:
            value = math.log10(value) if value > 0 else self.low
        part = (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return WIDTH * min(1.0, max(0.0, part))


def _interval(figure: Figure) -> tuple[float, float]:
    """The ends in order; the value itself where one is not finite."""
    low, high = sorted((figure.low, figure.high))
    return (low, high) if abs(low) < MOST and abs(high) < MOST else (figure.value, figure.value)


def _linear(low: float, high: float) -> _Axis:
    if low < -1 / MOST:  # half of a smaller number is 0
        return _Axis(low, high, [Tick(_Axis(low, high, ()).across(0.0) / WIDTH * 100.0, "0")])
    ticks = nice_ticks(high)
    return _Axis(0.0, ticks[-1], [Tick(100.0 * tick / ticks[-1], f"{tick:g}") for tick in ticks])


def _logarithmic(values: Sequence[float]) -> _Axis:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    apart = math.ceil((high - low) / 6)  # of few places each has room for its number
    powers = range(low, high + 1, apart)
    return _Axis(low, high, [Tick(100.0 * (power - low) / (high - low), f"{10.0**power:g}") for power in powers], True)


@dataclass(frozen=True)
class Benchmark:
    """A benchmark record as a page shows it: a chart for the figures of each unit."""

    record: Record
    prefix: str
    """What all names of figures begin with; the charts leave it out."""
    charts: Sequence[BarChart]
    """One for each unit of which there are at least two figures."""

    @classmethod
    def of(cls, record: Record) -> Benchmark:
        """The charts of a record."""
        shared = os.path.commonprefix(list(record.figures)) if len(record.figures) > 1 else ""
        prefix = shared[: shared.rfind(".") + 1]
        by_unit: dict[str, dict[str, Figure]] = {}
        for name, figure in record.figures.items():
            by_unit.setdefault(figure.unit, {})[name.removeprefix(prefix)] = figure
        charts = [bar_chart(_title(unit, some), some) for unit, some in by_unit.items() if len(some) > 1]
        return cls(record, prefix, [chart for chart in charts if chart])


def _title(unit: str, figures: Mapping[str, Figure]) -> str:
    against = {figure.against for figure in figures.values()}
    only = against.pop() if len(against) == 1 else None
    return f"In {unit or 'no unit'}" + (f", against {only}" if only else "")
