"""A Ray cluster on the hosts of a job, from which ranks read Ray Data, and on which a script runs whatever Ray runs.

planes.get("ray").launcher_side(settings, place, outlets)     # starts the node of one host
"""

from typing import TYPE_CHECKING

from tfhet import lazy
from tfhet.planes.ray.plane import RAY

if TYPE_CHECKING:
    from tfhet.planes.ray.driver import alone, alone_variables
    from tfhet.planes.ray.execution import Execution, executed
    from tfhet.planes.ray.leftovers import end_marked
    from tfhet.planes.ray.private import is_dataset, prefixes

# A launcher loads the plane alone.
lazy.names_on_demand(__name__)
