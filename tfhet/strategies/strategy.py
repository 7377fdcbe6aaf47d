"""The door to training strategies: how ranks find each other and train together.

A strategy is one object in the registry, and one folder of this room:

    strategy = strategies.get("horovod")
    meeting = strategy.meeting(("algo-2", "algo-3"), 2, OWN) # in the leader; None where the ranks need none
    order = meeting.open("algo-2", "eth0")                  # in the leader, once all is ready
    strategy.environment(order, "algo-3", rank, env)        # in each launcher, for the script that it starts
    await strategy.serve(place, order)                      # on each host of a role that the strategy adds
    strategy.collective(4).total([1.0], "examples")         # in each rank

Nothing here imports TensorFlow; `collective` does when it is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tfhet.cluster import Place, Rank, Role
from tfhet.strategies.collective import Collective
from tfhet.strategies.rank_source import RankSource


class Meeting(Protocol):
    """What the leader keeps while the ranks find each other, like a rendezvous server."""

    def load(self) -> None:
        """Loads what `open` needs; may take seconds, so the leader calls it in a thread. Raises UsageError where
        something is not installed."""

    def open(self, address: str, interface: str) -> Mapping[str, Any]:
        """Opens the meeting, which every rank reaches at `address`, over the network `interface` of the hosts.

        Returns the order: JSON values that travel in the message "start" and reach `Strategy.environment` unchanged.
        """

    def close(self) -> None:
        """Ends it; may take half a second. Safe to call again, and without `open`."""


class Strategy(Protocol):
    """How the ranks of a job train together."""

    name: str
    """What `--strategy` says."""
    roles: Sequence[Role]
    """Roles of hosts that this strategy adds to data and dnn; their launchers run `serve`."""
    sources: Sequence[RankSource]
    """What starts ranks for this strategy alone, with variables of its own."""

    def meeting(self, hosts: Sequence[str], per_host: int, source: RankSource) -> Meeting | None:
        """The meeting of `per_host` ranks on each of `hosts`, numbered host by host; `source` gave them their ranks.
        None where they need no meeting: there is one rank, or the source lets them find each other.

        Raises UsageError for a number of ranks that the strategy cannot train.
        """

    def check(self, order: Mapping[str, Any]) -> None:
        """Raises ClusterError for an order that the ranks could not follow."""

    def environment(self, order: Mapping[str, Any], host: str, rank: Rank, env: Mapping[str, str]) -> dict[str, str]:
        """`env` with the variables that the script of one rank on `host`, this one, needs to find the others.

        Raises ClusterError where this host cannot follow the order.
        """

    async def serve(self, place: Place, order: Mapping[str, Any]) -> None:
        """What a host of one of `roles` does from the start of the ranks until the job has ended. Ends by being
        cancelled, or by raising, which ends the job."""

    def is_consequence(self, line: str) -> bool:
        """Whether a line that a rank printed last tells of another rank's end, so that the cause is elsewhere."""

    def collective(self, size: int) -> Collective:
        """In a rank: what `size` ranks do together. Raises UsageError where it cannot be formed."""
