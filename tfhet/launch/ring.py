"""The Horovod ring without MPI: Horovod's own rendezvous server, and the variables that tell each rank its place.

The same variables as horovodrun sets for Gloo: horovod/runner/gloo_run.py, `create_slot_env_vars` and
`create_run_env_vars`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tfhet.errors import UsageError


class Ring:
    """Ranks on hosts, numbered host by host. Serves their rendezvous from `start` to `stop`."""

    def __init__(self, hosts: Sequence[str], ranks_per_host: int):
        if ranks_per_host < 1 or not hosts:
            raise UsageError(f"a ring needs hosts and at least one rank on each, not {ranks_per_host} on {len(hosts)}")
        self.size = len(hosts) * ranks_per_host
        self._hosts = tuple(hosts)
        self._per_host = ranks_per_host
        self._server: Any = None
        self._environments: dict[tuple[str, int], dict[str, str]] = {}

    def start(self, address: str, interface: str) -> None:
        """Starts the rendezvous server, which ranks reach at `address`; Gloo uses the network `interface`.

        Raises UsageError where Horovod is not installed.
        """
        try:
            from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
            from horovod.runner.gloo_run import create_run_env_vars, create_slot_env_vars
            from horovod.runner.http.http_server import RendezvousServer
        except ImportError as error:
            raise UsageError(f"{self.size} ranks need Horovod: pip install tfhet[horovod] ({error})") from None
        plan = get_host_assignments(parse_hosts(",".join(f"{h}:{self._per_host}" for h in self._hosts)), self.size)
        self._server = RendezvousServer(0)
        port = self._server.start()
        self._server._httpd.daemon_threads = True  # or whoever connects and says nothing keeps this process from ending
        self._server.init(plan)
        shared = create_run_env_vars(address, [interface], port)
        for slot in plan:
            variables = {**shared, **create_slot_env_vars(slot)}
            self._environments[slot.hostname, slot.local_rank] = {name: str(v) for name, v in variables.items()}

    def environment(self, host: str, local_rank: int) -> Mapping[str, str]:
        """The variables of one rank."""
        return self._environments[host, local_rank]

    def stop(self) -> None:
        """Ends the server. Safe to call again."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()
            server._httpd.server_close()  # which Horovod leaves to the garbage collector
