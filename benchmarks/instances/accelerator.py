"""How fast accelerators are against each other, as far as their maker says; nobody has measured it here.

A step of a convolutional network moves more bytes through the accelerator's memory than its arithmetic could use up, so
that its time is taken to go with the memory's bandwidth. A real step depends on the model, its precision and the
library too: measure it where it matters.
"""

from __future__ import annotations

from dataclasses import dataclass

from tfhet import errors


@dataclass(frozen=True)
class Accelerator:
    """One kind of GPU."""

    kind: str
    """As `Instance.gpu_kind` calls it."""
    memory_gb_per_s: float
    """Bandwidth of its memory."""
    source: str
    """Who says so."""

    def times(self, other: Accelerator) -> float:
        """How many times as fast as another one it is taken to be."""
        return self.memory_gb_per_s / other.memory_gb_per_s


ACCELERATORS = {
    each.kind: each
    for each in (
        Accelerator("T4", 320.0, "NVIDIA T4 data sheet"),
        Accelerator("L4", 300.0, "NVIDIA L4 data sheet"),
        Accelerator("A10G", 600.0, "NVIDIA A10G data sheet"),
        Accelerator("V100", 900.0, "NVIDIA V100 SXM2 data sheet"),
    )
}
"""Those of instances with one GPU, by kind."""


def accelerator(kind: str) -> Accelerator:
    """The accelerator of this kind. Raises UsageError that lists the known ones."""
    if kind not in ACCELERATORS:
        errors.unknown("kind of accelerator", kind, ACCELERATORS)
    return ACCELERATORS[kind]
