"""The data plane `local`: every rank prepares its own share of the data, and nothing else runs.

Other planes build on its parts, for which nothing runs either: `LocalLauncherSide`, `LocalRankSide`, `LocalReader`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfhet import lazy
from tfhet.planes.local.launcher_side import LocalLauncherSide
from tfhet.planes.local.plane import LOCAL, Local

if TYPE_CHECKING:
    from tfhet.planes.local.rank_side import LocalRankSide
    from tfhet.planes.local.reader import LocalReader

__all__ = ["LOCAL", "Local", "LocalLauncherSide", "LocalRankSide", "LocalReader"]

# They need TensorFlow.
lazy.names_on_demand(__name__, {"rank_side": "LocalRankSide", "reader": "LocalReader"})
