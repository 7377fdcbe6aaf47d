"""The results of `benchmarks.instances`: figures, the printed table, the chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.charts.bar_grid import BarPanel, plot_bar_grid
from benchmarks.instances.reason import Standing, cheapest, fastest, reason
from tfhet.record import Figure, Record

SHARES = {"cpu_pct": "CPU %", "memory_pct": "memory %", "accelerator_pct": "accelerator %"}
"""Fields of a host's use that are shown, with their column names."""
RATIOS = {"time_vs_best": "time, x best", "cost_vs_best": "cost, x best"}

Standings = Mapping[str, Sequence[Standing]]
"""By key of a load."""


def figures_of(standings: Standings) -> dict[str, Figure]:
    """The flat table; a type whose memory was too small has no time and no cost."""
    figures: dict[str, Figure] = {}
    for key, some in standings.items():
        first, least = fastest(some), cheapest(some)
        for one in some:
            name = f"instances.{key}.{one.candidate.key}"
            if one.seconds and one.usd and first and least:
                figures[f"{name}.time_vs_best"] = Figure.ratio(
                    one.seconds, first.seconds or (), against=f"{first.candidate.name}, the fastest"
                )
                figures[f"{name}.cost_vs_best"] = Figure.ratio(
                    one.usd, least.usd or (), against=f"{least.candidate.name}, the cheapest"
                )
                figures[f"{name}.seconds"] = Figure.of(one.seconds, unit="s")
            for share in SHARES:
                values = [value for run in one.runs if (value := getattr(run, share)) is not None]
                if values:
                    figures[f"{name}.{share}"] = Figure.of(values, unit="%")
    return figures


def rows(key: str, standings: Sequence[Standing]) -> list[dict[str, object]]:
    """The printed table of one load."""
    figures = figures_of({key: standings})
    found: list[dict[str, object]] = []
    for one in standings:
        of = {
            name: figures.get(f"instances.{key}.{one.candidate.key}.{name}")
            for name in ("seconds", "time_vs_best", "cost_vs_best", *SHARES)
        }
        values = {name: None if figure is None else figure.value for name, figure in of.items()}
        found.append(
            {
                "workload": key,
                "instance": one.candidate.name,
                "s": values["seconds"],
                "x time": values["time_vs_best"],
                "x cost": values["cost_vs_best"],
                **{words: values[share] for share, words in SHARES.items()},
                "why": reason(one, standings),
            }
        )
    return found


def best(standings: Sequence[Standing]) -> dict[str, str | None]:
    """The names of the fastest and of the cheapest; None where no job ended."""
    found = {"fastest": fastest(standings), "cheapest": cheapest(standings)}
    return {word: None if one is None else one.candidate.name for word, one in found.items()}


def draw(record: Record, path: Path) -> Path:
    """Writes a row of panels for each load: time, cost, and what was used, by type."""
    grid: dict[str, list[BarPanel]] = {}
    for key in record.details["loads"]:
        names = {one["instance"].removeprefix("ml."): one["key"] for one in record.details["types"]}
        grid[key.replace("_", " ")] = [
            BarPanel(
                words,
                {name: record.figures.get(f"instances.{key}.{part}.{quantity}") for name, part in names.items()},
                missing="out of memory" if quantity in RATIOS else "",
                whole=100.0 if quantity in SHARES else None,
            )
            for quantity, words in {**RATIOS, **SHARES}.items()
        ]
    return plot_bar_grid(grid, path)
