"""The CPU time of a pipeline, part by part, from the record of a profile (`tfhet profile --json FILE`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfhet.errors import DataError
from tfhet.record import Figure, Record
from tfhet.report.chart import BarChart, bar_chart

_WHOLE = "profile.whole.us"


@dataclass(frozen=True)
class PartCost:
    """One part of the pipeline."""

    name: str
    added: Figure
    """CPU time per example that it adds to the parts before it."""
    alone: Figure | None
    """CPU time per example of the part by itself; None where it was not measured so."""
    bytes_per_example: int | None
    """Size of an example after this part: what travels when the pipeline is cut there."""
    place: str
    """Where a run had it: a place of `stages_where`; "" where no run says."""


@dataclass(frozen=True)
class StageCosts:
    """All parts in order, the source first."""

    parts: Sequence[PartCost]
    whole: Figure | None
    """The whole pipeline, measured together."""

    def chart(self) -> BarChart | None:
        return bar_chart("CPU time per example that each part adds", {part.name: part.added for part in self.parts})


def stage_costs(record: Record, stages_where: Mapping[str, str]) -> StageCosts:
    """The parts that the record of a profile holds. stages_where: where a run had each stage. Raises DataError for any
    other record."""
    added = [name for name in record.figures if re.fullmatch(r"profile\..+\.us", name) and name != _WHOLE]
    details = record.details.get("parts")
    if not added or not isinstance(details, (list, tuple)) or len(details) != len(added):
        raise DataError(f"{record.name or 'this record'} is no profile: `tfhet profile TARGET --json FILE` writes one")
    parts = []
    for figure, detail in zip(added, details, strict=True):
        name = str(detail.get("name") or figure)
        words = set(re.findall(r"(\w+)\(", name))
        places = {place for stage, place in stages_where.items() if stage.partition("(")[0] in words}
        alone = record.figures.get(figure.removesuffix("us") + "alone_us")
        place = places.pop() if len(places) == 1 else ""
        parts.append(PartCost(name, record.figures[figure], alone, detail.get("bytes_per_example") or None, place))
    return StageCosts(parts, record.figures.get(_WHOLE))
