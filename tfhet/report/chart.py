"""The geometry of a line chart over steps, for the template to draw as inline SVG without any library.

The plot area is a box of 1000 x 100 units that the page stretches; tick labels are placed beside it in percent, so that
text keeps its size at any width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tfhet.record import median, percentile
from tfhet.report import numbers

WIDTH, HEIGHT = 1000.0, 100.0
BUCKETS = 250
"""Maximum number of points: with more steps, a point is the median of a bucket and a band spans its extremes."""
MOST = 1e300
"""Larger values count as not finite: twice the value would be."""
OUTLIER = 4.0
"""A maximum beyond this many times p90 is cut at the top, and said so, instead of flattening the rest."""


@dataclass(frozen=True)
class Tick:
    """A labelled place on an axis, in percent: 0 is left or top."""

    at_pct: float
    label: str


@dataclass(frozen=True)
class ChartDot:
    """A region that the pointer finds, in units of the box, and the words that it shows there."""

    x: float
    """Left edge."""
    width: float
    words: str
    """The step (or steps) and the value."""


@dataclass(frozen=True)
class LineChart:
    """One series over steps, ready to be drawn."""

    title: str
    """What is shown, with its unit."""
    line: str
    """SVG path of the series."""
    band: str
    """SVG path of the area below it: bucket extremes, or from zero up; may be empty."""
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    middle_pct: float
    """Place of the median; 0 is the top."""
    middle: str
    """The median as text."""
    spots: Sequence[ChartDot]
    note: str
    """What the drawing leaves out, or empty."""
    described: str
    """The chart in one sentence, for those who do not see it."""


def nice_ticks(high: float, count: int = 4, *, whole: bool = False) -> list[float]:
    """Round values (1, 2 or 5 times a power of ten apart) from 0 up to at least `high`, about `count` of them."""
    if not high > 1 / MOST:
        return [0.0, 1.0]
    step = 10.0 ** math.floor(math.log10(high / count))
    step *= next(factor for factor in (1.0, 2.0, 5.0, 10.0) if high / (step * factor) <= count + 1e-9)
    if whole:
        step = max(1.0, step)
    return [index * step for index in range(math.ceil(high / step - 1e-9) + 1)]


def line_chart(title: str, samples: Sequence[float], unit: str, *, top: float | None = None) -> LineChart | None:
    """The chart of `samples` in order; `top` fixes the upper end of the axis (100 for percent). None without samples.

    Samples that are not finite are left out and counted in the note.
    """
    steps = [index for index, value in enumerate(samples) if abs(value) < MOST]
    if not steps:
        return None
    values = [max(0.0, float(samples[index])) for index in steps]
    slowest, usual = max(values), percentile(values, 90)
    cut = top if top is not None else (usual * 2.0 if usual > 0 and slowest > OUTLIER * usual else slowest)
    ticks = nice_ticks(cut) if top is None else [top * quarter / 4.0 for quarter in range(5)]
    high = ticks[-1]
    notes = []
    if len(steps) < len(samples):
        notes.append(f"{len(samples) - len(steps)} steps without a finite value left out")
    above = sum(value > high for value in values)
    if above:
        notes.append(
            f"{above} step{'s' * (above != 1)} above the axis, the highest {numbers.number(slowest, unit=unit)}"
        )
    first, last = steps[0], steps[-1]
    span = max(1, last - first)

    def across(step: float) -> float:
        return (step - first) / span * WIDTH if last > first else WIDTH / 2

    def down(value: float) -> float:
        return HEIGHT * (1.0 - min(value, high) / high)

    groups = _buckets(len(values))
    if len(groups) < len(values):
        notes.append("line: median of neighbouring steps, band: their extremes")
    points, floor, ceiling, spots = [], [], [], []
    for start, end in groups:
        some, begin, finish = values[start:end], steps[start], steps[end - 1]
        center = across((begin + finish) / 2.0)
        points.append((center, down(median(some))))
        floor.append((center, down(min(some)) if len(groups) < len(values) else HEIGHT))
        ceiling.append((center, down(max(some)) if len(groups) < len(values) else down(median(some))))
        named = f"step {begin + 1}" if begin == finish else f"steps {begin + 1} to {finish + 1}, median"
        half = WIDTH / len(groups) / 2.0
        left = max(0.0, center - half)
        spots.append(
            ChartDot(left, min(WIDTH, center + half) - left, f"{named}: {numbers.number(median(some), unit=unit)}")
        )
    middle = median(values)
    return LineChart(
        title=title,
        line=path(points) if len(points) > 1 else f"M0,{points[0][1]:.2f}H{WIDTH:.0f}",
        band=path([*ceiling, *reversed(floor)]) + "Z" if len(points) > 1 else "",
        x_ticks=[
            Tick(across(step - 1) / WIDTH * 100.0, numbers.number(round(step)))
            for step in (nice_ticks(last + 1, 5, whole=True) if last > first else [first + 1])
            if first < step <= last + 1
        ],
        y_ticks=[Tick(down(value) / HEIGHT * 100.0, f"{value:g}") for value in ticks],
        middle_pct=down(middle) / HEIGHT * 100.0,
        middle=numbers.number(middle, unit=unit),
        spots=spots,
        note="; ".join(notes),
        described=(
            f"{title} over {numbers.number(len(values))} steps: median {numbers.number(middle, unit=unit)}, "
            f"p10 {numbers.number(percentile(values, 10), unit=unit)}, p90 {numbers.number(usual, unit=unit)}, "
            f"highest {numbers.number(slowest, unit=unit)}."
        ),
    )


def _buckets(count: int) -> list[tuple[int, int]]:
    if count <= BUCKETS:
        return [(index, index + 1) for index in range(count)]
    return [(index * count // BUCKETS, (index + 1) * count // BUCKETS) for index in range(BUCKETS)]


def path(points: Sequence[tuple[float, float]]) -> str:
    """The SVG path through some points."""
    return "M" + "L".join(f"{x:.2f},{y:.2f}" for x, y in points)
