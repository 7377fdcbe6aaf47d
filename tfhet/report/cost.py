"""What a step of each run costs, and what the one gains over the other: the price-performance table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tfhet.catalogue import Price
from tfhet.errors import UsageError
from tfhet.record import RunSummary, Spread
from tfhet.report import numbers

MS_PER_HOUR = 3.6e6


PriceOf = Callable[[str], Price | None]
"""The price of an instance type; None where none is known."""


@dataclass(frozen=True)
class Bill:
    """What the instances of a run cost."""

    instances: tuple[str, ...]
    """`1 x ml.p4d.24xlarge`, `2 x ml.c5.18xlarge`."""
    usd_per_hour: float | None
    """Of all of them; None where a price is not known."""
    why: str
    """Why it is not known, or where the prices are from."""


@dataclass(frozen=True)
class CostRow:
    """One run of the table."""

    name: str
    bill: Bill
    step_ms: Spread | None
    wait_pct: float | None
    usd_per_step: float | None
    usd_per_million: float | None
    """Examples; None where their number in a step is not known."""
    speedup: float | None
    """Against the first run: examples per time; above 1 is faster."""
    saving_pct: float | None
    """Against the first run, in money per example; negative where it costs more."""


def bill(summary: RunSummary, price_of: PriceOf | None) -> Bill:
    """The instances of a run and their price; None as `price_of` stands for prices that are not looked up."""
    names: list[str] = []
    why: list[str] = []
    sources: dict[str, None] = {}
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
        sources[f"{found.market}, {found.region}: {found.source}, {found.date}"] = None
    if not names:
        return Bill((), None, "the record names no instances")
    return Bill(tuple(names), None if why else usd, "; ".join(dict.fromkeys(why)) or "; ".join(sources))


def cost_rows(runs: Mapping[str, RunSummary], price_of: PriceOf | None) -> list[CostRow]:
    """A row for each run, compared with the first.

    Runs are compared per example where the number of examples in a step is known of both, else per step.
    """
    rows: list[CostRow] = []
    first: tuple[float | None, float | None, int | None] = (None, None, None)
    for name, run in runs.items():
        paid, count = bill(run, price_of), _examples(run)
        step = _positive(run.step_ms.median if run.step_ms else None)
        each = _positive(paid.usd_per_hour * step / MS_PER_HOUR) if paid.usd_per_hour and step else None
        if not rows:
            first = step, each, count
            before = paid_before = None
        else:
            before, paid_before = first[:2]
        per = count / first[2] if count and first[2] else 1.0
        dearer = _positive(each / per / paid_before) if each and paid_before else None
        rows.append(
            CostRow(
                name=name,
                bill=paid,
                step_ms=run.step_ms,
                wait_pct=run.wait_pct,
                usd_per_step=each,
                usd_per_million=_positive(each / count * 1e6) if each and count else None,
                speedup=_positive(before / step * per) if before and step else None,
                saving_pct=100.0 * (1.0 - dearer) if dearer is not None else None,
            )
        )
    return rows


def headline(rows: list[CostRow]) -> str:
    """The table in one sentence: the best of the others against the first."""
    if len(rows) < 2:
        return ""
    timed = [row for row in rows[1:] if row.speedup is not None]
    if not timed:
        return "The runs cannot be compared: no steps were measured of one of them."
    priced = [row for row in timed if row.saving_pct is not None]
    best = (
        max(priced, key=lambda row: row.saving_pct or 0.0) if priced else max(timed, key=lambda row: row.speedup or 0)
    )
    speedup = best.speedup or 0.0
    pace = f"{numbers.number(speedup)} times as fast as"
    if speedup < 1:
        pace = f"{numbers.number(1 / speedup)} times slower than"
    if best.saving_pct is None:
        return f"{best.name} is {pace} {rows[0].name}; what it costs is not known."
    saved = f"{abs(best.saving_pct):.0f} % {'less' if best.saving_pct >= 0 else 'more'}"
    return f"{best.name} is {pace} {rows[0].name}, and an example costs {saved}."


def _examples(run: RunSummary) -> int | None:
    """Examples in one step, over all ranks."""
    return run.batch_size * (run.ranks or 1) if run.batch_size and run.batch_size > 0 and (run.ranks or 1) > 0 else None


def _positive(value: float | None) -> float | None:
    return value if value is not None and 1e-300 < value < 1e300 else None
