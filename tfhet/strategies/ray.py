"""The strategy `ray`: one script, on the leader's host, which has the whole Ray cluster of the job.

The script starts what it needs there by Ray itself: Ray Train's workers, Ray Data's tasks. The other hosts of the dnn
group have no rank; their launchers keep a node of the cluster, which is the data plane `ray`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfhet.cluster import Role
from tfhet.errors import UsageError
from tfhet.strategies.rank_source import RankSource
from tfhet.strategies.solo import SoloCollective
from tfhet.strategies.strategy import Collective, Strategy

NODE = Role("node")
"""The hosts of the dnn group but the first."""


class RayStrategy(Strategy):
    name = "ray"
    plane = "ray"
    ranks_per_host = 1
    role_of_others = NODE

    def meeting(self, hosts: Sequence[str], per_host: int, source: RankSource) -> None:
        if (size := len(hosts) * per_host) > 1:
            raise UsageError(
                f"the strategy 'ray' runs one script, on the first dnn host, and this job has {size} ranks: omit what "
                "starts several (--processes_per_host, mpirun); Ray starts the workers of the script"
            )

    def collective(self, size: int) -> Collective:
        return SoloCollective()


RAY = RayStrategy()
