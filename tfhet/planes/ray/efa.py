"""Elastic Fabric Adapters of this host, and the variables by which NCCL and Gloo use them.

AWS's launcher goes by lists of instance types; a host knows what it has.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

DEVICES = Path("/sys/class/infiniband")


def devices(folder: Path = DEVICES) -> tuple[str, ...]:
    """Names of the adapters that a process on this host can use; () where there are none."""
    found = []
    with contextlib.suppress(OSError):
        for device in sorted(folder.iterdir()):
            with contextlib.suppress(OSError):
                if (device / "device" / "driver").resolve().name == "efa":
                    found.append(device.name)
    return tuple(found)


def efa_variables(interface: str, env: Mapping[str, str], folder: Path = DEVICES) -> dict[str, str]:
    """The variables, in addition to `env`, whose own values win, of processes that train across hosts. interface: the
    network interface between the hosts, over which they find each other."""
    wanted = {"NCCL_SOCKET_IFNAME": interface, "GLOO_SOCKET_IFNAME": interface}
    if devices(folder):
        wanted |= {"FI_PROVIDER": "efa", "FI_EFA_FORK_SAFE": "1", "RDMAV_FORK_SAFE": "1"}
    return {name: value for name, value in wanted.items() if not env.get(name)}
