"""The flat table of a benchmark record."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table

from tfhet.record import Figure
from tfhet.report import numbers
from tfhet.report.tables import table


def figure_table(figures: Mapping[str, Figure], *, title: str | None = None) -> Table:
    """One line per figure: name, value with unit, 95 % interval, number of samples, what it is against."""
    compared = any(figure.against for figure in figures.values())
    rows = [
        [name, numbers.number(figure.value), figure.unit, numbers.interval(figure), figure.n]
        + ([figure.against or ""] if compared else [])
        for name, figure in figures.items()
    ]
    columns = ["figure", "value", "unit", "95 % interval", "n"] + (["against"] if compared else [])
    made = table(rows, columns=columns, title=title)
    made.columns[1].justify = "right"
    return made
