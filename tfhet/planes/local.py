"""The data plane `local`: every rank prepares its own share of the data, and nothing else runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfhet.cluster import Role
from tfhet.planes.plane import DataPlane
from tfhet.strategies import LOCAL_PLANE


class Local(DataPlane):
    name = LOCAL_PLANE

    def host_facts(self, settings: Any, role: Role) -> Mapping[str, Any]:
        return {"servers_per_host": 0}


LOCAL = Local()
