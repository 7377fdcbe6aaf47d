"""A catalogue file: instance types and prices in YAML, both optional; `docs/prices.md` shows one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tfhet.catalogue.instance_type import POSITIVE, Instance, Price, full_name
from tfhet.errors import UsageError
from tfhet.yaml_file import NAME, Node, read_text, readers


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
        top = Node.parse(text, name)
        if top is None:
            return cls()
        parts = top.mapping(("instances", "prices"))
        types = _types(parts["instances"]) if "instances" in parts else {}
        instances = {full: _instance(full, node) for full, node in types.items()}
        prices: list[tuple[str, Price]] = []
        lines: dict[str, int] = {}
        seen = set()
        for each in parts["prices"].items() if "prices" in parts else ():
            for full, price, line in _prices(each):
                key = (full, price.region, price.market, price.date)
                if key in seen:
                    raise UsageError(f"{name}:{line}: {full} has a price in {price.region} on this day already")
                seen.add(key)
                prices.append((full, price))
                lines.setdefault(full, line)
        return cls(instances, tuple(prices), lines)


def _types(node: Node) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for name, part in node.named(NAME).items():
        if full_name(name) in found:
            raise part.refused("given once, with `ml.` or without it")
        found[full_name(name)] = part
    return found


def _instance(full: str, node: Node) -> Instance:
    instance = node.made(Instance, name=full)
    if not (instance.gpus > 0) == (instance.gpu_kind is not None) == (instance.gpu_memory_gib is not None):
        raise node.refused("given gpus, gpu_kind and gpu_memory_gib together, or none of them")
    if (burst := instance.network_burst_gbit_per_s) is not None and burst <= (instance.network_gbit_per_s or burst):
        raise node.mapping()["network_burst_gbit_per_s"].refused("more than network_gbit_per_s, which it needs")
    return instance


def _prices(node: Node) -> list[tuple[str, Price, int]]:
    known = {**readers(Price), "usd_per_hour": _types}
    given = node.values(known, needed=tuple(known))
    types = given.pop("usd_per_hour")
    return [(full, Price(POSITIVE(part), **given), part.line) for full, part in types.items()]
