"""The machine that measured: processor, memory, kernel."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import psutil


def _processor(proc: Path) -> str:
    try:
        lines = (proc / "cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model", "Hardware") and value.strip():
            return value.strip()
    return platform.processor() or platform.machine()


def _gpus(proc: Path) -> list[str]:
    names = []
    for information in sorted(proc.glob("driver/nvidia/gpus/*/information")):
        try:
            lines = information.read_text(errors="replace").splitlines()
        except OSError:
            continue
        names += [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
    return names


def usable_cores() -> int:
    """Number of logical processors that this process may run on, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def machine(proc: Path = Path("/proc")) -> dict[str, Any]:
    """The machine as JSON values: cpu, cores, cores_usable, memory_bytes, gpus, kernel, system, python.

    `cores` is the number of logical processors of the machine, `cores_usable` of those that this process may run on.
    """
    return {
        "cpu": _processor(proc),
        "cores": os.cpu_count() or 1,
        "cores_usable": usable_cores(),
        "memory_bytes": int(psutil.virtual_memory().total),
        "gpus": _gpus(proc),
        "kernel": platform.release(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }
