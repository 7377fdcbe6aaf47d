"""How many GPUs a host has, without loading what could use them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

DRIVER = Path("/proc/driver/nvidia/gpus")
"""One folder for each GPU; in a container, for each that it was given."""


def gpu_count(env: Mapping[str, str], driver: Path = DRIVER) -> int:
    """GPUs that a process of this host may use: as `CUDA_VISIBLE_DEVICES` says, else `SM_NUM_GPUS`, else the driver."""
    visible = env.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        names = [name.strip() for name in visible.split(",")]
        # CUDA takes the names up to the first that is none, like -1 (CUDA programming guide, environment variables).
        bad = next((i for i, name in enumerate(names) if not name or name.startswith("-")), len(names))
        return bad
    told = env.get("SM_NUM_GPUS", "")
    if told.isascii() and told.isdigit() and len(told) < 5:
        return int(told)
    try:
        return sum(1 for _ in driver.iterdir())
    except OSError:
        return 0
