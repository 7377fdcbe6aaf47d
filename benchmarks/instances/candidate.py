"""The instance types of `benchmarks.instances`: each with one accelerator, whose speed is assumed, and a price."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.instances.accelerator import ACCELERATORS, accelerator
from tfhet.catalogue import REGION, Catalogue, Instance, Price
from tfhet.errors import UsageError

REFERENCE = ACCELERATORS["T4"]
"""Whose step a load states."""
TYPES = ("ml.g4dn.2xlarge", "ml.g4dn.4xlarge", "ml.g5.xlarge", "ml.g5.4xlarge", "ml.p3.2xlarge")


@dataclass(frozen=True)
class Candidate:
    """One type that a job may run on."""

    instance: Instance
    price: Price
    speed: float
    """How many times as fast as the REFERENCE its accelerator is taken to be."""
    speed_source: str
    """And why."""

    @property
    def name(self) -> str:
        return self.instance.name

    @property
    def key(self) -> str:
        """Its part of a figure's name: `g5_xlarge`."""
        return self.name.removeprefix("ml.").replace(".", "_")

    def step_ms(self, reference_ms: float) -> float:
        """Milliseconds of a step that takes `reference_ms` on the REFERENCE."""
        return reference_ms / self.speed

    def row(self) -> dict[str, Any]:
        """Its row in the printed table."""
        return {
            "instance": self.name,
            "vCPUs": self.instance.vcpus,
            "GiB": self.instance.memory_gib,
            "accelerator": self.instance.gpu_kind,
            f"x {REFERENCE.kind}": self.speed,
            "its speed": self.speed_source,
            "$/h": self.price.usd_per_hour,
            "price of": f"{self.price.date}, {self.price.market}, {self.price.region}",
        }


def candidates(
    names: Sequence[str], catalogue: Catalogue, *, region: str = REGION, speeds: Mapping[str, float] | None = None
) -> list[Candidate]:
    """The types of these names, each once, with prices of one market.

    speeds: by kind of accelerator, how many times as fast as the REFERENCE, where somebody knows better. Raises
    UsageError for an unknown type, one that has no accelerator or several, an accelerator of which nothing is known,
    and where no market has a price for all.
    """
    instances = list(dict.fromkeys(catalogue.instance(name) for name in names))
    if not instances:
        raise UsageError("--types: name at least one")
    for each in instances:
        if each.gpus != 1:
            raise UsageError(f"--types {each.name}: it has {each.gpus} accelerators; only types with one are compared")
    market = catalogue.common_market([each.name for each in instances], region)
    if market is None:
        raise UsageError(
            f"--types: no market has a price for all of {', '.join(each.name for each in instances)} in {region}; "
            "`tfhet prices refresh` asks AWS, `tfhet prices` shows what is known"
        )
    made = []
    for each in instances:
        price, kind = catalogue.price(each.name, region, market), str(each.gpu_kind)
        assert price is not None
        if speeds and kind in speeds:
            made.append(Candidate(each, price, speeds[kind], "as given"))
        else:
            known = accelerator(kind)
            source = f"assumed: {known.memory_gb_per_s:g} GB/s of memory, {known.source}"
            made.append(Candidate(each, price, known.times(REFERENCE), source))
    return made


def parse_speeds(text: str) -> dict[str, float]:
    """`A10G=2.4,V100=3`. Raises UsageError."""
    speeds = {}
    for word in filter(None, (word.strip() for word in text.split(","))):
        kind, _, value = word.partition("=")
        try:
            speeds[kind] = float(value)
        except ValueError:
            speeds[kind] = 0.0
        if not 0 < speeds[kind] < 1e6:
            raise UsageError(f"--speeds {word!r}: give KIND=X, X times as fast as a {REFERENCE.kind}, such as A10G=2.4")
    return speeds
