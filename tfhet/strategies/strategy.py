"""The interface of training strategies: how ranks find each other and train together.

    meeting = strategy.meeting(("algo-2", "algo-3"), 2, OWN) # in the leader; None if the ranks need none
    order = meeting.open("algo-2", "eth0", "10.0.0.2", peers)  # in the leader, once all is ready
    strategy.environment(order, "algo-3", rank, env)        # in each launcher, for the script that it starts
    strategy.collective(4).total([1.0], "examples")         # in each rank

The ranks of the base class need nothing to find each other. Only `collective` imports TensorFlow.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol

from msgspec import Meta

from tfhet.cluster import RANK_VARIABLES, Place, Rank, Role
from tfhet.errors import ClusterError
from tfhet.schema import Order, Port, from_json

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf


@dataclass(frozen=True)
class RankSource:
    """A program that starts processes as ranks, and the variables that it sets for them."""

    name: str
    """Value of `Rank.source`, like `mpi`."""
    starter: str
    """Program that starts the ranks, like `mpirun`."""
    words: str
    """Description of a rank of this source in the log."""
    variables: tuple[str, str, str, str]
    """The variables of rank, size, local rank and local size."""
    own: bool = False
    """Whether tfhet itself numbers the ranks, and has to let them find each other."""
    strategy: str = ""
    """Name of the default strategy of such ranks; "": it depends on their number."""

    def read(self, env: Mapping[str, str]) -> Rank | None:
        """The rank that this source assigned to a process, or None. Raises ClusterError like `Rank.read`."""
        return Rank.read(env, self.variables, self.name) if self.variables[0] in env else None

    async def gone(self, place: Place) -> str:
        """Waits until the process that started the ranks of this host has ended, and describes it; the launcher treats
        that as a request to stop. By default it never returns: most sources end their ranks themselves."""
        import asyncio  # only launchers need it

        return await asyncio.get_running_loop().create_future()

    def release(self, place: Place) -> None:
        """Releases programs of the source that would wait for a failed job."""


OWN = RankSource("tfhet", "alone", "without MPI", RANK_VARIABLES, own=True)
"""Ranks that a launcher of tfhet numbered, and a process that is the only rank."""


@dataclass(frozen=True)
class Claim:
    """The ports that one launcher keeps free, from before it joins: no host knows the free ports of another."""

    host: str
    ports: tuple[Port, ...] = ()

    @classmethod
    def of_all(cls, facts: Mapping[str, Mapping[str, Any]]) -> dict[str, Claim]:
        """The claims in the facts with which each member joined. Raises ClusterError."""
        how: dict[str, Any] = {"is_strict": True, "error": ClusterError}
        return {member: from_json(cls, each, f"{member} joined with", **how) for member, each in facts.items()}


class Meeting(Protocol):
    """Rendezvous of the ranks, which the leader keeps open while they find each other."""

    def load(self) -> None:
        """Imports the modules that `open` needs, which may take seconds. Raises UsageError if a package is missing."""

    def open(self, address: str, interface: str, listen: str, peers: Collection[str]) -> Mapping[str, Any]:
        """Opens the meeting.

        Args:
            address: Address at which every rank reaches the meeting.
            listen: IP address at which the meeting listens.
            peers: IP addresses of the other launchers; it answers these and this machine only.

        Returns the order: JSON values that reach `Strategy.environment` unchanged, in the leader's message "start".
        """

    def close(self) -> None:
        """Ends the meeting, in up to half a second. May be called again, and without `open`."""


class Collective(Protocol):
    """Operations that every rank calls in the same order, in tfhet's own trainer and in readers.

    Optional: `alltoall(values, counts, name)` sends the first counts[0] of `values`, int64 [n], to rank 0, the next
    counts[1] to rank 1, ..., and returns the values that this rank received, in the order of the ranks.
    """

    rank: int
    size: int

    def sum(self, tensors: Sequence[tf.Tensor], name: str) -> list[tf.Tensor]:
        """Sums each tensor over the ranks. Works in a graph; `name` must be the same on all ranks."""

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        """Assigns the values of rank 0's variables on all ranks."""

    def total(self, values: Sequence[float], name: str) -> list[float]:
        """Sums each number over the ranks, outside a graph."""

    def gather(self, values: np.ndarray, name: str) -> np.ndarray:
        """Returns the int64 arrays [n] of all ranks, n of each rank's own, concatenated in the order of the ranks."""

    def shutdown(self) -> None:
        """Leaves the collective; no other method may be called afterwards."""


