"""Instance types, groups of instances of one type, and published prices."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Annotated

from tfhet.yaml_file import REGION_NAME, Kind, number, one_of, whole

TRAINING, EC2 = "sagemaker training", "ec2"
MARKETS = (TRAINING, EC2)
"""Markets: an instance in a training job, or the same machine without SageMaker. The first is preferred."""
POSITIVE = number(1e-6, 1e6, "a number above 0, up to a million")
WORDS = Kind(
    str, "1 to 200 characters on one line", lambda text: text.strip() and len(text) <= 200 and text.isprintable()
)


@dataclass(frozen=True)
class Instance:
    """One instance type, in the units in which it is published; a file writes its values as they are annotated."""

    name: str
    """Name with `ml.`: `ml.c5.xlarge`."""
    vcpus: Annotated[int, whole(1, 1_000_000)]
    memory_gib: Annotated[float, POSITIVE]
    gpus: Annotated[int, whole(0, 1_000_000)] = 0
    gpu_kind: Annotated[str | None, WORDS] = None
    """Model of its GPUs (`V100`); None without GPUs."""
    gpu_memory_gib: Annotated[float | None, POSITIVE] = None
    """Memory of each GPU."""
    network_gbit_per_s: Annotated[float | None, POSITIVE] = None
    """Sustained bandwidth in each direction; None where no number is published."""
    network_burst_gbit_per_s: Annotated[float | None, POSITIVE] = None
    """Bandwidth for some minutes; None where it is not higher."""


@dataclass(frozen=True)
class InstanceGroup:
    """Instances of one type under one name, as a training job asks for them."""

    name: str
    instance_type: str
    """Name with `ml.`: `ml.c5.xlarge`."""
    count: int
    """Number of instances; 0 of a group without hosts."""


@dataclass(frozen=True)
class Price:
    """Price of an hour of one instance on demand, without storage, transfer and discounts."""

    usd_per_hour: float
    """More than 0."""
    region: Annotated[str, REGION_NAME]
    market: Annotated[str, one_of(MARKETS)]
    source: Annotated[str, WORDS]
    date: Annotated[datetime.date, Kind(datetime.date.fromisoformat, "a day, like 2026-07-20")]


def full_name(name: str) -> str:
    """Returns a type's name with `ml.`, whether it has that or not."""
    return name if name.startswith("ml.") else f"ml.{name}"
