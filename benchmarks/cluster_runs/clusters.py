"""Clusters of the jobs to which faults are done, beside the package's presets."""

from __future__ import annotations

from tfhet.simulate import ClusterFile, GroupFile, load

_CHANNELS = {"training": "digits/train"}
CLUSTERS = (
    ClusterFile("one-and-one", {"data_group": GroupFile(1), "dnn_group": GroupFile(1, ranks=2)}, _CHANNELS),
    ClusterFile("two-and-two", {"data_group": GroupFile(2), "dnn_group": GroupFile(2, ranks=1)}, _CHANNELS),
)
"""Two ranks on one host, and on two, each of which has one launcher."""


def cluster_named(name: str) -> ClusterFile:
    """One of CLUSTERS, or a preset. Raises UsageError."""
    return next((cluster for cluster in CLUSTERS if cluster.name == name), None) or load(name)
