"""TF_CONFIG: the tasks of a cluster of tf.distribute with their addresses, and the task of a process.

Its format is described in TensorFlow's guide "Multi-worker training with Keras": {"cluster": {"worker": ["host:port",
...]}, "task": {"type": "worker", "index": 0}}.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from tfhet.cluster import Place, Rank
from tfhet.errors import ClusterError, shown
from tfhet.schema import Address, Order
from tfhet.strategies.strategy import Claim, RankSource

VARIABLE = "TF_CONFIG"
_Addresses = Annotated[Sequence[Address], Meta(min_length=1)]
CHIEF, WORKER, PS = "chief", "worker", "ps"
"""Types of tasks. The ranks are the chief and the workers, in this order."""
_KEPT = {"TF_GRPC_REUSE_PORT": "true"}
"""Lets TensorFlow's server bind a port that the launcher keeps free for it (grpc_server_lib.cc, 2.15.1)."""


@dataclass(frozen=True)
class Tasks(Order):
    """The order of these strategies: the address of every task, by type."""

    cluster: Annotated[Mapping[str, _Addresses], Meta(min_length=1)]

    @property
    def ranks(self) -> tuple[tuple[str, int], ...]:
        """Type and index of each rank, in their order."""
        return tuple((kind, index) for kind in (CHIEF, WORKER) for index in range(len(self.cluster.get(kind, ()))))

    def environment(self, host: str, rank: Rank, env: Mapping[str, str]) -> dict[str, str]:
        """`env` with the variables of a rank. If a host has several ranks, each sees the GPU of its local rank; a value
        of the user's wins. Raises ClusterError for a rank without a task."""
        if len(self.ranks) != rank.size:
            raise ClusterError(f"the order has {len(self.ranks)} tasks for {rank.size} ranks")
        visible = {}
        if rank.local_size > 1:
            gpus = [gpu for gpu in env.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]
            own = gpus if gpus else [str(gpu) for gpu in range(rank.local_size)]
            visible = {"CUDA_VISIBLE_DEVICES": own[rank.local_rank]} if len(own) >= rank.local_size else {}
        return {**env, **visible, **self.of_task(*self.ranks[rank.rank])}

    def of_task(self, kind: str, index: int) -> dict[str, str]:
        """The variables of one task alone."""
        return {**_KEPT, VARIABLE: json.dumps({"cluster": self.cluster, "task": {"type": kind, "index": index}})}


def ranks_at(claims: Mapping[str, Claim], place: Place) -> list[str]:
    """HOST:PORT of each rank, with the port that its launcher keeps. Raises ClusterError if one keeps none."""
    return [_at(claims, f"rank-{rank}", place) for rank in range(place.size)]


def hosts_at(claims: Mapping[str, Claim], role: str, place: Place) -> list[str]:
    """HOST:PORT of each host of a role."""
    return [_at(claims, host, place) for host in place.roles.hosts(role)]


def _at(claims: Mapping[str, Claim], member: str, place: Place) -> str:
    claim = claims.get(member)
    if claim is None or not claim.ports:
        raise ClusterError(
            f"{member} keeps no port for its task; does it run the same version, with the same --strategy?"
        )
    address = place.address(claim.host)
    return f"[{address}]:{claim.ports[0]}" if ":" in address else f"{address}:{claim.ports[0]}"


@dataclass(frozen=True)
class TfConfigSource(RankSource):
    """Ranks of a program that sets TF_CONFIG for each of its processes, like an operator of Kubernetes."""

    with_ps: bool = False

    def read(self, env: Mapping[str, str]) -> Rank | None:
        text = env.get(VARIABLE)
        if not text:
            return None
        try:
            config = json.loads(text)
            cluster, task = dict(config.get("cluster") or {}), config.get("task") or {}
            kind, index = task.get("type"), int(task.get("index") or 0)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise ClusterError(f"{VARIABLE}: {shown(text)} is no cluster with a task ({error})") from None
        if not cluster or kind not in (CHIEF, WORKER) or (PS in cluster) is not self.with_ps:
            return None
        tasks = Tasks.parse({"cluster": cluster})
        if len(tasks.ranks) <= 1:
            return None
        if (kind, index) not in tasks.ranks:
            raise ClusterError(f"{VARIABLE}: the cluster has no {kind} {index}")
        hosts = [cluster[of][number].rpartition(":")[0] for of, number in tasks.ranks]
        rank = tasks.ranks.index((kind, index))
        local = [number for number, host in enumerate(hosts) if host == hosts[rank]]
        return Rank(rank, len(hosts), local.index(rank), len(local), self.name)
