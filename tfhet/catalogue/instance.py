"""Instance types by name, from the table instances.yaml."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

import yaml

from tfhet import errors


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


def instance(name: str) -> Instance:
    """The type called `name`, with or without `ml.`. Raises UsageError that lists the names most like it."""
    full = name if name.startswith("ml.") else f"ml.{name}"
    found = _table().get(full)
    if found is None:
        errors.unknown("instance type", name, _near(full))
    return found


def names() -> tuple[str, ...]:
    """All types that are known."""
    return tuple(_table())


def _near(name: str) -> list[str]:
    family = [known for known in names() if known.split(".")[:2] == name.split(".")[:2]]
    return family or difflib.get_close_matches(name, names(), n=5, cutoff=0.6) or list(names())


@functools.cache
def _table() -> Mapping[str, Instance]:
    text = (resources.files("tfhet.catalogue") / "instances.yaml").read_text(encoding="utf-8")
    return {name: Instance(name, **fields) for name, fields in yaml.safe_load(text).items()}
