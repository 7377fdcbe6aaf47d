"""Geometry of charts: axes, lines over steps, epochs or seconds, and bars. The templates draw them as inline SVG.

Positions are percentages of an axis, 0 at its low end. The page stretches the plot area; labels are text outside it.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tfhet.record import Figure, median, percentile
from tfhet.report import numbers

Points: TypeAlias = Sequence[tuple[float, float]]
"""Pairs of a step, epoch or second, which are whole numbers, and a value."""
BUCKETS = 250
"""Maximum number of points of a line. With more steps, a point is the median of its bucket."""
LINES = 8
"""Maximum number of lines of a chart: the page has as many colours."""
MOST = 1e300
"""Larger values count as not finite, so that the difference of two values is finite."""
OUTLIER = 4.0
"""If the maximum is more than this multiple of p90, the axis ends below it, and the note counts the values above."""


@dataclass(frozen=True)
class Tick:
    """A labelled position on an axis, in percent."""

    at: float
    label: str


@dataclass(frozen=True)
class Axis:
    """An axis between two values."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """Returns the position of a value, 0 to 100; values outside the axis are at its ends."""
        return 100.0 * min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))

    def ticks(self, values: Iterable[float]) -> list[Tick]:
        """Returns ticks at `values`, labelled with them."""
        return [Tick(self.at(value), f"{value:,.9g}" if 1e4 <= value < 1e9 else f"{value:g}") for value in values]

    def round_ticks(self, count: int = 4, *, whole: bool = False) -> list[Tick]:
        """Returns ticks at the round values between the ends."""
        found = nice_ticks(self.high, count, low=self.low, whole=whole)
        return self.ticks(value for value in found if self.low <= value <= self.high)


def nice_ticks(high: float, count: int = 4, *, low: float = 0.0, whole: bool = False) -> list[float]:
    """Returns about `count` round values, 1, 2 or 5 times a power of ten apart, that enclose `low` and `high`."""
    if not high - low > 1 / MOST:
        return [0.0, 1.0]
    step = 10.0 ** math.floor(math.log10((high - low) / count))
    step *= next(factor for factor in (1.0, 2.0, 5.0, 10.0) if (high - low) / (step * factor) <= count + 1e-9)
    if whole:
        step = max(1.0, step)
    return [index * step for index in range(math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9) + 1)]


@dataclass(frozen=True)
class LineChart:
    title: str
    x: str
    """Unit of the horizontal axis: `step`, `epoch` or `second`."""
    lines: Mapping[str, Sequence[Sequence[float]]]
    """Points of each line by its name: x, y, and the low and high end of the band of a single line."""
    words: Mapping[str, str]
    """Median of each line, or its last value over epochs."""
    spots: Sequence[tuple[float, float, str]]
    """Left edge, width and tooltip of each region of the plot."""
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    median: float | None
    """Position of the median of a single line; None for several lines and over epochs."""
    note: str
    """What the drawing omits and marks; may be empty."""
    described: str
    """Description of the chart in one sentence, for screen readers."""
    marks: Sequence[Tick]
    """Marked positions on the horizontal axis, each with the name of its kind."""


def line_chart(
    title: str, unit: str, lines: Mapping[str, Points], *, x: str = "step", marks: Mapping[str, Sequence[int]] = {}
) -> LineChart | None:
    """Returns the chart of `lines` by name ("" for a single line); None without values, and over epochs if no line has
    two. Values that are not finite are omitted and counted in the note. unit: an axis of "%" ends at 100. x: `step`,
    `epoch` or `second`. marks: positions by the name of their kind."""
    finite = {name: [each for each in points if all(abs(one) < MOST for one in each)] for name, points in lines.items()}
    drawn = dict([(name, points) for name, points in finite.items() if len(points) > (x == "epoch")][:LINES])
    if not drawn:
        return None
    of, is_alone = functools.partial(numbers.number, unit=unit), len(drawn) == 1
    values = {name: [value for _, value in points] for name, points in drawn.items()}
    places, every = zip(*itertools.chain(*drawn.values()), strict=True)
    usual, highest = max(percentile(some, 90) for some in values.values()), max(0.0, *every)
    top = 2.0 * usual if highest > OUTLIER * usual > 0 else highest
    y_values = [25.0 * quarter for quarter in range(5)] if unit == "%" else nice_ticks(top, low=min(0.0, *every))
    first, last, upward = min(places), max(places), Axis(y_values[0], y_values[-1])
    across = Axis(first, last) if last > first else Axis(first - 1, first + 1)  # a single step lies in the middle
    groups, has_band = int(min(last - first + 1, BUCKETS)), last - first + 1 > BUCKETS
    parts: dict[int, dict[str, list[tuple[float, float]]]] = {}
    for name, points in drawn.items():
        for point in points:
            part = min(groups - 1, int(across.at(point[0]) * groups / 100.0))
            parts.setdefault(part, {}).setdefault(name, []).append(point)
    found: dict[str, list[Sequence[float]]] = {name: [] for name in drawn}
    spots = []
    for part, together in sorted(parts.items()):
        here = [place for points in together.values() for place, _ in points]
        begin, end, shown = min(here), max(here), dict.fromkeys(drawn, numbers.MISSING)
        for name, points in together.items():
            some = [value for _, value in points]
            ends = (median(some), min(some), max(some)) if has_band else (median(some), 0.0, median(some))
            found[name].append((across.at((begin + end) / 2.0), *map(upward.at, ends)))
            shown[name] = of(median(some))
        named = f"{x} {begin:.0f}" if begin == end else f"{x}s {begin:.0f} to {end:.0f}, median"
        words = f"{named}: {', '.join(f'{name} {value}'.strip() for name, value in shown.items())}"
        spots.append((100.0 * part / groups, 100.0 / groups, words))
    marked = {name: [place for place in some if first <= place <= last] for name, some in marks.items()}
    lost = sum(map(len, lines.values())) - sum(map(len, finite.values()))
    above = sum(value > upward.high for value in every)
    notes = {
        f"left out: {', '.join(name for name in lines if name not in drawn)}": len(drawn) < len(lines),
        f"{lost} {x}s without a finite value left out": lost,
        f"{above} {x}{'s' * (above != 1)} above the axis, the highest {of(highest)}": above,
        f"marked: {', '.join(f'{name} ({len(some)})' for name, some in marked.items())}": any(marked.values()),
        f"line{'s' * (not is_alone)}: median of neighbouring {x}s{', band: their extremes' * is_alone}": has_band,
    }
    outcomes = {name: some[-1] if x == "epoch" else median(some) for name, some in values.items()}
    facts = {name: f"{'last' if x == 'epoch' else 'median'} {of(end)}" for name, end in outcomes.items()}
    summary = "; ".join(f"{name} {facts[name]}, highest {of(max(some))}".strip() for name, some in values.items())
    return LineChart(
        title,
        x,
        found,
        facts,
        spots,
        across.ticks([first]) if first == last else across.round_ticks(5, whole=True),
        upward.ticks(y_values),
        upward.at(median(every)) if is_alone and x != "epoch" else None,
        "; ".join(note for note, is_true in notes.items() if is_true),
        f"{title} over {numbers.number(len(set(places)))} {x}s: {summary}.",
        [Tick(across.at(place), name) for name, some in marked.items() for place in some],
    )


@dataclass(frozen=True)
class BarChart:
    """Horizontal bars on one axis."""

    title: str
    figures: Mapping[str, Figure]
    """The figures by name; all are finite."""
    limits: Mapping[str, float]
    axis: Axis
    ticks: Sequence[Tick]
    note: str
    """What the drawing omits, and the meaning of its whiskers; may be empty."""


def bar_chart(
    title: str, figures: Mapping[str, Figure], *, limits: Mapping[str, float] | None = None
) -> BarChart | None:
    """Returns the bars of `figures`, which share one unit, and counts the figures that are not finite in the note; None
    if none is finite. limits: upper limits by name; the axis includes them."""
    shown = {name: figure for name, figure in figures.items() if abs(figure.value) < MOST}
    if not shown:
        return None
    limits = {name: limit for name, limit in (limits or {}).items() if name in shown and 0 < limit < MOST}
    every = [end for figure in shown.values() for end in (figure.value, *ends(figure))]
    low, high = min(0.0, *every), max(0.0, *every, *limits.values())
    ticked = [0.0] if low < 0 else nice_ticks(high)
    axis = Axis(low, max(high, ticked[-1]))
    notes = {
        f"{len(figures) - len(shown)} without a finite value left out": len(shown) < len(figures),
        "whiskers: interval of the median": any(low < high for low, high in map(ends, shown.values())),
    }
    note = "; ".join(words for words, is_true in notes.items() if is_true)
    return BarChart(title, shown, limits, axis, axis.ticks(ticked), note)


def in_words(figure: Figure, name: str) -> str:
    """Returns a figure in one line: value, interval, samples."""
    words = f"{numbers.level(figure)} interval".lstrip()
    interval = f", {words} {numbers.interval(figure)}" if figure.low != figure.high else ""
    samples = f"{figure.n} sample{'s' * (figure.n != 1)}"
    return f"{name}: {numbers.number(figure.value, unit=figure.unit)}{interval}, {samples}"


def ends(figure: Figure) -> tuple[float, float]:
    """Returns the ends of the interval in order; the value itself if one of them is not finite."""
    low, high = sorted((figure.low, figure.high))
    return (low, high) if abs(low) < MOST and abs(high) < MOST else (figure.value, figure.value)
