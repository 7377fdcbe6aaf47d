"""Instance types, groups of instances of one type, and published prices."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from tfhet.schema import Region, matching, number, one_of, whole
from tfhet.yaml_file import Key

TRAINING, EC2 = "sagemaker training", "ec2"
MARKETS = (TRAINING, EC2)
"""Markets: an instance in a training job, or the same machine without SageMaker. The first is preferred."""
Positive = Annotated[float, number(1e-6, 1e6, "a number above 0, up to a million")]
Words = Annotated[str, matching(r"(?=.*\S)[^\x00-\x1f\x7f-\x9f\u2028\u2029]+", "text on one line", 200)]
Market = Annotated[str, one_of(MARKETS)]
Day = Annotated[datetime.date, Meta(description="a day, like 2026-07-20")]


@dataclass(frozen=True)
class Instance:
    """One instance type, in the units in which it is published."""

    name: Key
    """Name with `ml.`: `ml.c5.xlarge`."""
    vcpus: Annotated[int, whole(1, 1_000_000)]
    memory_gib: Positive
    gpus: Annotated[int, whole(0, 1_000_000)] = 0
    gpu_kind: Words | None = None
    """Model of its GPUs (`V100`); None without GPUs."""
    gpu_memory_gib: Positive | None = None
    network_gbit_per_s: Positive | None = None
    """Sustained bandwidth in each direction; None if no number is published."""
    network_burst_gbit_per_s: Positive | None = None
    """Bandwidth for some minutes; None if it is not higher."""
    instance_store_gb: Positive | None = None
    """GB (10^9 bytes) of its own disks; None if its disk is an EBS volume."""

    def __post_init__(self) -> None:
        if not (self.gpus > 0) == (self.gpu_kind is not None) == (self.gpu_memory_gib is not None):
            raise ValueError("given gpus, gpu_kind and gpu_memory_gib together, or none of them")
        burst = self.network_burst_gbit_per_s
        if burst is not None and burst <= (self.network_gbit_per_s or burst):
            raise ValueError("given network_burst_gbit_per_s together with network_gbit_per_s, and above it")


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
    region: Region
    market: Market
    source: Words
    date: Day


def full_name(name: str) -> str:
    """Returns a type's name with `ml.`, whether it has that or not."""
    return name if name.startswith("ml.") else f"ml.{name}"
