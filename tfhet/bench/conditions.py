"""Conditions of a measurement: the commit, the load of the machine before it, the CPU time that the hypervisor gave to
other virtual machines during it, and environment variables that change the cost of memory."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tfhet.cluster import environment

VARIABLES = ("GLIBC_TUNABLES", "LD_PRELOAD", "MALLOC_ARENA_MAX", "TFHET_NATIVE", "OMP_NUM_THREADS")
_GIT_S = 20.0


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


def code() -> dict[str, Any]:
    """Returns the `commit` of the checkout and `is_clean`: whether all files are as committed. Empty without one."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return {}
    try:
        return {"commit": _git(root, "rev-parse", "HEAD"), "is_clean": not _git(root, "status", "--porcelain")}
    except (OSError, subprocess.SubprocessError):
        return {}


def _git(root: Path, *words: str) -> str:
    command = ["git", "-C", str(root), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=_GIT_S, check=True).stdout.strip()
