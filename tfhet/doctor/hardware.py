"""The section `machine`: processors, memory, GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tfhet.doctor.check import Check, Status
from tfhet.units import GIB

SECTION = "machine"
LITTLE_MEMORY_BYTES = 4 * GIB
"""A process with TensorFlow takes about half a GiB, and even the smallest cluster has some."""


def checks(machine: Mapping[str, Any], usable_gpus: int) -> Iterator[Check]:
    """`machine`: as `tfhet.record.machine`. `usable_gpus`: that TensorFlow sees."""
    cores, usable = machine["cores"], machine["cores_usable"]
    found = f"{cores}, {machine['cpu']}" if usable == cores else f"{usable} of {cores}, {machine['cpu']}"
    status = Status.OK if usable == cores else Status.LIMITED
    yield Check(SECTION, "CPUs", status, found, "input pipelines", "let this process run on all (taskset, cpuset)")

    memory = f"{machine['memory_bytes'] / GIB:.1f} GiB"
    status = Status.OK if machine["memory_bytes"] >= LITTLE_MEMORY_BYTES else Status.LIMITED
    yield Check(SECTION, "memory", status, memory, "simulated clusters", "simulate few hosts, with few workers each")

    gpus = machine["gpus"]
    needed_for = "training; a simulated cluster can emulate an accelerator"
    if not gpus and not usable_gpus:
        yield Check(SECTION, "GPUs", Status.OK, "none", needed_for)
    elif usable_gpus < len(gpus):
        found = f"{len(gpus)}, of which TensorFlow sees {usable_gpus}: {', '.join(sorted(set(gpus)))}"
        what = "look at CUDA_VISIBLE_DEVICES; install what TensorFlow needs: pip install tensorflow[and-cuda]"
        yield Check(SECTION, "GPUs", Status.LIMITED, found, needed_for, what)
    else:
        yield Check(SECTION, "GPUs", Status.OK, f"{usable_gpus}, {', '.join(sorted(set(gpus)))}", needed_for)
