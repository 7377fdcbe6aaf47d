"""Private API of Ray that the plane uses, all of it, as seen in Ray 2.60.

The public way to ask a cluster, `ray.init`, makes the process a driver, with a job of its own in the cluster.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any


@functools.cache
def _client(head: str) -> Any:
    from ray._raylet import GcsClient

    return GcsClient(address=head)


def is_alive(head: str, ip: str, port: int) -> bool:
    """Whether the cluster at `head` counts the node of the raylet at `ip`:`port` among the living."""
    from ray.core.generated.gcs_pb2 import GcsNodeInfo

    try:
        found = _client(head).get_all_node_info(timeout=5.0).values()
    except Exception:  # noqa: BLE001  the head may not answer yet, in whichever way
        return False
    return any(
        (node.node_manager_address, node.node_manager_port) == (ip, port) and node.state == GcsNodeInfo.ALIVE
        for node in found
    )


def run(words: Sequence[str]) -> None:
    """Runs Ray's own command, `ray WORDS`, without the server for drivers on other machines (Ray Client), which it has
    no option to omit."""
    from ray.scripts import scripts

    scripts.get_ray_client_dependency_error = lambda: "not wanted"
    scripts.cli.main(args=list(words), prog_name="ray")
