"""The picture of a record of `benchmarks.cluster`: step time and money, variant by variant or over data hosts."""

from __future__ import annotations

from pathlib import Path

from benchmarks.charts.bar_grid import BarPanel, plot_bar_grid
from benchmarks.charts.panels import Panel, plot_panels
from benchmarks.cluster.case import CASES
from tfhet.record import Figure, Record

STEP, MONEY = "step_ms", "usd_per_million_examples"


def draw(record: Record, path: Path) -> Path:
    """Writes it to `path` (.png, .svg or .pdf). Raises UsageError where that cannot be."""
    case = CASES[record.name.partition(".")[2]]

    def figure(key: str, name: str) -> Figure:
        return record.figures[f"{record.name}.{key}.{name}"]

    if case.ratios:
        bars = [
            BarPanel(label, {one.words: figure(one.key, name) for one in case.variants})
            for label, name in (("ms a step", STEP), ("USD a million examples", MONEY))
        ]
        return plot_bar_grid({"": bars}, path, title=f"{case.chain} in batches of {case.batch_size:,}")
    served = {float(one.data_hosts): one for one in case.variants if not one.in_memory}
    alone_s, ceiling_s = (1e-3 * figure(one.key, STEP).value for one in (served[0.0], case.ceiling(served[0.0].form)))
    lines = {
        "as the vCPUs allow": {n: 1e3 * case.least_s(one, alone_s, ceiling_s) for n, one in served.items()},
        "data from memory": dict.fromkeys(served, 1e3 * ceiling_s),
    }
    panels = [
        Panel(title, {n: figure(one.key, name) for n, one in served.items()}, line)
        for title, name, line in (
            (f"a step of {case.batch_size:,} examples", STEP, lines),
            ("a million examples", MONEY, {}),
        )
    ]
    names = [name.removeprefix("ml.") for name in (case.data_type, case.dnn_type)]
    return plot_panels(panels, path, across=f"{names[0]} beside a {names[1]}")
