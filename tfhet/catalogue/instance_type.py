"""Instance types, groups of instances of one type, and published prices."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

TRAINING, EC2 = "sagemaker training", "ec2"
MARKETS = (TRAINING, EC2)
"""Markets: an instance in a training job, or the same machine without SageMaker. The first is preferred."""


@dataclass(frozen=True)
class Instance:
    """One instance type, in the units in which it is published."""

    name: str
    """Name with `ml.`: `ml.c5.xlarge`."""
    vcpus: int
    memory_gib: float
    gpus: int = 0
    gpu_kind: str | None = None
    """Model of its GPUs (`V100`); None without GPUs."""
    gpu_memory_gib: float | None = None
    """Memory of each GPU."""
    network_gbit_per_s: float | None = None
    """Sustained bandwidth in each direction; None where no number is published."""
    network_burst_gbit_per_s: float | None = None
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
    region: str
    market: str
    """One of MARKETS."""
    source: str
    date: datetime.date


def full_name(name: str) -> str:
    """Returns a type's name with `ml.`, whether it has that or not."""
    return name if name.startswith("ml.") else f"ml.{name}"
