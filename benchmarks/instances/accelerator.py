"""Assumed speed of accelerators over each other, from their makers' data sheets; it is not measured here.

A step of a convolutional network is limited by the bytes that it moves through the accelerator's memory, so its time is
assumed to follow the memory's bandwidth. A real step also depends on the model, its precision and the library: measure
it where it matters.
"""

from __future__ import annotations

from dataclasses import dataclass

from tfhet import errors


@dataclass(frozen=True)
class Accelerator:
    """One kind of GPU."""

    kind: str
    """Name as in `Instance.gpu_kind`."""
    memory_gb_per_s: float
    """Bandwidth of its memory."""
    source: str
    """Publisher of the bandwidth."""

    def times(self, other: Accelerator) -> float:
        """Returns the assumed speed over that of another accelerator."""
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
"""Accelerators of instances with one GPU, by kind."""


def accelerator(kind: str) -> Accelerator:
    """Returns the accelerator of this kind. Raises UsageError that lists the known ones."""
    if kind not in ACCELERATORS:
        errors.unknown("kind of accelerator", kind, ACCELERATORS)
    return ACCELERATORS[kind]
