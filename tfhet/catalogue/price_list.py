"""AWS's prices of training on SageMaker: its Price List, asked through boto3 and kept as a catalogue file."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tfhet.aws import Patient, client
from tfhet.catalogue.catalogue import CatalogueFile, refreshed_path
from tfhet.catalogue.instance_type import TRAINING
from tfhet.clock import SYSTEM, Clock
from tfhet.cluster import code_dir, environment
from tfhet.errors import DataError, NotReady, UsageError
from tfhet.record import write_text
from tfhet.schema import Region, checked

ENDPOINT_REGION = "us-east-1"
"""Region of the endpoint, whose list has the prices of all regions; few regions have an endpoint."""
PATIENCE_S, WHOLE_S = 10.0, 180.0
"""Seconds for which a request is retried, and seconds for all requests."""
_USAGE = re.compile(r"(?:[A-Z0-9]+-)?Train:(ml\.[a-z0-9.-]+)")
"""`USE1-Train:ml.c5.xlarge`; spot (`TrSpt`) and others have other names."""


@dataclass(frozen=True)
class PriceList:
    region: str
    date: datetime.date
    usd_per_hour: Mapping[str, float]

    def to_yaml(self) -> str:
        listed = {"region": self.region, "market": TRAINING, "source": "AWS Price List", "date": self.date}
        prices = {**listed, "usd_per_hour": dict(self.usd_per_hour)}
        about = f"# Written by `tfhet prices refresh --region {self.region}`, which replaces it.\n"
        return about + yaml.safe_dump({"prices": [prices]}, sort_keys=False)


def refresh(region: str, path: Path | None = None, pricing: Any = None) -> tuple[Path, PriceList]:
    """Writes AWS's prices of a region to `path`, by default where the default catalogue reads them. Raises as `ask`."""
    found = ask(region, pricing)
    text = found.to_yaml()
    CatalogueFile.parse(text, "the answer of AWS")
    return write_text(path or code_dir(environment(), "prices") / refreshed_path(region).name, text), found


def ask(region: str, pricing: Any = None, clock: Clock = SYSTEM) -> PriceList:
    """Returns the training prices of a region. Raises UsageError (no boto3, no credentials or rights, no such region),
    NotReady (no network, or too slow), and DataError that names the SKU for an answer that cannot be understood."""
    checked(region, Region, "region")
    pricing = pricing or client("pricing", ENDPOINT_REGION)
    found, days = dict[str, float](), list[datetime.date]()
    for text in _documents(pricing, region, clock):
        name, usd, day = _product(text)
        if name and usd > 0:  # of two prices of a type the higher one counts, so that no plan is too cheap
            found[name] = max(usd, found.get(name, 0.0))
            days.append(day)
    if not found:
        raise UsageError(f"AWS has no prices of training in {region}: no such region, or no training there")
    return PriceList(region, max(days), dict(sorted(found.items())))


def _documents(pricing: Any, region: str, clock: Clock) -> Iterator[str]:
    wanted = {"regionCode": region, "component": "Training"}
    filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in wanted.items()]
    request: dict[str, Any] = {"ServiceCode": "AmazonSageMaker", "Filters": filters, "FormatVersion": "aws_v1"}
    aws, until_s = Patient(clock, PATIENCE_S), clock.monotonic() + WHOLE_S
    while True:
        try:
            page = aws(pricing.get_products, **request)
        except NotReady as error:
            what = f"ask where there is a network, with --file FILE, and bring FILE here as {refreshed_path(region)}"
            raise NotReady(f"{error}; or {what}") from None
        yield from page.get("PriceList", ())
        if not page.get("NextToken"):
            return
        request["NextToken"] = page["NextToken"]
        if clock.monotonic() > until_s:
            raise NotReady(f"AWS's Price List took more than {WHOLE_S:g} s: try again")


def _product(text: str) -> tuple[str, float, datetime.date]:
    """Returns type, USD per hour on demand (the highest of several prices) and day of a product, given as JSON. The
    type is "" where the product is not training on demand. Raises DataError that names the SKU and the field."""
    sku = "without a name"
    try:
        whole = json.loads(text)
        sku = whole["product"].get("sku", sku)
        usage = _USAGE.fullmatch(whole["product"]["attributes"]["usagetype"])
        if usage is None:
            return "", 0.0, datetime.date.min
        terms = whole["terms"]["OnDemand"].values()
        dimensions = [each for term in terms for each in term["priceDimensions"].values()]
        usd = [float(each["pricePerUnit"]["USD"]) for each in dimensions]
        units = {each["unit"].lower() for each in dimensions}
        if not units <= {"hrs", "hours"}:
            raise ValueError(f"unit is {', '.join(units)}, not Hrs")
        if not usd or not all(0.0 <= price < 1e6 for price in usd):
            raise ValueError(f"its prices are {usd or 'missing'}")
        return usage[1], max(usd), datetime.date.fromisoformat(whole["publicationDate"][:10])
    except KeyError as error:
        raise DataError(f"AWS's Price List cannot be understood: SKU {sku}: it has no {error}") from None
    except (AttributeError, TypeError, ValueError) as error:
        raise DataError(f"AWS's Price List cannot be understood: SKU {sku}: {str(error)[:200]}") from None
