"""Conditions of a measurement: the load of the machine before it, the CPU that the hypervisor gave to others
meanwhile, and variables of the process that change what memory costs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import psutil

from tfhet.cluster import environment

VARIABLES = ("GLIBC_TUNABLES", "LD_PRELOAD", "MALLOC_ARENA_MAX", "TFHET_NATIVE", "OMP_NUM_THREADS")


@dataclass(frozen=True)
class Conditions:
    """The machine when a measurement begins."""

    load: float
    """Number of processes that wanted a CPU, in the mean of the last minute."""
    cpu_s: float
    """CPU seconds of the machine since it started, idle ones too."""
    stolen_s: float
    """Those in which it wanted to run and another virtual machine did."""

    @classmethod
    def now(cls) -> Conditions:
        times = psutil.cpu_times()
        return cls(os.getloadavg()[0], float(sum(times)), float(getattr(times, "steal", 0.0)))

    def until(self, end: Conditions) -> dict[str, Any]:
        """Returns what a record says of the time from this moment to `end`: `load_before`, `stolen_pct` of all CPU
        time, and `variables`, by name, that are set."""
        env, whole_s = environment(), end.cpu_s - self.cpu_s
        return {
            "load_before": round(self.load, 2),
            "stolen_pct": round(100.0 * (end.stolen_s - self.stolen_s) / whole_s, 2) if whole_s > 0 else 0.0,
            "variables": {name: env[name] for name in VARIABLES if name in env},
        }
