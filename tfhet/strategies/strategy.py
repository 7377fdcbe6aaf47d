"""The door to training strategies: how ranks find each other and train together.

A strategy is one object in the registry:

    strategy = strategies.get("horovod")
    meeting = strategy.meeting(("algo-2", "algo-3"), 2, OWN) # in the leader; None where the ranks need none
    order = meeting.open("algo-2", "eth0", "10.0.0.2", peers)  # in the leader, once all is ready
    strategy.environment(order, "algo-3", rank, env)        # in each launcher, for the script that it starts
    await strategy.serve(place, order, say)                 # on each host of a role that the strategy adds
    strategy.collective(4).total([1.0], "examples")         # in each rank

`Strategy` is one whose ranks need nothing to find each other; another strategy overrides what differs. Nothing here
imports TensorFlow; `collective` does when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tfhet.cluster import Place, Rank, Role
from tfhet.errors import ClusterError
from tfhet.schema import Port, from_json
from tfhet.strategies.rank_source import RankSource

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf


@dataclass(frozen=True)
class Claim:
    """The ports that one launcher keeps free, from before it joins, for what it starts for the strategy: no host knows
    the free ports of another one."""

    host: str
    """Name of the launcher's host."""
    ports: tuple[Port, ...] = ()

    @classmethod
    def of_all(cls, facts: Mapping[str, Mapping[str, Any]]) -> dict[str, Claim]:
        """The claims in the facts with which each member joined. Raises ClusterError."""
        how: dict[str, Any] = {"is_strict": True, "error": ClusterError}
        return {member: from_json(cls, each, f"{member} joined with", **how) for member, each in facts.items()}


class Meeting(Protocol):
    """Rendezvous of the ranks, which the leader keeps open while they find each other."""

    def load(self) -> None:
        """Loads what `open` needs; may take seconds, so the leader calls it in a thread. Raises UsageError where
        something is not installed."""

    def open(self, address: str, interface: str, listen: str, peers: Collection[str]) -> Mapping[str, Any]:
        """Opens the meeting, which every rank reaches at `address`, over the network `interface` of the hosts. It
        listens at the IP address `listen` only, for the IP addresses `peers` of the other launchers and for this
        machine. Returns the order: JSON values that travel in "start" and reach `Strategy.environment` unchanged."""

    def close(self) -> None:
        """Ends it; may take half a second. Safe to call again, and without `open`."""


class Collective(Protocol):
    """Operations that every rank takes part in, in the same order, in tfhet's own trainer and in readers.

    Best with `alltoall(values, counts, name)` too, which gives the first counts[0] of `values`, int64 [n], to rank 0,
    the next counts[1] to rank 1, ...; returns what the ranks gave to this one, in their order."""

    rank: int
    size: int

    def sum(self, tensors: Sequence[tf.Tensor], name: str) -> list[tf.Tensor]:
        """Each tensor summed over the ranks. Works in a graph; `name` must be the same on all ranks."""

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        """Gives the variables of rank 0 to all ranks."""

    def total(self, values: Sequence[float], name: str) -> list[float]:
        """Each number summed over the ranks, outside a graph."""

    def gather(self, values: np.ndarray, name: str) -> np.ndarray:
        """The one-dimensional int64 arrays of all ranks, of any lengths, in the order of the ranks, on every rank."""

    def shutdown(self) -> None:
        """Leaves the collective, after which none of the above may be called."""


class Strategy:
    """A way for the ranks of a job to find each other and train together."""

    name: str
    """Value of `--strategy` that chooses this strategy."""
    roles: Sequence[Role] = ()
    """Roles of hosts that this strategy adds to data and dnn; their launchers run `serve`."""
    sources: Sequence[RankSource] = ()
    """Programs that start ranks for this strategy alone, with variables of their own."""

    plane: str = ""
    """Name of the data plane that every job of this strategy has; "": any."""
    role_of_others: Role | None = None
    """Role of the hosts of the dnn group but the first, where only that one has a rank; None: all of them train."""
    ranks_per_host: int | None = None
    """Number of ranks that a host gets where neither the user nor a source of ranks says it; None: as many as it has
    GPUs."""

    def translated(self, argv: Sequence[str]) -> list[str]:
        """The arguments of tfhet's launcher for those that another launcher of such jobs takes; `argv` as it is where
        it has none of them."""
        return list(argv)

    def meeting(self, hosts: Sequence[str], per_host: int, source: RankSource) -> Meeting | None:
        """The meeting of `per_host` ranks on each of `hosts`, numbered host by host; `source` gave them their ranks.
        None where they need no meeting: there is one rank, or the source lets them find each other. Raises UsageError
        for a number of ranks that the strategy cannot train."""
        return None

    def ports(self, place: Place) -> int:
        """Number of free TCP ports that the launcher at `place` keeps for what it starts: its script, or `serve`. Its
        child binds them with SO_REUSEPORT."""
        return 0

    def order(self, opened: Mapping[str, Any], claims: Mapping[str, Claim], place: Place) -> Mapping[str, Any]:
        """The order, in the leader at `place`. opened: what the meeting's `open` gave; {} without a meeting. claims:
        the ports of all launchers, by member. Raises UsageError and ClusterError."""
        return opened

    def check(self, order: Mapping[str, Any]) -> None:
        """Raises ClusterError for an order that the ranks could not follow."""

    def environment(self, order: Mapping[str, Any], host: str, rank: Rank, env: Mapping[str, str]) -> dict[str, str]:
        """`env` with the variables that the script of one rank on `host`, this one, needs to find the others. Raises
        ClusterError where this host cannot follow the order."""
        return dict(env)

    async def serve(self, place: Place, order: Mapping[str, Any], say: Callable[[str], None]) -> None:
        """Runs on a host of one of `roles` from the start of the ranks until the job has ended. Ends by being
        cancelled, or by raising, which ends the job. say: writes a line to the host's log."""

    def is_over(self, results: Mapping[int, int], size: int) -> bool:
        """Whether the training is over. results: the exit codes of the ranks that have ended, of `size`."""
        return len(results) == size

    def is_consequence(self, line: str) -> bool:
        """Whether the last line that a rank printed reports another rank's end, so that the cause is elsewhere."""
        return False

    def prepare_rank(self) -> None:
        """Undoes, in a rank whose script defines a data set, what its framework has changed in the process and the
        launcher relies on. It runs before the launcher learns that the rank begins to read."""

    def reader(self, size: int) -> tuple[Any, int] | None:
        """The number, 0 or more and perhaps a tensor, of the process that will read the data set which the script of a
        rank is defining, and how many such processes there are. None where each rank reads what it defines. Raises
        UsageError where the script may not define one."""
        return None

    def undivided(self, data: tf.data.Dataset, size: int) -> tf.data.Dataset:
        """The share of one of `size` ranks, so that what trains does not share it out again."""
        return data

    def collective(self, size: int) -> Collective:
        """The collective of `size` ranks, in one of them. Raises UsageError where it cannot be formed."""
        raise NotImplementedError
