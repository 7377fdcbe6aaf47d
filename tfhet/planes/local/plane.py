"""The data plane without processes of its own, as the registry has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from tfhet.cluster import Place, PortRange, Role, Roles
from tfhet.planes.memory import in_huge_pages
from tfhet.planes.plane import LauncherSide, Loss, Outlets, RankSide
from tfhet.planes.tensorflow_noise import is_noise
from tfhet.telemetry import Metric


@dataclass(frozen=True)
class LocalSettings:
    """This plane has no arguments."""


class LocalLauncherSide:
    """See `LauncherSide`."""

    serves = False
    words = "no data service"
    facts: Mapping[str, str] = {}

    async def serve(self) -> NoReturn:
        raise AssertionError("the local plane starts nothing")

    async def stop(self, grace_s: float) -> None:
        return None

    def processes(self) -> Mapping[str, int]:
        return {}

    def metrics(self) -> Mapping[Metric, float]:
        return {}

    async def beside(self, pid: int) -> None:
        return None

    def environment(self, order: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, str]:
        return in_huge_pages(env)

    def reads(self, endlessly: bool) -> None:
        return None

    def heard(self, facts: Mapping[str, Any]) -> str | None:
        return None

    def missing(self) -> str | None:
        return None

    def order(self) -> Mapping[str, Any]:
        return {}

    def begins(self) -> None:
        return None

    def lost(self, host: str) -> Loss:
        return Loss.GO_ON


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
