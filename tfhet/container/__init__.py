"""Containers without Docker: processes with a network, a root and limits of their own. Needs Linux and root.

Names are loaded on first use, since a container's first process should start with as little as possible.
"""

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from tfhet.container.bridge import SUBNET, Bridge, Partitions
    from tfhet.container.cgroup import LEAST_CPUS, Cgroup, Limits
    from tfhet.container.container import OVERLAY, READ_ONLY, SHARED, Container, Mount
    from tfhet.container.kernel import PURPOSES, KernelFeature, missing, probe, require
    from tfhet.container.sweeper import Owner, claim, sweep

lazy.names_on_demand(__name__)
