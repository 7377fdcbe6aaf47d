"""Data planes: how batches come from the hosts that prepare them to the ranks, behind one protocol.

import tfhet.planes as planes

planes.names()                                        # ('local', 'tf_service', ...)
planes.get("tf_service").serving(settings, roles)     # the hosts that prepare batches
"""

from typing import TYPE_CHECKING

from tfhet import lazy
from tfhet.planes.costs import PlaneCosts, WireCost
from tfhet.planes.malloc import with_malloc_tunables
from tfhet.planes.plane import DataPlane, LauncherSide, Outlets
from tfhet.planes.registry import AUTO, PREFERRED, candidates, chosen, get, kind_of, kinds, names
from tfhet.planes.tensorflow_noise import is_noise, noise_left_out

if TYPE_CHECKING:
    from tfhet.planes import cpus
    from tfhet.planes.distribution import distribute
    from tfhet.planes.handed_over import hand_over_to
    from tfhet.planes.loader import Loader
    from tfhet.planes.reader import Delivery, RankSide, Reader
    from tfhet.planes.reading import batches

# Readers need TensorFlow; a launcher starts in a moment without it.
lazy.names_on_demand(__name__)

# fmt: off
__all__ = [
    "AUTO", "PREFERRED", "DataPlane", "Delivery", "LauncherSide", "Loader", "Outlets", "PlaneCosts", "RankSide",
    "Reader", "WireCost", "batches", "candidates", "chosen", "cpus", "distribute", "get", "hand_over_to",
    "is_noise", "kind_of", "kinds", "names", "noise_left_out", "with_malloc_tunables",
]
