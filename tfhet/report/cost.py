"""Costs: of a step of each run, compared with the first run, and of each part of a pipeline."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tfhet import catalogue
from tfhet.catalogue import Price
from tfhet.errors import DataError, UsageError, unknown
from tfhet.record import Figure, Record, RunSummary
from tfhet.report import numbers
from tfhet.report.chart import BarChart, bar_chart

MS_PER_HOUR = 3.6e6
PriceOf = Callable[[str], Price | None]
"""The price of an instance type; None if it is unknown."""
_WHOLE = "profile.whole.us"


def prices_in(region: str, runs: Iterable[RunSummary]) -> PriceOf:
    """Returns the prices of the market that has most of the runs' types; prices of two markets cannot be compared.
    Raises UsageError for an unknown region."""
    known = catalogue.default()
    if region not in known.regions():
        unknown("region", region, known.regions())
    types = {str(group.get("instance_type")) for run in runs for group in run.cluster.values()}
    full = {f"ml.{name.removeprefix('ml.')}" for name in types}
    market = max(catalogue.MARKETS, key=lambda market: len(full & known.prices(region, market).keys()))
    return lambda name: known.price(name, region, market)


@dataclass(frozen=True)
class Bill:
    """The price of a run's instances."""

    instances: tuple[str, ...]
    """`1 x ml.p4d.24xlarge`, `2 x ml.c5.18xlarge`."""
    usd_per_hour: float | None
    why: str
    """Why the price is unknown, or its source."""


@dataclass(frozen=True)
class CostRow:
    name: str
    run: RunSummary
    bill: Bill
    usd_per_step: float | None
    usd_per_million: float | None
    """USD per million examples; None if the number of examples of a step is unknown."""
    speedup: float | None
    """Examples per second divided by the first run's."""
    saving_pct: float | None
    """Cost per example saved compared with the first run, in percent; negative if it costs more."""


def bill(summary: RunSummary, price_of: PriceOf | None) -> Bill:
    """Returns the instances of a run and their price. price_of: None if prices are not looked up."""
    names: list[str] = []
    why: list[str] = []
    sources: list[str] = []
    usd = 0.0
    for name, group in summary.cluster.items():
        kind, hosts = group.get("instance_type"), group.get("hosts")
        count = len(hosts) if isinstance(hosts, (list, tuple)) else 0
        names.append(f"{count} x {kind or f'host of {name}'}")
        if not isinstance(kind, str) or not kind:
            why.append(f"the record names no instance type of {name}")
            continue
        try:
            found = price_of(kind) if price_of else None
        except UsageError:
            why.append(f"{kind} is no type of the catalogue")
            continue
        if found is None or not 0 <= found.usd_per_hour < math.inf:
            why.append(f"no price of {kind} is known" if price_of else "no prices were given")
            continue
        usd += count * found.usd_per_hour
        sources.append(f"{found.market}, {found.region}: {found.source}, {found.date}")
    if not names:
        return Bill((), None, "the record names no instances")
    return Bill(tuple(names), None if why else usd, "; ".join(dict.fromkeys(why or sources)))


def cost_rows(runs: Mapping[str, RunSummary], price_of: PriceOf | None) -> list[CostRow]:
    """Returns a row per run, compared with the first per example, or per step if a step's examples are unknown."""
    rows: list[CostRow] = []
    first: tuple[float | None, float | None, int] | None = None
    for name, run in runs.items():
        paid, count = bill(run, price_of), max(0, (run.batch_size or 0) * (run.ranks or 1))  # examples of a step
        step_ms = _positive(run.step_ms.median if run.step_ms else None)
        usd = _positive(paid.usd_per_hour * step_ms / MS_PER_HOUR) if paid.usd_per_hour and step_ms else None
        base_ms, base_usd, base_count = first or (None, None, 0)
        first = first or (step_ms, usd, count)
        larger = count / base_count if count and base_count else 1.0
        relative = _positive(usd / larger / base_usd) if usd and base_usd else None
        per_million = _positive(usd / count * 1e6) if usd and count else None
        speedup = _positive(base_ms / step_ms * larger) if base_ms and step_ms else None
        saving = 100.0 * (1.0 - relative) if relative else None
        rows.append(CostRow(name, run, paid, usd, per_million, speedup, saving))
    return rows


def headline(rows: Sequence[CostRow]) -> str:
    """Returns the best of the other runs compared with the first, in one sentence."""
    if len(rows) < 2:
        return ""
    timed = [row for row in rows[1:] if row.speedup]
    if not timed:
        return "The runs cannot be compared: no steps were measured of one of them."
    priced = [row for row in timed if row.saving_pct is not None]
    best = max(priced or timed, key=lambda row: (row.saving_pct if priced else row.speedup) or 0.0)
    speedup = best.speedup or 0.0
    pace = f"{numbers.number(speedup)} times as fast as"
    if speedup < 1:
        pace = f"{numbers.number(1 / speedup)} times slower than"
    if best.saving_pct is None:
        return f"{best.name} is {pace} {rows[0].name}; what it costs is not known."
    saved = f"{abs(best.saving_pct):.0f} % {'less' if best.saving_pct >= 0 else 'more'}"
    return f"{best.name} is {pace} {rows[0].name}, and an example costs {saved}."


def _positive(value: float | None) -> float | None:
    return value if value is not None and 1e-300 < value < 1e300 else None


@dataclass(frozen=True)
class PartCost:
    name: str
    added: Figure
    """CPU time per example that it adds to the parts before it."""
    alone: Figure | None
    """CPU time per example of the part alone; None if it was not measured."""
    bytes_per_example: int | None
    """Size of an example after this part."""
    place: str
    """Place of the part in a run, as in `stages_where`; may be empty."""


@dataclass(frozen=True)
class StageCosts:
    """All parts in order, the source first."""

    parts: Sequence[PartCost]
    whole: Figure | None
    """The whole pipeline, measured together."""

    def chart(self) -> BarChart | None:
        return bar_chart("CPU time per example that each part adds", {part.name: part.added for part in self.parts})


def stage_costs(record: Record, stages_where: Mapping[str, str]) -> StageCosts:
    """Reads the costs of a pipeline's parts from the record of `tfhet profile`, and their places in a run. Raises
    DataError if the record is no profile."""
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
