"""Many hosts on one machine: process trees, or containers with a network and limits of their own."""

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from tfhet.simulate.cluster_file import DIGITS, ClusterFile, GroupFile, load, presets
    from tfhet.simulate.fault import Fault
    from tfhet.simulate.scale import BASE_BYTES, PROCESS_BYTES
    from tfhet.simulate.simulation import Simulation, run_dir, simulate

lazy.names_on_demand(__name__)
