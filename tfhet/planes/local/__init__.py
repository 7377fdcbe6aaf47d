"""The data plane `local`: every rank prepares its own share of the data, and nothing else runs.

Other planes build on its parts, for which nothing runs either: `LocalLauncherSide`, `LocalRankSide`, `LocalReader`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfhet.planes.local.launcher_side import LocalLauncherSide
from tfhet.planes.local.plane import LOCAL, Local

if TYPE_CHECKING:
    from tfhet.planes.local.rank_side import LocalRankSide
    from tfhet.planes.local.reader import LocalReader

__all__ = ["LOCAL", "Local", "LocalLauncherSide", "LocalRankSide", "LocalReader"]

_HOME = {"LocalRankSide": "rank_side", "LocalReader": "reader"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:  # they need TensorFlow
        raise AttributeError(f"module 'tfhet.planes.local' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"tfhet.planes.local.{_HOME[name]}"), name)
