"""How much of its resources one host of a training job used."""

from __future__ import annotations

from dataclasses import dataclass, fields

from tfhet.record import Spread


@dataclass(frozen=True)
class HostUtilisation:
    """The utilisation of one host in percent of what it has, 0 to 100; None where it was not measured."""

    host: str
    group: str = ""
    """Name of its group; "" where that is not known."""
    instance_type: str = ""
    cpu_pct: Spread | None = None
    """Utilisation of all CPUs; None also where their number is not known."""
    gpu_pct: Spread | None = None
    """Share of the time in which anything ran on a GPU, over all GPUs."""
    memory_pct: Spread | None = None
    gpu_memory_pct: Spread | None = None
    disk_pct: Spread | None = None
    """How full the disk is."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing of this host was measured."""
        return all(getattr(self, field.name) is None for field in fields(self) if field.name.endswith("_pct"))
