"""The strategy of one rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tfhet.cluster import Place, Rank, Role
from tfhet.errors import UsageError
from tfhet.strategies.collective import Collective
from tfhet.strategies.rank_source import RankSource
from tfhet.strategies.strategy import Meeting


class Solo:
    """See `Strategy`."""

    name = "solo"
    roles: Sequence[Role] = ()
    sources: Sequence[RankSource] = ()

    def meeting(self, hosts: Sequence[str], per_host: int, source: RankSource) -> Meeting | None:
        if source.own and len(hosts) * per_host > 1:
            raise UsageError(
                f"the strategy 'solo' is for one rank, and this job has {len(hosts) * per_host}; use horovod"
            )
        return None

    def check(self, order: Mapping[str, Any]) -> None:
        return None

    def environment(self, order: Mapping[str, Any], host: str, rank: Rank, env: Mapping[str, str]) -> dict[str, str]:
        return dict(env)

    async def serve(self, place: Place, order: Mapping[str, Any]) -> None:
        return None

    def is_consequence(self, line: str) -> bool:
        return False

    def collective(self, size: int) -> Collective:
        if size > 1:
            raise UsageError(f"the collective 'solo' is for one rank, and this job has {size}; use horovod")
        from tfhet.strategies.solo.collective import SoloCollective

        return SoloCollective()


SOLO = Solo()
