"""The number of GPUs of a host, found without loading a library that would use them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

DRIVER = Path("/proc/driver/nvidia/gpus")
"""Folder of the driver with one entry per GPU; in a container, per GPU that the container may use."""


def gpu_count(env: Mapping[str, str], driver: Path = DRIVER) -> int:
    """Number of GPUs that a process with these variables may use.

    The first source that is present decides: `CUDA_VISIBLE_DEVICES`, `SM_NUM_GPUS`, the driver.
    """
    visible = env.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        names = [name.strip() for name in visible.split(",")]
        # CUDA ignores everything from the first invalid name on, such as -1 (CUDA programming guide).
        return next((i for i, name in enumerate(names) if not name or name.startswith("-")), len(names))
    count = env.get("SM_NUM_GPUS", "")
    if count.isascii() and count.isdigit() and len(count) < 5:
        return int(count)
    try:
        return sum(1 for _ in driver.iterdir())
    except OSError:
        return 0
