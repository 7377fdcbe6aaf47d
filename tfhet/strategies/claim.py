"""The ports that each launcher keeps free, from before it joins, for what it starts for the strategy.

No host knows the free ports of another. So each launcher takes some of its own and tells the leader, which puts all of
them into the order (`Strategy.order`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfhet.errors import ClusterError, shown


@dataclass(frozen=True)
class Claim:
    """The ports of one launcher."""

    host: str
    """Name of the launcher's host."""
    ports: tuple[int, ...]

    @classmethod
    def of_all(cls, facts: Mapping[str, Mapping[str, Any]]) -> dict[str, Claim]:
        """The claims of all members, by the facts of each. Raises ClusterError."""
        return {member: cls.parse(member, of) for member, of in facts.items()}

    @classmethod
    def parse(cls, member: str, facts: Mapping[str, Any]) -> Claim:
        """The claim in the facts with which a member joined. Raises ClusterError."""
        host, ports = facts.get("host"), facts.get("ports", [])
        if not isinstance(host, str) or not isinstance(ports, list):
            raise ClusterError(f"{member} joined with {shown(facts)}, which names no host and its ports")
        if not all(type(port) is int and 0 < port < 65536 for port in ports):
            raise ClusterError(f"{member} joined with the ports {shown(ports)}")
        return cls(host, tuple(ports))
