"""Measured points beside the lines that they are held against, one panel for each case; through matplotlib."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.charts.plot import check_plot
from tfhet.errors import UsageError
from tfhet.record import Figure

_STYLES = ("-", "--", ":")
_COLOURS = ("#52514e", "#a3a29b", "#c3c2b7")


@dataclass(frozen=True)
class Panel:
    """One case."""

    title: str
    points: Mapping[float, Figure]
    """Measured, by place on the axis; all of one unit, which may be another in each panel."""
    lines: Mapping[str, Mapping[float, float]]
    """By name: value by place."""


def plot_panels(
    panels: Sequence[Panel], path: Path | str, *, title: str = "", across: str = "", measured: str = "measured"
) -> Path:
    """Writes the panels, two in a row, to `path` (.png, .svg or .pdf). `across` names the axis.

    Raises UsageError for no panels or points, mixed units in one, another suffix, or when matplotlib is missing.
    """
    check_plot(path)
    units = [sorted({figure.unit for figure in panel.points.values()}) for panel in panels]
    for found in units or [[]]:
        if len(found) != 1:
            raise UsageError(f"plot {path}: panels need points of one unit, got {', '.join(found) or 'none'}")
    module: Any = importlib.import_module("matplotlib.figure")
    columns = min(2, len(panels))
    down = math.ceil(len(panels) / columns)
    drawing = module.Figure(figsize=(4.4 * columns, 0.5 + 3.0 * down), layout="constrained")
    for index, panel in enumerate(panels):
        axes = drawing.add_subplot(down, columns, index + 1)
        for number, (name, line) in enumerate(panel.lines.items()):
            style, colour = _STYLES[number % len(_STYLES)], _COLOURS[number % len(_COLOURS)]
            axes.plot(list(line), list(line.values()), style, color=colour, linewidth=1.5, label=name)
        places, figures = list(panel.points), list(panel.points.values())
        values = [figure.value for figure in figures]
        spread = [
            [max(0.0, figure.value - figure.low) for figure in figures],
            [max(0.0, figure.high - figure.value) for figure in figures],
        ]
        axes.errorbar(
            places,
            values,
            yerr=spread,
            fmt="o",
            color="#2a78d6",
            markersize=5,
            capsize=2.5,
            linewidth=1,
            label=measured,
        )
        axes.set_ylim(bottom=0.0)
        axes.set_xticks(places)
        axes.set_title(panel.title, loc="left", fontsize=10, color="#0b0b0b")
        axes.set_xlabel(across, color="#52514e")
        axes.set_ylabel(units[index][0], color="#52514e")
        axes.tick_params(colors="#52514e", length=0)
        axes.grid(axis="y", color="#e1e0d9", linewidth=0.8)
        axes.set_axisbelow(True)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.spines["bottom"].set_color("#c3c2b7")
        if index == 0:
            axes.legend(frameon=False, fontsize=8)
    if title:
        drawing.suptitle(title, x=0.01, ha="left", fontsize=11, color="#0b0b0b")
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=160)
    return path
