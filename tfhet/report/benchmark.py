"""A benchmark record as a page shows it: a chart for the figures of each unit, one table of all."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfhet.record import Figure, Record
from tfhet.report.bars import BarChart, bar_chart

MANY = 20
"""A chart of more bars is folded away, and drawn when it is opened."""


@dataclass(frozen=True)
class Benchmark:
    """What a page shows of one record."""

    record: Record
    prefix: str
    """What all names of figures begin with; the charts leave it out."""
    charts: Sequence[BarChart]
    """One for each unit of which there are at least two figures."""

    @classmethod
    def of(cls, record: Record) -> Benchmark:
        """The charts of a record."""
        prefix = _prefix(list(record.figures))
        by_unit: dict[str, dict[str, Figure]] = {}
        for name, figure in record.figures.items():
            by_unit.setdefault(figure.unit, {})[name.removeprefix(prefix)] = figure
        charts = [bar_chart(_title(unit, some), some) for unit, some in by_unit.items() if len(some) > 1]
        return cls(record, prefix, [chart for chart in charts if chart])


def _prefix(names: Sequence[str]) -> str:
    """The dotted words that all names share, if each has more than these."""
    if len(names) < 2:
        return ""
    shared = os.path.commonprefix(list(names))
    return shared[: shared.rfind(".") + 1]


def _title(unit: str, figures: Mapping[str, Figure]) -> str:
    against = {figure.against for figure in figures.values()}
    only = against.pop() if len(against) == 1 else None
    return f"In {unit or 'no unit'}" + (f", against {only}" if only else "")
