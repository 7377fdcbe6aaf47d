"""The strategy `solo`: one rank, which has none to meet."""

from __future__ import annotations

from tfhet.strategies.solo.strategy import SOLO

__all__ = ["SOLO"]
