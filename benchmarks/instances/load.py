"""The jobs of `benchmarks.instances`, each bound by something else. The script that runs them is
`job_scripts/instances_train.py`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchmarks.job_scripts.instances_train import SIDE
from tfhet.units import GIB

IMAGE_BYTES = SIDE * SIDE * 3 * 4
"""Bytes of an image as it goes to the accelerator: float32."""
PASSES = 2
"""Over the images that a job keeps in memory: it makes them once, and then reads them."""


@dataclass(frozen=True)
class InstanceLoad:
    """A job with a fixed number of steps."""

    key: str
    """Its part of a figure's name."""
    words: str
    """Description of the job."""
    input: str
    """How the script makes batches: `parallel`, `cached` or `generator`."""
    batch_size: int
    step_ms: float
    """Milliseconds of a step on the slowest accelerator, the REFERENCE of candidate.py."""
    steps: int = 0
    """0: as many as PASSES over what is kept take."""
    kept_gib: float = 0.0
    """Images that the job keeps in memory, on a host that is not scaled."""

    def images(self, scale: float) -> int:
        """Number of images kept in memory, which is scaled by `scale`: whole batches."""
        return self.batch_size * math.ceil(self.kept_gib * scale * GIB / IMAGE_BYTES / self.batch_size)

    def steps_at(self, scale: float) -> int:
        return self.steps or PASSES * self.images(scale) // self.batch_size

    def arguments(self, step_ms: float, scale: float, steps: int | None = None) -> list[str]:
        """Arguments of the script for an accelerator with this step. steps: instead of the load's own number."""
        words = {
            "input": self.input,
            "batch_size": self.batch_size,
            "images": self.images(scale),
            "steps": steps or self.steps_at(scale),
            "step_ms": f"{step_ms:.4f}",
            "core_share": scale,
        }
        return [word for name, value in words.items() for word in (f"--{name}", str(value))]


LOADS = (
    InstanceLoad("accelerator_bound", "long steps, light input", "parallel", 8, 400.0, steps=30),
    InstanceLoad("memory_bound", "40 GiB of decoded images kept in memory", "cached", 32, 20.0, kept_gib=40.0),
    InstanceLoad("single_core", "images made by a Python generator", "generator", 4, 50.0, steps=40),
)
