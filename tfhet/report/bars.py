"""The geometry of horizontal bars with their intervals, for the templates to draw as inline SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfhet.record import Figure
from tfhet.report import numbers
from tfhet.report.chart import MOST, Axis, Tick, nice_ticks


@dataclass(frozen=True)
class BarChart:
    """Bars on one axis."""

    title: str
    figures: Mapping[str, Figure]
    """The figures by name; all are finite."""
    limits: Mapping[str, float]
    """Limits of their values by name, where they have one."""
    axis: Axis
    ticks: Sequence[Tick]
    note: str
    """Omissions of the drawing, and the meaning of its whiskers."""


def bar_chart(
    title: str, figures: Mapping[str, Figure], *, limits: Mapping[str, float] | None = None
) -> BarChart | None:
    """The bars of `figures`, which share one unit; None when none of them is finite. limits: a value that the figure
    cannot exceed, by name; the axis includes it. What is not finite is left out and counted in the note."""
    shown = {name: figure for name, figure in figures.items() if abs(figure.value) < MOST}
    if not shown:
        return None
    limits = {name: limit for name, limit in (limits or {}).items() if name in shown and 0 < limit < MOST}
    every = [end for figure in shown.values() for end in (figure.value, *ends(figure))]
    low, high = min(0.0, *every), max(0.0, *every, *limits.values())
    ticked = [0.0] if low < 0 else nice_ticks(high)
    axis = Axis(low, max(high, ticked[-1]))
    notes = []
    if len(shown) < len(figures):
        notes.append(f"{len(figures) - len(shown)} without a finite value left out")
    if any(low < high for low, high in map(ends, shown.values())):
        notes.append("whiskers: interval of the median")
    return BarChart(title, shown, limits, axis, axis.ticks(ticked), "; ".join(notes))


def in_words(figure: Figure, name: str) -> str:
    """A figure in one line: value, interval, samples."""
    words = f"{numbers.level(figure)} interval".lstrip()
    interval = f", {words} {numbers.interval(figure)}" if figure.low != figure.high else ""
    samples = f"{figure.n} sample{'s' * (figure.n != 1)}"
    return f"{name}: {numbers.number(figure.value, unit=figure.unit)}{interval}, {samples}"


def ends(figure: Figure) -> tuple[float, float]:
    """The ends of the interval in order; the value itself where one is not finite."""
    low, high = sorted((figure.low, figure.high))
    return (low, high) if abs(low) < MOST and abs(high) < MOST else (figure.value, figure.value)
