"""The strategy `mirrored`: one rank, which sees all devices of its host, for tf.distribute.MirroredStrategy."""

from __future__ import annotations

from collections.abc import Sequence

from tfhet.errors import UsageError
from tfhet.strategies.rank_source import RankSource
from tfhet.strategies.strategy import Collective, Strategy


class Mirrored(Strategy):
    name = "mirrored"
    ranks_per_host = 1

    def meeting(self, hosts: Sequence[str], per_host: int, source: RankSource) -> None:
        if (size := len(hosts) * per_host) > 1:
            raise UsageError(
                f"the strategy 'mirrored' is for one rank on one dnn host, and this job has {size} on {len(hosts)}: "
                "give --processes_per_host 1 and one dnn host, or use multi_worker"
            )

    def collective(self, size: int) -> Collective:
        raise UsageError(
            "the strategy 'mirrored' is for scripts that use tf.distribute.MirroredStrategy themselves; the built-in "
            "trainer takes one device for each rank: use multi_worker, horovod or solo"
        )


MIRRORED = Mirrored()
