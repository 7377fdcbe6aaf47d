"""The data plane of tf.data service, as the registry has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tfhet.cluster import DATA, DNN, Place, PortRange, Role, Roles
from tfhet.errors import ClusterError
from tfhet.planes.plane import DataPlane, LauncherSide, Outlets
from tfhet.planes.tf_service.settings import DISPATCHER, SERVER, WORKERS, Order, ServiceSettings

if TYPE_CHECKING:
    from tfhet.planes.costs import CostFile, PlaneCosts
    from tfhet.planes.reader import RankSide


class TfService(DataPlane):
    name = "tf_service"
    packages = ("tensorflow",)
    settings = ServiceSettings
    goes_local = True
    kinds: Mapping[str, bool] = {"worker": False, "dispatcher": True}
    module = SERVER
    orders = Order

    def costs(self, file: CostFile | None = None) -> PlaneCosts:
        from tfhet.planes.costs import CostFile

        # More than 8 workers on a host were never seen to help.
        return (file or CostFile.default()).plane(self.name).costs(most_servers_per_host=8)

    def arguments(self, servers_on_data_hosts: int, servers_on_dnn_hosts: int) -> Mapping[str, int]:
        return {"data_host_workers": servers_on_data_hosts, "dnn_host_workers": servers_on_dnn_hosts}

    def serving(self, settings: ServiceSettings, roles: Roles) -> tuple[str, ...]:
        if roles.data_hosts and not settings.data_host_workers:
            raise ClusterError(
                f"--data_host_workers 0 with data hosts ({', '.join(roles.data_hosts)}): they would do nothing; "
                "give at least 1, or omit the data group"
            )
        return (*roles.data_hosts, *(roles.dnn_hosts if settings.dnn_host_workers else ()))

    def ports(self, settings: ServiceSettings, role: Role) -> Mapping[str, PortRange]:
        return {
            DISPATCHER: PortRange(settings.dispatcher_port, is_shared=True),
            WORKERS: PortRange(settings.worker_port, _workers(settings, role)),
        }

    def host_facts(self, settings: ServiceSettings, role: Role) -> Mapping[str, Any]:
        return {"servers_per_host": _workers(settings, role)}

    def launcher_side(self, settings: ServiceSettings, place: Place, outlets: Outlets) -> LauncherSide:
        from tfhet.planes.tf_service.launcher_side import ServiceLauncherSide

        workers = {
            host: _workers(settings, DATA if host in place.roles.data_hosts else DNN)
            for host in self.serving(settings, place.roles)
        }
        return ServiceLauncherSide(settings, place, outlets, workers)

    def rank_side(self) -> RankSide:
        from tfhet.planes.tf_service.reader import ServiceRankSide

        return ServiceRankSide()


def _workers(settings: ServiceSettings, role: Role) -> int:
    return {DATA: settings.data_host_workers, DNN: settings.dnn_host_workers}.get(role, 0)


TF_SERVICE = TfService()
