"""The arguments of `ray start` for one host, all of its ports among them, and the variables of its processes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfhet.planes.malloc import with_malloc_tunables
from tfhet.planes.ray.capacity import Capacity

NODE = "tfhet.planes.ray.node"
"""The module that every node runs."""
ADVICE = re.compile(r"\b(INFO|SUCC) (scripts|usage_lib|cli_output_helpers)\.py:\d+ -- ")
"""Lines that `ray start` prints for someone who typed it."""
DASHBOARD_HOST = "127.0.0.1"
LOOPBACK = "127.0.0.2"
"""The address in place of 127.0.0.1, for which Ray takes another address of the machine, which others may reach."""
SCRIPT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_FAILURE_SIGNAL_HANDLER": "1"}
"""Variables of a script. Ray's handler of signals would answer SIGTERM with a stack of C++ and SIGABRT."""
FIXED = (
    "node-manager-port",
    "object-manager-port",
    "runtime-env-agent-port",
    "dashboard-agent-listen-port",
    "dashboard-agent-grpc-port",
    "metrics-export-port",
)
"""Ray's names of the ports that each host has, in the order in which they take its ports."""
AGENT = FIXED.index("dashboard-agent-grpc-port")
"""Index of the port of the agent that gathers metrics."""
DASHBOARD = len(FIXED)
"""Index of the dashboard's port."""
WORKERS = DASHBOARD + 1
"""Index of the first port for workers and drivers, which take all that are left."""
WORKER_PORTS = 32
"""Number of the ports for drivers, and for workers beside those of the CPUs."""
WORKERS_OF_A_CPU = 4
"""Number of ports for workers for each CPU; some are idle, or actors of a fraction of a CPU."""


@dataclass(frozen=True)
class NodeStart:
    """The node of one host."""

    ip: str
    head_at: str
    """IP:PORT of the head."""
    ports: Sequence[int]
    """At least WORKERS + 1 ports."""
    capacity: Capacity
    labels: Mapping[str, str]
    is_head: bool = False
    has_dashboard: bool = False

    def words(self) -> list[str]:
        """The arguments of Ray's command. The token is none of them."""
        labels = ",".join(f"{name}={value}" for name, value in self.labels.items())
        capacity = self.capacity
        shared = [
            f"--node-ip-address={self.ip}",
            *(f"--{name}={port}" for name, port in zip(FIXED, self.ports, strict=False)),
            f"--worker-port-list={','.join(map(str, self.ports[WORKERS:]))}",
            f"--num-cpus={capacity.cpus}",
            f"--num-gpus={capacity.gpus}",
            f"--memory={capacity.memory}",
            f"--object-store-memory={capacity.object_store}",
            f"--labels={labels}",
            "--disable-usage-stats",
            "--log-style=record",
            "--block",
        ]
        if not self.is_head:
            return ["start", f"--address={self.head_at}", *shared]
        port = self.head_at.rpartition(":")[2]
        dashboard = ["--include-dashboard=false"]
        if self.has_dashboard:
            dashboard = ["--include-dashboard=true", f"--dashboard-host={DASHBOARD_HOST}"]
        dashboard += [f"--dashboard-port={self.ports[DASHBOARD]}"]
        return ["start", "--head", f"--port={port}", "--no-monitor", *dashboard, *shared]


def variables(env: Mapping[str, str], token: Mapping[str, str]) -> dict[str, str]:
    """`env` for the processes of a node."""
    return {
        **with_malloc_tunables(env),
        **token,
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_enable_metrics_collection": "false",  # by an agent of ray[default], of whose lack Ray would warn
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",  # its launcher ends it within a second
        "PYTHONUNBUFFERED": "1",
    }
