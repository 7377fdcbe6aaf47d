"""Bars with their intervals as a picture, through matplotlib (extra `demo`)."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tfhet.bench import Suite
from tfhet.command_line import output_file
from tfhet.errors import UsageError
from tfhet.events import Observer
from tfhet.record import Figure, Record
from tfhet.report import numbers

PICTURES = (".png", ".svg", ".pdf")
LOG_FROM = 30.0
"""Largest over smallest value from which an axis is logarithmic; below, short bars can still be seen."""


def drawn(suite: Suite, draw: Callable[[Record, Path], Path]) -> Suite:
    """The suite with the option `--plot FILE`: what it measured as a picture. draw: writes it, and returns the file."""

    def options(parser: argparse.ArgumentParser) -> None:
        suite.options(parser)
        parser.add_argument("--plot", type=output_file, metavar="FILE", help=f"write a picture ({', '.join(PICTURES)})")

    def run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
        if options.plot:
            check_plot(options.plot)
        record = suite.run(options, observer, command)
        if options.plot:
            print(f"plot: {draw(record, options.plot)}")
        return record

    return replace(suite, options=options, run=run)


def drawn_bars(suite: Suite, bars: Callable[[Record], tuple[str, Mapping[str, Figure]]]) -> Suite:
    """The suite with the option `--plot FILE` for bars. bars: a record to a title and figures of one unit."""

    def draw(record: Record, path: Path) -> Path:
        title, figures = bars(record)
        return plot_bars(figures, path, title=title)

    return drawn(suite, draw)


def check_plot(path: Path | str) -> None:
    """Raises UsageError when a plot could not be written to `path`: unknown suffix, or matplotlib is missing."""
    _matplotlib()
    suffix = Path(path).suffix.lower()
    if suffix not in PICTURES:
        raise UsageError(f"plot {path}: the name must end with one of {', '.join(PICTURES)}")


def _matplotlib() -> Any:
    # The figure module alone: pyplot would pick a backend for the whole process.
    try:
        return importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise UsageError(f"plots need matplotlib ({error}): pip install 'tfhet[demo]'") from None


def plot_bars(figures: Mapping[str, Figure], path: Path | str, *, title: str = "", label: str = "") -> Path:
    """Writes horizontal bars of `figures` with whiskers over their intervals to `path` (.png, .svg or .pdf).

    Values that lie far apart become points on a logarithmic axis.

    All figures share one unit; `label` names the axis (default: the unit). Raises UsageError for no figures,
    mixed units, another suffix, or when matplotlib is missing.
    """
    check_plot(path)
    units = sorted({figure.unit for figure in figures.values()})
    if len(units) != 1:
        raise UsageError(f"plot {path}: bars need figures of one unit, got {', '.join(units) or 'no figures'}")
    names = list(figures)
    values = [figures[name].value for name in names]
    below = [max(0.0, figure.value - figure.low) for figure in figures.values()]
    above = [max(0.0, figure.high - figure.value) for figure in figures.values()]
    drawing = _matplotlib().Figure(figsize=(8.0, 1.1 + 0.36 * len(names)), layout="constrained")
    axes = drawing.add_subplot()
    positions = range(len(names))
    positive = [value for value in values if value > 0]
    logarithmic = len(positive) == len(values) and max(positive) / min(positive) >= LOG_FROM
    if logarithmic:  # points: the length of a bar means nothing where the axis has no zero
        axes.plot(values, positions, "o", color="#2a78d6", markersize=8)
        axes.set_xscale("log")
        axes.set_xlim(left=min(positive) / 2.0)
    else:
        axes.barh(positions, values, height=0.62, color="#2a78d6")
    axes.errorbar(values, positions, xerr=[below, above], fmt="none", ecolor="#52514e", elinewidth=1, capsize=2.5)
    axes.set_xlim(right=max(figure.high for figure in figures.values()) * (2.2 if logarithmic else 1.14))
    for position, figure in zip(positions, figures.values(), strict=True):
        axes.annotate(
            numbers.number(figure.value),
            (figure.high, position),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color="#0b0b0b",
        )
    axes.set_yticks(positions, names)
    axes.invert_yaxis()
    axes.set_xlabel((label or units[0]) + (", logarithmic" if logarithmic else ""), color="#52514e")
    axes.tick_params(colors="#52514e", length=0)
    axes.grid(axis="x", color="#e1e0d9", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#c3c2b7")
    if title:
        axes.set_title(title, loc="left", fontsize=11, color="#0b0b0b")
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=160)
    return path
