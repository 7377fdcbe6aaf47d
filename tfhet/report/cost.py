"""The price-performance table: what a step of each run costs, and what one run gains over another."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tfhet import catalogue
from tfhet.catalogue import Price
from tfhet.errors import UsageError, unknown
from tfhet.record import RunSummary
from tfhet.report import numbers

MS_PER_HOUR = 3.6e6
PriceOf = Callable[[str], Price | None]
"""The price of an instance type; None where none is known."""


def prices_in(region: str, runs: Iterable[RunSummary]) -> PriceOf:
    """The prices of the market that knows most of the runs' types: those of two markets are not to be compared. Raises
    UsageError for an unknown region."""
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
    """Price of all of them; None where one is not known."""
    why: str
    """Why it is not known, or where the prices are from."""


@dataclass(frozen=True)
class CostRow:
    """One run of the table."""

    name: str
    run: RunSummary
    bill: Bill
    usd_per_step: float | None
    usd_per_million: float | None
    """USD per million examples; None where the number of examples in a step is not known."""
    speedup: float | None
    """Examples per time over those of the first run; above 1 is faster."""
    saving_pct: float | None
    """Money per example that is saved against the first run; negative where it costs more."""


def bill(summary: RunSummary, price_of: PriceOf | None) -> Bill:
    """The instances of a run and their price. price_of: None for prices that are not looked up."""
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
    """A row for each run, compared with the first. Runs are compared per example where the number of examples in a step
    is known of both, else per step."""
    rows: list[CostRow] = []
    first: tuple[float | None, float | None, int | None] | None = None
    for name, run in runs.items():
        paid, count = bill(run, price_of), max(0, (run.batch_size or 0) * (run.ranks or 1))  # examples in one step
        step_ms = _positive(run.step_ms.median if run.step_ms else None)
        usd = _positive(paid.usd_per_hour * step_ms / MS_PER_HOUR) if paid.usd_per_hour and step_ms else None
        first = first or (step_ms, usd, count)
        base_ms, base_usd, base_count = first if rows else (None, None, None)
        larger = count / base_count if count and base_count else 1.0
        dearer = _positive(usd / larger / base_usd) if usd and base_usd else None
        rows.append(
            CostRow(
                name=name,
                run=run,
                bill=paid,
                usd_per_step=usd,
                usd_per_million=_positive(usd / count * 1e6) if usd and count else None,
                speedup=_positive(base_ms / step_ms * larger) if base_ms and step_ms else None,
                saving_pct=100.0 * (1.0 - dearer) if dearer else None,
            )
        )
    return rows


def headline(rows: list[CostRow]) -> str:
    """The table in one sentence: the best of the others against the first."""
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
