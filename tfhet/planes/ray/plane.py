"""The data plane `ray`: a Ray cluster on the hosts of the job, whose tasks prepare batches by Ray Data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tfhet.cluster import DATA, DNN, Place, PortRange, Role, Roles
from tfhet.errors import UsageError
from tfhet.planes.plane import DataPlane, LauncherSide, Outlets
from tfhet.planes.ray.settings import (
    HEAD,
    NODE,
    NODES,
    WORKER_PORTS,
    WORKERS,
    WORKERS_OF_A_CPU,
    Order,
    RaySettings,
    cpus_offered,
)
from tfhet.record import usable_cores
from tfhet.strategies import JobContext

if TYPE_CHECKING:
    from tfhet.planes.costs import CostFile, PlaneCosts
    from tfhet.planes.feed.batch_reader import BatchReader
    from tfhet.planes.feed.source import FeedSource
    from tfhet.planes.reader import RankSide

_OF_OTHERS = re.compile(r"(\x1b\[\d+m)?\((raylet\b|pid=gcs_server\)|([^()]|\([^()]*\))+ pid=\d+)")
"""The beginning of a line that Ray's driver prints for a task, an actor, or a process of a node."""
_OF_NODES = re.compile(r"(\x1b\[\d+m)?\((raylet|pid=gcs_server)\b[^()]*\)(\x1b\[\d+m)? \[\d{4}-\d\d-\d\d ")
"""The beginning of a log line that Ray's driver prints for a process of a node."""
_OF_CLEANER = re.compile(r"(\x1b\[\d+m)?\(PlacementGroupCleaner\b")
"""The beginning of a line of Ray Train's cleaner, which complains once a second in a cluster without a dashboard."""
_OF_RAY = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+\s+INFO \w+\.py:\d+ -- ")
"""The beginning of Ray's own log lines in the script's process."""


class Ray(DataPlane):
    name = "ray"
    packages = ("ray",)
    settings = RaySettings
    serves_functions = True
    sees_reads = False  # a script can use its cluster by Ray alone
    kinds: Mapping[str, bool] = {"ray": False}
    module = NODE
    orders = Order

    def costs(self, file: CostFile | None = None) -> PlaneCosts:
        from tfhet.planes.costs import CostFile

        cost = (file or CostFile.default()).plane(self.name)
        # Tasks run ahead on all CPUs, but one thread fetches the blocks, one at a time.
        return cost.costs(is_prepared_ahead=True, most_servers_per_host=1, is_needed=True, uses_all_hosts=False)

    def arguments(self, servers_on_data_hosts: int, servers_on_dnn_hosts: int) -> Mapping[str, int]:
        """One node on each host; it offers all CPUs of a data host, or of a dnn host if there are no data hosts."""
        alone = not servers_on_data_hosts
        return {"data_host_cpus": -1, "dnn_host_cpus": (-1 if alone else 1) if servers_on_dnn_hosts else 0}

    def serving(self, settings: RaySettings, roles: Roles) -> tuple[str, ...]:
        has_data = bool(roles.data_hosts)
        further = [host for host in roles.other_hosts if host not in roles.data_hosts]
        trains = (*roles.dnn_hosts, *further) if cpus_offered(settings, DNN, has_data) else ()
        return (*(roles.data_hosts if cpus_offered(settings, DATA, has_data) else ()), *trains)

    def ports(self, settings: RaySettings, role: Role) -> Mapping[str, PortRange]:
        count = WORKERS + WORKER_PORTS + WORKERS_OF_A_CPU * usable_cores()
        return {HEAD: PortRange(settings.ray_port, is_shared=True), NODES: PortRange(settings.ray_port + 1, count)}

    def host_facts(self, settings: RaySettings, role: Role) -> Mapping[str, Any]:
        offers = role == DATA or settings.dnn_host_cpus > 0
        return {"servers_per_host": 1 if offers else 0}

    def launcher_side(self, settings: RaySettings, place: Place, outlets: Outlets) -> LauncherSide:
        from tfhet.planes.ray.launcher_side import RayLauncherSide

        return RayLauncherSide(settings, place, outlets)

    def batches(self, source: FeedSource, job: JobContext, options: Mapping[str, Any]) -> BatchReader:
        from tfhet.planes.ray.reader import RayReader

        if options["pipeline"] is not None:
            raise UsageError(
                "--data_plane ray serves Ray data sets; start the job with --data_plane feed for a pipeline"
            )
        arguments = {name: value for name, value in options.items() if name != "pipeline"}
        return RayReader(Order.parse(job.order), source, job, **arguments)

    def rank_side(self) -> RankSide:
        from tfhet.planes.feed.rank_side import FunctionRankSide

        return FunctionRankSide(self.name, "Ray data sets")

    def is_noise(self, line: str, gpus: int = 0) -> bool:
        """True also for log lines of Ray."""
        is_of_ray = any(beginning.match(line) for beginning in (_OF_NODES, _OF_CLEANER, _OF_RAY))
        return is_of_ray or super().is_noise(line, gpus)

    def is_of_others(self, line: str) -> bool:
        return bool(_OF_OTHERS.match(line))


RAY = Ray()
