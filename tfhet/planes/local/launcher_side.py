"""The launcher's side of a data plane that starts nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from tfhet.planes.memory import in_huge_pages
from tfhet.planes.plane import Loss
from tfhet.telemetry import Metric


class LocalLauncherSide:
    """See `LauncherSide`. The side of a plane with processes overrides what differs."""

    serves = False
    words = "no data service"
    facts: Mapping[str, str] = {}

    async def serve(self) -> NoReturn:
        raise AssertionError("there is nothing to serve")

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
