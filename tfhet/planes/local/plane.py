"""The data plane without processes of its own, as the registry has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfhet.cluster import Place, PortRange, Role, Roles
from tfhet.planes.local.launcher_side import LocalLauncherSide
from tfhet.planes.plane import LauncherSide, Outlets, RankSide
from tfhet.planes.tensorflow_noise import is_noise


@dataclass(frozen=True)
class LocalSettings:
    """This plane has no arguments."""


class Local:
    """See `DataPlane`."""

    name = "local"
    settings = LocalSettings
    kinds: Mapping[str, bool] = {}

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
