"""The data plane `local`: every rank prepares its own share of the data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tfhet.cluster import Role
from tfhet.planes.plane import DataPlane
from tfhet.strategies import LOCAL_PLANE, JobContext

if TYPE_CHECKING:
    from tfhet.planes.feed.delivered import BatchReader
    from tfhet.planes.feed.source import FeedSource


class Local(DataPlane):
    name = LOCAL_PLANE
    goes_local = True
    serves_functions = True

    def batches(self, source: FeedSource, job: JobContext, options: Mapping[str, Any]) -> BatchReader:
        from tfhet.planes.feed.alone import AloneReader

        return AloneReader(source, rank=job.rank, size=job.size, seed=job.seed, is_equal=options["is_equal"])

    def host_facts(self, settings: Any, role: Role) -> Mapping[str, Any]:
        return {"servers_per_host": 0}


LOCAL = Local()
