"""Containers without Docker: processes with a network, a root and limits of their own. Needs Linux and root.

Names are loaded on first use, since a container's first process should start with as little as possible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from tfhet.container import delay, kernel, sweeper
    from tfhet.container.bridge import SUBNET, Bridge
    from tfhet.container.cgroup import Cgroup
    from tfhet.container.compile import compiled
    from tfhet.container.container import OVERLAY, READ_ONLY, SHARED, Container, Mount
    from tfhet.container.limits import LEAST_CPUS, Limits

__all__ = [
    "LEAST_CPUS",
    "OVERLAY",
    "READ_ONLY",
    "SHARED",
    "SUBNET",
    "Bridge",
    "Cgroup",
    "Container",
    "Limits",
    "Mount",
    "compiled",
    "delay",
    "kernel",
    "sweeper",
]

lazy.names_on_demand(
    __name__,
    {
        "bridge": "SUBNET Bridge",
        "cgroup": "Cgroup",
        "compile": "compiled",
        "container": "OVERLAY READ_ONLY SHARED Container Mount",
        "delay": "delay",
        "kernel": "kernel",
        "limits": "LEAST_CPUS Limits",
        "sweeper": "sweeper",
    },
)
