"""What machines are: instance types with their CPUs, memory, GPUs and network."""

from __future__ import annotations

from tfhet.catalogue.instance import Instance, instance, names

__all__ = ["Instance", "instance", "names"]
