"""Instance types with their prices, as rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tfhet.catalogue.catalogue import Catalogue
from tfhet.catalogue.market_price import Price

COLUMNS = ("type", "vCPU", "GiB", "GPUs", "Gbit/s", "USD/h", "USD per vCPU-h", "market", "date", "source")


def listing(
    catalogue: Catalogue,
    names: Sequence[str],
    region: str,
    market: str | None = None,
) -> list[dict[str, Any]]:
    """Returns a row for each type by COLUMNS, with None for what is not known. No names: all types with a price.

    Raises UsageError for unknown names.
    """
    wanted = [catalogue.instance(name).name for name in names] or list(catalogue.prices(region, market))
    rows = []
    for name in wanted:
        instance, price = catalogue.instance(name), catalogue.price(name, region, market)
        gpus = f"{instance.gpus} {instance.gpu_kind}" if instance.gpus else None
        about = (name, instance.vcpus, instance.memory_gib, gpus, instance.network_gbit_per_s)
        rows.append(dict(zip(COLUMNS, (*about, *_cells(price, instance.vcpus)), strict=True)))
    return rows


def _cells(price: Price | None, vcpus: int) -> tuple[Any, ...]:
    if price is None:
        return (None,) * 5
    usd = price.usd_per_hour
    return usd, usd / vcpus, price.market, price.date.isoformat(), price.source


def shown(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns the rows with money as text of four decimals."""
    money = [column for column in COLUMNS if column.startswith("USD")]
    return [{**row, **{name: f"{row[name]:.4f}" for name in money if row[name] is not None}} for row in rows]


def notes(catalogue: Catalogue, rows: Sequence[Mapping[str, Any]], region: str) -> list[str]:
    """Returns remarks on such rows: which prices are missing, and which cannot be compared."""
    found = [row for row in rows if row["USD/h"] is not None]
    said = []
    if len(found) < len(rows) or not rows:
        where = ", ".join(catalogue.regions())
        said.append(
            f"no price known: ask AWS with `tfhet prices refresh --region {region}`; known here: some of {where}"
        )
    if len({row["market"] for row in found}) > 1:
        said.append("prices of two markets cannot be compared: --market ec2, or `tfhet prices refresh`")
    return said
