"""What one host does from start to exit."""

from __future__ import annotations

from tfhet.launch.launcher import main
from tfhet.launch.settings import LaunchSettings

__all__ = ["LaunchSettings", "main"]
