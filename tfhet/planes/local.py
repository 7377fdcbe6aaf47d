"""The data plane `local`: every rank prepares its own share of the data, and nothing else runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfhet.cluster import Place, Role
from tfhet.planes.plane import DataPlane, LauncherSide, Outlets
from tfhet.planes.tensorflow_process import in_huge_pages, is_noise
from tfhet.strategies import LOCAL_PLANE


class LocalLauncherSide(LauncherSide):
    """See `LauncherSide`."""

    def environment(self, order: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, str]:
        return in_huge_pages(env)


class Local(DataPlane):
    """See `DataPlane`."""

    name = LOCAL_PLANE

    def host_facts(self, settings: Any, role: Role) -> Mapping[str, Any]:
        return {"workers_per_host": 0}

    def launcher_side(self, settings: Any, place: Place, outlets: Outlets) -> LauncherSide:
        return LocalLauncherSide()

    def is_noise(self, line: str, gpus: int = 0) -> bool:
        return is_noise(line, gpus)


LOCAL = Local()
