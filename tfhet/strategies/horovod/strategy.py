"""The strategy of Horovod's ranks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tfhet.cluster import Rank
from tfhet.strategies.horovod.rendezvous import Rendezvous, Ring
from tfhet.strategies.rank_source import RankSource
from tfhet.strategies.strategy import Collective, Strategy

_CONSEQUENCE = re.compile(r"Horovod has been shut down|HorovodInternalError|Connection (closed|reset) by peer")
"""Errors of the remaining ranks when another rank has ended (Horovod 0.28.1)."""

RUN = RankSource(
    "horovod",
    "horovodrun",
    "started by horovodrun, or with its variables",
    ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"),
)
"""Horovod's own launcher, over Gloo (horovod/runner/gloo_run.py)."""


class HorovodStrategy(Strategy):
    """See `Strategy`."""

    name = "horovod"
    sources: Sequence[RankSource] = (RUN,)

    def meeting(self, hosts: Sequence[str], per_host: int, source: RankSource) -> Ring | None:
        return Ring(hosts, per_host) if source.own and len(hosts) * per_host > 1 else None

    def check(self, order: Mapping[str, Any]) -> None:
        if order:
            Rendezvous.parse(order)

    def environment(self, order: Mapping[str, Any], host: str, rank: Rank, env: Mapping[str, str]) -> dict[str, str]:
        return Rendezvous.parse(order).environment(host, rank, env) if order else dict(env)

    def is_consequence(self, line: str) -> bool:
        return _CONSEQUENCE.search(line) is not None

    def collective(self, size: int) -> Collective:
        from tfhet.strategies.horovod.collective import HorovodCollective

        return HorovodCollective(size)


HOROVOD = HorovodStrategy()
