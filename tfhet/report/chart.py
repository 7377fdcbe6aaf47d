"""The geometry of charts: axes, and lines over steps. The templates draw it as inline SVG, without any library.

Places are percentages of an axis, 0 at its low end. The page stretches the plot area and writes labels beside it as
text, so that they keep their size at any width.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tfhet.record import median, percentile
from tfhet.report import numbers

BUCKETS = 250
"""Maximum number of points: with more steps, a point is the median of a bucket and a band spans its extremes."""
MOST = 1e300
"""Values beyond this count as not finite, so that a difference of two values is finite."""
OUTLIER = 4.0
"""A maximum beyond this many times p90 is cut at the top, which the note says, instead of flattening the rest."""


@dataclass(frozen=True)
class Tick:
    """A labelled place on an axis, in percent."""

    at: float
    label: str


@dataclass(frozen=True)
class Axis:
    """An axis between two values."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """Place of a value, 0 to 100. A value beyond an end has the place of that end."""
        return 100.0 * min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))

    def ticks(self, values: Iterable[float]) -> list[Tick]:
        """Ticks at some values, labelled with them."""
        return [Tick(self.at(value), f"{value:g}") for value in values]


def nice_ticks(high: float, count: int = 4, *, whole: bool = False) -> list[float]:
    """Round values (1, 2 or 5 times a power of ten apart) from 0 up to at least `high`, about `count` of them."""
    if not high > 1 / MOST:
        return [0.0, 1.0]
    step = 10.0 ** math.floor(math.log10(high / count))
    step *= next(factor for factor in (1.0, 2.0, 5.0, 10.0) if high / (step * factor) <= count + 1e-9)
    if whole:
        step = max(1.0, step)
    return [index * step for index in range(math.ceil(high / step - 1e-9) + 1)]


@dataclass(frozen=True)
class LinePoint:
    """A step of a line, or a bucket of neighbouring steps."""

    x: float
    y: float
    low: float
    """Lower end of the band."""
    high: float
    """Upper end of the band."""
    left: float
    """Left edge of the region that shows the words under the pointer."""
    width: float
    words: str
    """The step (or steps) and the value."""


@dataclass(frozen=True)
class LineChart:
    """One series over steps."""

    title: str
    """Quantity and unit."""
    spots: Sequence[LinePoint]
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    median: float
    """Place of the median."""
    median_words: str
    note: str
    """Omissions of the drawing; "" where there are none."""
    described: str
    """The chart in one sentence, for those who do not see it."""
    marks: Sequence[Tick] = ()
    """Places across that are marked, each with the name of its kind."""


def line_chart(
    title: str,
    samples: Sequence[float],
    unit: str,
    *,
    top: float | None = None,
    marks: Mapping[str, Sequence[int]] | None = None,
) -> LineChart | None:
    """The chart of `samples` in order; `top` fixes the upper end of the axis (100 for percent). None without samples.
    Samples that are not finite are left out and counted in the note. marks: the indices to mark, by what they are."""
    steps = [index for index, value in enumerate(samples) if abs(value) < MOST]
    if not steps:
        return None
    values = [max(0.0, float(samples[index])) for index in steps]
    first, last, middle, usual, slowest = steps[0], steps[-1], median(values), percentile(values, 90), max(values)
    if top is None:
        y_values = nice_ticks(2.0 * usual if usual > 0 and slowest > OUTLIER * usual else slowest)
    else:
        y_values = [top * quarter / 4.0 for quarter in range(5)]
    across = Axis(first, last) if last > first else Axis(first - 1, first + 1)  # a single step lies in the middle
    upward = Axis(0.0, y_values[-1])
    groups = min(len(values), BUCKETS)
    ends = [index * len(values) // groups for index in range(groups + 1)]
    spots = []
    for start, end in zip(ends, ends[1:], strict=False):
        some, begin, finish = values[start:end], steps[start], steps[end - 1]
        x, value = across.at((begin + finish) / 2.0), median(some)
        low, high = (min(some), max(some)) if groups < len(values) else (0.0, value)
        left, right = max(0.0, x - 50.0 / groups), min(100.0, x + 50.0 / groups)
        named = f"step {begin + 1}" if begin == finish else f"steps {begin + 1} to {finish + 1}, median"
        words = f"{named}: {numbers.number(value, unit=unit)}"
        spots.append(LinePoint(x, upward.at(value), upward.at(low), upward.at(high), left, right - left, words))
    notes = []
    if len(steps) < len(samples):
        notes.append(f"{len(samples) - len(steps)} steps without a finite value left out")
    if above := sum(value > upward.high for value in values):
        plural = "s" * (above != 1)
        notes.append(f"{above} step{plural} above the axis, the highest {numbers.number(slowest, unit=unit)}")
    marked = {name: [index for index in found if first <= index <= last] for name, found in (marks or {}).items()}
    if any(marked.values()):
        notes.append(f"marked: {', '.join(f'{name} ({len(found)})' for name, found in marked.items())}")
    if groups < len(values):
        notes.append("line: median of neighbouring steps, band: their extremes")
    x_values = nice_ticks(last + 1, 5, whole=True) if last > first else [first + 1]
    facts = {"median": middle, "p10": percentile(values, 10), "p90": usual, "highest": slowest}
    summary = ", ".join(f"{name} {numbers.number(value, unit=unit)}" for name, value in facts.items())
    return LineChart(
        title,
        spots,
        [Tick(across.at(step - 1), numbers.number(round(step))) for step in x_values if first < step <= last + 1],
        upward.ticks(y_values),
        upward.at(middle),
        numbers.number(middle, unit=unit),
        "; ".join(notes),
        f"{title} over {numbers.number(len(values))} steps: {summary}.",
        [Tick(across.at(index), name) for name, found in marked.items() for index in found],
    )
