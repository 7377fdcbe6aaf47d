"""The data plane `local`: every rank prepares its own share of the data, and nothing else runs.

Readers of other planes build on `LocalRankSide` and `LocalReader`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfhet import lazy
from tfhet.planes.local.plane import LOCAL

if TYPE_CHECKING:
    from tfhet.planes.local.reader import LocalRankSide, LocalReader

__all__ = ["LOCAL", "LocalRankSide", "LocalReader"]

lazy.names_on_demand(__name__, {"reader": "LocalRankSide LocalReader"})  # they need TensorFlow
