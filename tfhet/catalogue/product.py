"""One product of AWS's Price List: a JSON document with an instance type and its price."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfhet.errors import DataError, shown

_USAGE = re.compile(r"(?:[A-Z0-9]+-)?Train:(ml\.[a-z0-9.-]+)")
"""`USE1-Train:ml.c5.xlarge`; spot (`TrSpt`) and others have other names."""
_HOURS = ("hrs", "hours")


@dataclass(frozen=True)
class Product:
    """Price of an hour of an instance in a training job, on demand."""

    instance_type: str
    usd_per_hour: float
    """USD per hour; 0 where it is free."""
    published: datetime.date

    @classmethod
    def parse(cls, text: str) -> Product | None:
        """Returns the product; None where it is not of training. Raises DataError that names the SKU and the fault."""
        try:
            whole = json.loads(text)
        except (TypeError, ValueError) as error:
            raise DataError(f"AWS's Price List: a product that is not JSON: {str(error)[:200]}") from None
        reader = _Reader(whole)
        usage = _USAGE.fullmatch(reader.text(whole, "product", "attributes", "usagetype"))
        if usage is None:
            return None
        day = reader.text(whole, "publicationDate")
        try:
            return cls(usage[1], reader.usd_per_hour(), datetime.date.fromisoformat(day[:10]))
        except ValueError:
            raise reader.malformed(f"publicationDate is {shown(day)}") from None


class _Reader:
    """Reads parts of a document; its errors name the document."""

    def __init__(self, whole: Any):
        self._whole = whole

    def usd_per_hour(self) -> float:
        """Returns the price on demand; the highest where there are several."""
        prices = []
        for term in self.mapping(self._whole, "terms", "OnDemand").values():
            for dimension in self.mapping(term, "priceDimensions").values():
                unit = self.text(dimension, "unit")
                if unit.lower() not in _HOURS:
                    raise self.malformed(f"unit is {shown(unit)}, not Hrs")
                usd = self.text(dimension, "pricePerUnit", "USD")
                try:
                    prices.append(float(usd))
                except ValueError:
                    raise self.malformed(f"pricePerUnit.USD is {shown(usd)}") from None
        if not prices or not all(0.0 <= price < 1e6 for price in prices):
            raise self.malformed(f"its prices are {prices or 'missing'}")
        return max(prices)

    def mapping(self, part: Any, *names: str) -> Mapping[str, Any]:
        found = self._at(part, names)
        if not isinstance(found, Mapping):
            raise self.malformed(f"{'.'.join(names)} is {shown(found)}")
        return found

    def text(self, part: Any, *names: str) -> str:
        found = self._at(part, names)
        if not isinstance(found, str):
            raise self.malformed(f"{'.'.join(names)} is {shown(found)}")
        return found

    def malformed(self, what: str) -> DataError:
        product = self._whole.get("product") if isinstance(self._whole, Mapping) else None
        sku = product.get("sku") if isinstance(product, Mapping) else None
        return DataError(f"AWS's Price List cannot be understood: SKU {sku or 'without a name'}: {what}")

    def _at(self, part: Any, names: tuple[str, ...]) -> Any:
        for name in names:
            if not isinstance(part, Mapping) or name not in part:
                raise self.malformed(f"it has no {'.'.join(names)}")
            part = part[name]
        return part
