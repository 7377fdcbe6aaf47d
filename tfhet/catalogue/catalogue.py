"""Instance types and prices of the package and the user's files, which are YAML; `docs/prices.md` shows one.

Later files win by type: the package, files of `tfhet prices refresh`, the user's own file, a file named by a command.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tfhet import errors
from tfhet.catalogue.instance_type import MARKETS, Instance, Positive, Price, full_name
from tfhet.cluster import cache_dir, config_dir, environment, own_folder
from tfhet.schema import Name
from tfhet.yaml_file import YamlFile, read_text

REGION = "us-east-1"
_HERE = Path(__file__).parent
AWS_POST = _HERE / "aws-post.yaml"
"""Prices of 2022 in AWS's post on heterogeneous clusters, for `Catalogue.with_file`."""


@dataclass(frozen=True)
class _Prices(Price):
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


@dataclass(frozen=True)
class Catalogue:
    instances: Mapping[str, Instance] = field(default_factory=dict)
    _prices: Mapping[str, tuple[Price, ...]] = field(default_factory=dict)
    """Prices by full name of the type; the first match counts."""

    def over(self, file: CatalogueFile) -> Catalogue:
        """Returns the catalogue with a file's types and prices in front. Prices of unknown types are kept."""
        prices = dict(self._prices)
        newest_last = sorted(file.prices, key=lambda each: (each[1].date, -MARKETS.index(each[1].market)))
        for full, price in newest_last:
            prices[full] = (price, *prices.get(full, ()))
        return Catalogue({**self.instances, **file.instances}, prices)

    def with_file(self, path: Path) -> Catalogue:
        """Returns the catalogue with a user's file in front. Raises UsageError, with the line, for a file with
        mistakes, or a price of an unknown type."""
        file = CatalogueFile.read(path)
        made = self.over(file)
        for full, line in file.lines.items():
            if full not in made.instances:
                near = ", ".join(made._near(full)[:5])
                raise errors.UsageError(f"{path}:{line}: a price of {full}, which is no known type; known: {near}, ...")
        return made

    def instance(self, name: str) -> Instance:
        """Returns the type called `name`, with or without `ml.`. Raises UsageError that lists similar names."""
        return self.find(name) or errors.unknown("instance type", name, self._near(full_name(name)))

    def find(self, name: str) -> Instance | None:
        """Returns the type called `name`, with or without `ml.`; None if it is unknown."""
        return self.instances.get(full_name(name))

    def price(self, name: str, region: str = REGION, market: str | None = None) -> Price | None:
        """Returns the price of a type in a region: the last file's, then the newest, then SageMaker's, or only of
        `market`; None if unknown. Raises UsageError for an unknown type or market."""
        if market is not None and market not in MARKETS:
            errors.unknown("market", market, MARKETS)
        prices = self._prices.get(self.instance(name).name, ())
        fitting = (price for price in prices if price.region == region and market in (None, price.market))
        return next(fitting, None)

    def prices(self, region: str = REGION, market: str | None = None) -> dict[str, Price]:
        return {name: price for name in self.instances if (price := self.price(name, region, market))}

    def common_market(self, names: Iterable[str], region: str = REGION) -> str | None:
        """Returns a market in which all these types have a price, preferably SageMaker; None without one."""
        wanted = list(names)
        return next((each for each in MARKETS if all(self.price(name, region, each) for name in wanted)), None)

    def regions(self) -> list[str]:
        return sorted({price.region for prices in self._prices.values() for price in prices})

    def _near(self, full: str) -> list[str]:
        family = [known for known in self.instances if known.split(".")[:2] == full.split(".")[:2]]
        return family or difflib.get_close_matches(full, self.instances, n=5) or list(self.instances)


@functools.cache
def shipped() -> Catalogue:
    files = [CatalogueFile.read(_HERE / name) for name in ("instances.yaml", "prices.yaml")]
    return functools.reduce(Catalogue.over, files, Catalogue())


def default(file: Path | None = None) -> Catalogue:
    """Returns the package's types and prices, with the user's files and then `file` in front. Raises UsageError for a
    file with mistakes, or a user's cache in which others may write."""
    refreshed, own = list[Path](), list[Path]()
    with contextlib.suppress(OSError, RuntimeError):  # no readable home
        refreshed = sorted(refreshed_path(REGION).parent.glob("*.yaml"))
        own = [path for path in (own_path(),) if path.is_file()]
    if refreshed:
        own_folder(refreshed[0].parent)
    under = functools.reduce(Catalogue.over, map(CatalogueFile.read, refreshed), shipped())
    return functools.reduce(Catalogue.with_file, [*own, *([file] if file else [])], under)


def refreshed_path(region: str) -> Path:
    return cache_dir(environment()) / "prices" / f"{region}.yaml"


def own_path() -> Path:
    """Returns the path of the user's catalogue file, which may not exist."""
    return config_dir(environment()) / "catalogue.yaml"
