"""The geometry of charts: axes, and lines over steps, epochs or seconds. The templates draw them as inline SVG. Places
are percentages of an axis, 0 at its low end. The page stretches the plot area and writes labels beside it as text, so
that they keep their size at any width."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tfhet.record import median, percentile
from tfhet.report import numbers

Points: TypeAlias = Sequence[tuple[float, float]]
"""Places across, which are whole numbers, each with a value."""
BUCKETS = 250
"""Maximum number of points of a line: with more steps, a point is the median of those in its part of the axis."""
LINES = 8  # in a chart, at most: the page has so many colours
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
        return [Tick(self.at(value), f"{value:,.9g}" if 1e4 <= value < 1e9 else f"{value:g}") for value in values]

    def round_ticks(self, count: int = 4, *, whole: bool = False) -> list[Tick]:
        """Ticks at the round values between its ends."""
        found = nice_ticks(self.high, count, low=self.low, whole=whole)
        return self.ticks(value for value in found if self.low <= value <= self.high)


def nice_ticks(high: float, count: int = 4, *, low: float = 0.0, whole: bool = False) -> list[float]:
    """Round values (1, 2 or 5 times a power of ten apart) that enclose `low` and `high`, about `count` of them."""
    if not high - low > 1 / MOST:
        return [0.0, 1.0]
    step = 10.0 ** math.floor(math.log10((high - low) / count))
    step *= next(factor for factor in (1.0, 2.0, 5.0, 10.0) if (high - low) / (step * factor) <= count + 1e-9)
    if whole:
        step = max(1.0, step)
    return [index * step for index in range(math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9) + 1)]


@dataclass(frozen=True)
class LineChart:
    """One or several lines."""

    title: str
    x: str
    """Unit of the horizontal axis: `step`, `epoch` or `second`."""
    lines: Mapping[str, Sequence[Sequence[float]]]
    """The points of each line, by its name: across, upwards, and the ends of the band, which only one alone has."""
    words: Mapping[str, str]
    """The median of each line; over epochs its last value."""
    spots: Sequence[tuple[float, float, str]]
    """Left edge and width of each region that shows words under the pointer: where it is, and the values there."""
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    median: float | None
    """Place of the median of a line that is alone; None over epochs."""
    note: str
    """Omissions of the drawing; "" where there are none."""
    described: str
    """The chart in one sentence, for those who do not see it."""
    marks: Sequence[Tick]
    """Places across that are marked, each with the name of its kind."""


def line_chart(
    title: str, unit: str, lines: Mapping[str, Points], *, x: str = "step", marks: Mapping[str, Sequence[int]] = {}
) -> LineChart | None:
    """The chart of `lines`, by name; "" for one that needs none. An axis of percent ends at 100. None without values,
    or where no line has two epochs. What is not finite is left out, and noted. marks: places, by what they are."""
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
