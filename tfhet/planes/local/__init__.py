"""The data plane `local`: every rank prepares its own share of the data, and nothing else runs."""

from __future__ import annotations

from tfhet.planes.local.plane import LOCAL

__all__ = ["LOCAL"]
