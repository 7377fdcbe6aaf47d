"""The data plane without processes of its own, as the registry has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfhet.cluster import Place, PortRange, Role, Roles
from tfhet.errors import UsageError
from tfhet.planes.costs import PlaneCosts, WireCost
from tfhet.planes.local.launcher_side import LocalLauncherSide
from tfhet.planes.plane import LauncherSide, Outlets, RankSide
from tfhet.planes.tensorflow_noise import is_noise
from tfhet.record import Interval, Record


@dataclass(frozen=True)
class LocalSettings:
    """This plane has no arguments."""


def _no_wire(dtype: str, batch_bytes: int, compression: str) -> WireCost:
    raise UsageError("the data plane `local` moves no batches between hosts")


class Local:
    """See `DataPlane`."""

    name = "local"
    settings = LocalSettings
    kinds: Mapping[str, bool] = {}
    costs = PlaneCosts(_no_wire, ("none",), "nothing is moved", Interval.exact(0.0), Interval.exact(0.0), 0)

    def measured_costs(self, record: Record) -> PlaneCosts:
        raise UsageError(f"the data plane `local` has no use for the record {record.name!r}: it moves no batches")

    def arguments(self, servers_on_data_hosts: int, servers_on_dnn_hosts: int) -> Mapping[str, int]:
        return {}

    def serving(self, settings: LocalSettings, roles: Roles) -> tuple[str, ...]:
        return ()

    def ports(self, settings: LocalSettings, role: Role) -> Mapping[str, PortRange]:
        return {}

    def host_facts(self, settings: LocalSettings, role: Role) -> Mapping[str, Any]:
        return {"workers_per_host": 0}

    def launcher_side(self, settings: LocalSettings, place: Place, outlets: Outlets) -> LauncherSide:
        return LocalLauncherSide()

    def rank_side(self) -> RankSide:
        from tfhet.planes.local.rank_side import LocalRankSide

        return LocalRankSide()

    def check(self, order: Mapping[str, Any]) -> None:
        return None

    def kind_of(self, command: Sequence[str]) -> str | None:
        return None

    def is_noise(self, line: str) -> bool:
        return is_noise(line)


LOCAL = Local()
