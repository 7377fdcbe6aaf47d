"""The picture of a record of `benchmarks.cluster`: step time and money, variant by variant."""

from __future__ import annotations

from pathlib import Path

from benchmarks.charts.bar_grid import BarPanel, plot_bar_grid
from benchmarks.cluster.case import CASES
from tfhet.record import Figure, Record

STEP, MONEY = "step_ms", "usd_per_million_examples"


def draw(record: Record, path: Path) -> Path:
    """Writes it to `path` (.png, .svg or .pdf). Raises UsageError where that cannot be."""
    case = CASES[record.name.partition(".")[2]]

    def figure(key: str, name: str) -> Figure:
        return record.figures[f"{record.name}.{key}.{name}"]

    bars = [
        BarPanel(label, {one.words: figure(one.key, name) for one in case.variants})
        for label, name in (("ms a step", STEP), ("USD a million examples", MONEY))
    ]
    return plot_bar_grid({"": bars}, path, title=f"{case.chain} in batches of {case.batch_size:,}")