class Strategy:
    """A way for the ranks of a job to find each other and train together."""

    name: str
    """Value of `--strategy` that chooses this strategy."""
    roles: Sequence[Role] = ()
    """Roles of hosts that this strategy adds to data and dnn; their launchers run `serve`."""
    sources: Sequence[RankSource] = ()
    """Programs that start ranks of this strategy, each with its own variables."""
    plane: str = ""
    """Name of the data plane that every job of this strategy has; "": any."""
    role_of_others: Role | None = None
    """Role of the other hosts of the dnn group, if only the first one has a rank; None: all of them train."""
    ranks_per_host: int | None = None
    """Number of ranks per host, unless the user or a source of ranks sets it; None: the number of GPUs."""
    has_replicas: bool = False
    """Whether each rank trains a copy of the model: tfhet checks that their weights stay equal."""
    order_type: type[Any] | None = None
    """Class whose `parse(order)` checks an order, and whose `environment(host, rank, env)` follows it; None: every
    order is valid and adds no variables."""
    packages: Sequence[str] = ()
    """Modules that the launchers of this strategy's hosts need."""
    consequences: re.Pattern[str] | None = None
    """Matches last lines of a rank that report the end of another rank."""

    def translated(self, argv: Sequence[str]) -> list[str]:
        """`argv` with the arguments of another launcher of such jobs replaced by tfhet's."""
        return list(argv)

    def meeting(self, hosts: Sequence[str], per_host: int, source: RankSource) -> Meeting | None:
        """The meeting of the ranks, numbered host by host, `per_host` on each of the `hosts` that train. None for a
        single rank, or if `source`, which started the ranks, lets them find each other. Raises UsageError if the
        strategy cannot train this number of ranks."""
        return None

    def ports(self, place: Place) -> int:
        """Number of TCP ports that the launcher at `place` keeps for its script or `serve`, to bind by SO_REUSEPORT."""
        return 0

    def order(self, opened: Mapping[str, Any], claims: Mapping[str, Claim], place: Place) -> Mapping[str, Any]:
        """The order, in the leader at `place`. opened: result of the meeting's `open`; {} without a meeting. claims:
        the ports of all launchers, by member. Raises UsageError and ClusterError."""
        return opened

    def check(self, order: Mapping[str, Any]) -> None:
        """Raises ClusterError for an order that the ranks could not follow."""
        if order and self.order_type is not None:
            self.order_type.parse(order)

    def environment(self, order: Mapping[str, Any], host: str, rank: Rank, env: Mapping[str, str]) -> dict[str, str]:
        """`env` with the variables by which the script of a rank on `host`, this one, finds the others. Raises
        ClusterError if this host cannot follow the order."""
        if not order or self.order_type is None:
            return dict(env)
        return dict(self.order_type.parse(order).environment(host, rank, env))

    def check_script(self, path: str, size: int, env: Mapping[str, str]) -> None:
        """Raises UsageError for a script at `path` that cannot train `size` ranks with the installed packages. Called
        on each host before the ranks start. env: of the launcher."""

    async def serve(self, place: Place, order: Mapping[str, Any], say: Callable[[str], None]) -> None:
        """Runs on a host of `roles` from the start of the ranks until it is cancelled. An exception ends the job."""

    def is_over(self, results: Mapping[int, int], size: int) -> bool:
        """Whether the training is over. results: the exit codes of the ranks that have ended, of `size`."""
        return len(results) == size

    def is_consequence(self, line: str) -> bool:
        """Whether the last line of a rank reports the end of another rank, which is the cause."""
        return self.consequences is not None and self.consequences.search(line) is not None

    def prepare_rank(self) -> None:
        """Called in a rank whose script defines a data set, before the rank reports that it reads: undoes changes of
        the framework to the process that would break its supervision."""

    def reader(self, size: int) -> tuple[Any, int] | None:
        """The index (an int or a tensor) of the process that will read the data set which the script defines, and the
        number of such processes. None if each rank reads its own. Raises UsageError if the script may define none."""
        return None

    def undivided(self, data: tf.data.Dataset, size: int) -> tf.data.Dataset:
        """Makes the framework use the share of one of `size` ranks as it is, without dividing it again."""
        return data

    def parts_of_batch(self, size: int) -> int:
        """The number of steps in which one of `size` ranks uses a batch of its data set."""
        return 1

    def collective(self, size: int) -> Collective:
        """The collective of `size` ranks, in one of them. Raises UsageError if it cannot be formed."""
        raise NotImplementedError


_Word = Annotated[str, Meta(pattern=r"\A[^\s\x00-\x1f\x7f-\xa0]+\Z")]


@dataclass(frozen=True)
class Rendezvous(Order):
    """The order of a strategy whose ranks meet at one port; each such strategy has a class of its own."""

    address: _Word
    """Address or name of the host where the ranks meet, as every rank reaches it."""
    port: Port
    interface: _Word
    """Network interface between the hosts, of the same name on all, like `eth0`."""

    chosen: ClassVar[tuple[str, ...]] = ()
    """Variables of a job that take precedence; the first names the network interfaces, with commas between them."""

    def environment(self, host: str, rank: Rank, env: Mapping[str, str]) -> dict[str, str]:
        """`env` with the variables that the script of a rank on `host`, this one, reads. Raises ClusterError where this
        host has no such network interface, which Gloo's own error does not name."""
        chosen = {name: env[name] for name in self.chosen if env.get(name)}
        whole = {**self.usual(rank), **env, **self.variables(host, rank), **chosen}
        there = [name for _, name in socket.if_nameindex()]
        for interface in whole[self.chosen[0]].split(","):
            if interface not in there:
                raise ClusterError(
                    f"{host} has no network interface {interface!r}, over which the ranks should meet; it has "
                    f"{', '.join(there)} (network_interface_name in resourceconfig.json)"
                )
        return whole

    def usual(self, rank: Rank) -> dict[str, str]:
        """Variables for a job that has not set them itself."""
        return {}

    def variables(self, host: str, rank: Rank) -> dict[str, str]:
        """The place of a rank. Ranks are numbered host by host, as many on each."""
        raise NotImplementedError
