"""The life of one host, from start to exit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from tfhet.launch.assignment import Assignment, known_roles
    from tfhet.launch.entry import main
    from tfhet.launch.init import LAUNCHER_NAME
    from tfhet.launch.settings import LaunchSettings

__all__ = ["LAUNCHER_NAME", "Assignment", "LaunchSettings", "known_roles", "main"]

# Loaded when asked for: PID 1 of a container (init.py) has to be there at once, and to stay small.
lazy.names_on_demand(__name__)
