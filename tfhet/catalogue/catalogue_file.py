"""A catalogue file: instance types and prices in YAML, both optional.

instances:
  ml.c5.xlarge: {vcpus: 4, memory_gib: 8, network_gbit_per_s: 1.25}
prices:
  - region: us-east-1
    market: ec2
    source: our contract
    date: 2026-07-20
    usd_per_hour: {ml.c5.xlarge: 0.17}
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tfhet.catalogue.instance_type import Instance, full_name
from tfhet.catalogue.market_price import MARKETS, Price
from tfhet.catalogue.node import Kind, Node, count, number, words
from tfhet.errors import UsageError

REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-[0-9]+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def _one_of(text: str, known: tuple[str, ...] | re.Pattern[str]) -> str:
    if text not in known if isinstance(known, tuple) else not known.fullmatch(text):
        raise ValueError
    return text


_POSITIVE = Kind(number, "a number above 0, up to a million")
_COUNT = Kind(count, "a whole number, from 0 to a million")
_WORDS = Kind(words, "1 to 200 characters on one line")
_TYPE = {
    "vcpus": _COUNT,
    "memory_gib": _POSITIVE,
    "gpus": _COUNT,
    "gpu_kind": _WORDS,
    "gpu_memory_gib": _POSITIVE,
    "network_gbit_per_s": _POSITIVE,
    "network_burst_gbit_per_s": _POSITIVE,
}
_LIST = {
    "region": Kind(lambda text: _one_of(text, REGION), "the name of a region, like us-east-1"),
    "market": Kind(lambda text: _one_of(text, MARKETS), f"one of {', '.join(MARKETS)}"),
    "source": _WORDS,
    "date": Kind(datetime.date.fromisoformat, "a day, like 2026-07-20"),
}


@dataclass(frozen=True)
class CatalogueFile:
    """Types and prices of one file."""

    name: str = ""
    """Path of the file."""
    instances: Mapping[str, Instance] = field(default_factory=dict)
    """Types by full name."""
    prices: tuple[tuple[str, Price], ...] = ()
    """Prices, each with the full name of its type."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """Number of the line where a type first has a price, by its full name."""

    @classmethod
    def read(cls, path: Path) -> CatalogueFile:
        """Returns a file's content. Raises UsageError for a file that cannot be read, or that `parse` refuses."""
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise UsageError(f"{path}: this catalogue file cannot be read: {error}") from None
        return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, name: str) -> CatalogueFile:
        """Returns the content of a text. Raises UsageError that names file, line, field and what is allowed."""
        top = Node.parse(text, name)
        if top is None:
            return cls(name)
        parts = top.mapping(("instances", "prices"))
        types = _types(parts["instances"]) if "instances" in parts else {}
        instances = {full: _instance(full, node) for full, node in types.items()}
        prices: list[tuple[str, Price]] = []
        lines: dict[str, int] = {}
        for each in parts["prices"].items() if "prices" in parts else ():
            for full, price, line in _prices(each):
                if any(full == other and _key(price) == _key(given) for other, given in prices):
                    raise UsageError(f"{name}:{line}: {full} has a price in {price.region} on this day already")
                prices.append((full, price))
                lines.setdefault(full, line)
        return cls(name, instances, tuple(prices), lines)


def _types(node: Node) -> dict[str, Node]:
    """Returns the value of each type by its full name."""
    found: dict[str, Node] = {}
    for name, part in node.mapping().items():
        if not _NAME.fullmatch(name) or full_name(name) in found:
            raise part.refused("given once, with a name of letters, digits, '.', '_' and '-'")
        found[full_name(name)] = part
    return found


def _instance(full: str, node: Node) -> Instance:
    instance = Instance(full, **node.values(_TYPE, needed=("vcpus", "memory_gib")))
    if instance.vcpus < 1:
        raise node.mapping()["vcpus"].refused("at least 1")
    if not (instance.gpus > 0) == (instance.gpu_kind is not None) == (instance.gpu_memory_gib is not None):
        raise node.refused("given gpus, gpu_kind and gpu_memory_gib together, or none of them")
    burst = instance.network_burst_gbit_per_s
    if burst is not None and burst <= (instance.network_gbit_per_s or burst):
        raise node.mapping()["network_burst_gbit_per_s"].refused("more than network_gbit_per_s, which it needs")
    return instance


def _prices(node: Node) -> list[tuple[str, Price, int]]:
    """Returns the prices of one list, each with its type and line."""
    parts = node.mapping((*_LIST, "usd_per_hour"), needed=(*_LIST, "usd_per_hour"))
    about = {name: parts[name].value(kind) for name, kind in _LIST.items()}
    types = _types(parts["usd_per_hour"])
    return [(full, Price(part.value(_POSITIVE), **about), part.line) for full, part in types.items()]


def _key(price: Price) -> tuple[str, str, datetime.date]:
    return price.region, price.market, price.date
