"""The life of one host, from start to exit."""

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from tfhet.launch.assignment import Assignment, known_roles
    from tfhet.launch.entry import main
    from tfhet.launch.init import LAUNCHER_NAME
    from tfhet.launch.settings import LaunchSettings


# Loaded when asked for: PID 1 of a container (init.py) has to be there at once, and to stay small.
lazy.names_on_demand(__name__)
