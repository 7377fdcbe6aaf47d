"""The data planes by name. Third parties add planes by entry points of the group `tfhet.planes`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfhet.cluster import Role, Roles
from tfhet.errors import ClusterError
from tfhet.planes.plane import DataPlane
from tfhet.registry import Registry
from tfhet.strategies import LOCAL_PLANE, JobContext

if TYPE_CHECKING:
    from tfhet.planes.feed.batch_reader import BatchReader
    from tfhet.planes.feed.source import FeedSource

AUTO = "auto"
PREFERRED = ("tf_service", LOCAL_PLANE)
"""Planes for `auto`, which chooses the first one with serving hosts in the job."""
PLANES: Registry[DataPlane] = Registry(
    "data plane",
    "tfhet.planes",
    {
        LOCAL_PLANE: "tfhet.planes.registry:LOCAL",
        "tf_service": "tfhet.planes.tf_service:TF_SERVICE",
        "feed": "tfhet.planes.feed:FEED",
        "ray": "tfhet.planes.ray:RAY",
    },
    (AUTO,),
)
names, get = PLANES.names, PLANES.get


def candidates(name: str) -> tuple[DataPlane, ...]:
    """Returns the planes that `--data_plane name` can mean."""
    return tuple(get(one) for one in (PREFERRED if name == AUTO else (name,)))


def chosen(name: str, settings: Mapping[str, Any], roles: Roles) -> DataPlane:
    """Returns the plane of a job. settings: of each candidate, by name. Raises UsageError for an unknown name, and
    ClusterError if the data hosts would have no work."""
    found = candidates(name)
    plane = next((each for each in found if each.serving(settings[each.name], roles)), None)
    if plane is None and roles.data_hosts:
        raise ClusterError(
            f"--data_plane {found[-1].name} with data hosts ({', '.join(roles.data_hosts)}): they would do nothing; "
            "take another data plane, or omit the data group"
        )
    return plane or found[-1]


def kinds() -> Mapping[str, bool]:
    """Returns the kinds of processes of all planes, and whether the only one is on the leader's host."""
    return {kind: is_single for name in names() for kind, is_single in get(name).kinds.items()}


def kind_of(command: Sequence[str]) -> str | None:
    """Returns the kind of a plane's process by its command line; None for other processes."""
    return next((kind for name in names() if (kind := get(name).kind_of(command)) is not None), None)


class Local(DataPlane):
    """Every rank prepares its own share of the data."""

    name = LOCAL_PLANE
    goes_local = True
    serves_functions = True

    def batches(self, source: FeedSource, job: JobContext, options: Mapping[str, Any]) -> BatchReader:
        from tfhet.planes.feed.alone import alone

        return alone(source, job, options)

    def host_facts(self, settings: Any, role: Role) -> Mapping[str, Any]:
        return {"servers_per_host": 0}


LOCAL = Local()
