"""Many hosts on one machine: each its own process tree, address, ports, directories and configuration."""

from __future__ import annotations

from tfhet.simulate.cluster_file import ClusterFile, GroupFile, load, presets
from tfhet.simulate.fault import Fault
from tfhet.simulate.simulation import Simulation, run_dir, simulate

__all__ = ["ClusterFile", "Fault", "GroupFile", "Simulation", "load", "presets", "run_dir", "simulate"]
