"""A catalogue file: instance types and prices in YAML, both optional; `docs/prices.md` shows one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tfhet.catalogue.instance_type import Instance, Positive, Price, full_name
from tfhet.schema import Name
from tfhet.yaml_file import YamlFile, read_text


@dataclass(frozen=True)
class _Prices(Price):
    """Prices of several types."""

    usd_per_hour: Mapping[Name, Positive]  # type: ignore[assignment]


@dataclass(frozen=True)
class _Content:
    instances: Mapping[Name, Instance] = field(default_factory=dict)
    prices: tuple[_Prices, ...] = ()


@dataclass(frozen=True)
class CatalogueFile:
    instances: Mapping[str, Instance] = field(default_factory=dict)
    prices: tuple[tuple[str, Price], ...] = ()
    """Prices, each with the full name of its type."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """Number of the line where a type first has a price, by its full name."""

    @classmethod
    def read(cls, path: Path) -> CatalogueFile:
        """Returns a file's content. Raises UsageError for a file that cannot be read, or that `parse` refuses."""
        return cls.parse(read_text(path, "catalogue file"), str(path))

    @classmethod
    def parse(cls, text: str, name: str) -> CatalogueFile:
        """Returns the content of a text. Raises UsageError that names file, line, field and what is allowed."""
        file = YamlFile(text, name)
        content = file.read(_Content)
        instances: dict[str, Instance] = {}
        for given, instance in content.instances.items():
            if (full := full_name(given)) in instances:
                raise file.mistake(f"instances: {given}", "must be given once, with `ml.` or without it")
            instances[full] = replace(instance, name=full)
        prices: dict[tuple[object, ...], tuple[str, Price]] = {}
        lines: dict[str, int] = {}
        for at, some in enumerate(content.prices):
            for given, usd in some.usd_per_hour.items():
                full, where = full_name(given), f"prices[{at}]: usd_per_hour: {given}"
                key = (full, some.region, some.market, some.date)
                if key in prices:
                    raise file.mistake(where, f"must be given once: it has a price in {some.region} on this day")
                prices[key] = full, Price(usd, some.region, some.market, some.source, some.date)
                lines.setdefault(full, file.line(where))
        return cls(instances, tuple(prices.values()), lines)
