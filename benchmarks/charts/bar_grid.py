"""A grid of bars: a row of panels for each case, a column for each quantity, the same names down all of them; through
matplotlib."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.charts.plot import check_plot
from tfhet.errors import UsageError
from tfhet.record import Figure
from tfhet.report import numbers


@dataclass(frozen=True)
class BarPanel:
    """One quantity of one case."""

    title: str
    bars: Mapping[str, Figure | None]
    """By name, in order; None where there is no such number."""
    missing: str = ""
    """Text in place of a bar for which there is no number."""
    whole: float | None = None
    """Where the axis ends, of a share of something."""


def plot_bar_grid(rows: Mapping[str, Sequence[BarPanel]], path: Path | str, *, title: str = "") -> Path:
    """Writes the panels, by case, to `path` (.png, .svg or .pdf).

    Raises UsageError for rows of different lengths, panels of one row that name different bars, another suffix, or when
    matplotlib is missing.
    """
    check_plot(path)
    columns = {len(panels) for panels in rows.values()}
    if len(columns) != 1 or any(list(one.bars) != list(panels[0].bars) for panels in rows.values() for one in panels):
        raise UsageError(f"plot {path}: a grid needs as many panels in each row, all of the row's with the same names")
    module: Any = importlib.import_module("matplotlib.figure")
    across, most = columns.pop(), max(len(panels[0].bars) for panels in rows.values())
    drawing = module.Figure(figsize=(1.6 + 2.1 * across, 0.5 + len(rows) * (0.8 + 0.3 * most)), layout="constrained")
    for down, (case, panels) in enumerate(rows.items()):
        for column, panel in enumerate(panels):
            axes = drawing.add_subplot(len(rows), across, down * across + column + 1)
            _draw(axes, panel, is_first=column == 0)
            if column == 0:
                axes.set_ylabel(case, fontsize=10, color="#0b0b0b")
    if title:
        drawing.suptitle(title, x=0.01, ha="left", fontsize=11, color="#0b0b0b")
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=160)
    return path


def _draw(axes: Any, panel: BarPanel, *, is_first: bool) -> None:
    known = {place: figure for place, figure in enumerate(panel.bars.values()) if figure is not None}
    values = [figure.value for figure in known.values()]
    spread = [
        [max(0.0, figure.value - figure.low) for figure in known.values()],
        [max(0.0, figure.high - figure.value) for figure in known.values()],
    ]
    axes.barh(list(known), values, height=0.62, color="#2a78d6")
    if known:
        axes.errorbar(values, list(known), xerr=spread, fmt="none", ecolor="#52514e", elinewidth=1, capsize=2)
    for place, figure in enumerate(panel.bars.values()):
        axes.annotate(
            panel.missing if figure is None else numbers.number(figure.value),
            (0.0 if figure is None else max(figure.value, figure.high), place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color="#0b0b0b" if figure is not None else "#52514e",
        )
    end = panel.whole or max([figure.high for figure in known.values()], default=1.0)
    axes.set_xlim(0.0, 1.35 * end)
    axes.set_ylim(len(panel.bars) - 0.5, -0.5)
    axes.set_yticks(range(len(panel.bars)), list(panel.bars) if is_first else [""] * len(panel.bars), fontsize=8)
    axes.set_xticks([])
    axes.set_title(panel.title, loc="left", fontsize=9, color="#52514e")
    axes.tick_params(colors="#52514e", length=0)
    for side in ("top", "right", "bottom"):
        axes.spines[side].set_visible(False)
    axes.spines["left"].set_color("#c3c2b7")
