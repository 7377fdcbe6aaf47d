"""What one instance type is, and a group of instances of one type."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Instance:
    """One instance type, in the units in which it is published."""

    name: str
    """With `ml.`: `ml.c5.xlarge`."""
    vcpus: int
    memory_gib: float
    gpus: int = 0
    gpu_kind: str | None = None
    """`V100`; None without GPUs."""
    gpu_memory_gib: float | None = None
    """Of each GPU."""
    network_gbit_per_s: float | None = None
    """What it has all the time, in each direction; None where no number is published."""
    network_burst_gbit_per_s: float | None = None
    """What it may have for some minutes; None where that is no more."""


@dataclass(frozen=True)
class InstanceGroup:
    """Instances of one type under one name, as a training job asks for them."""

    name: str
    instance_type: str
    """Name with `ml.`: `ml.c5.xlarge`."""
    count: int
    """Number of instances; 0 of a group without hosts."""


def full_name(name: str) -> str:
    """A type's name with `ml.`, which may be left out."""
    return name if name.startswith("ml.") else f"ml.{name}"
