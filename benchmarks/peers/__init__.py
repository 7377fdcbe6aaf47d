"""Other libraries that do the same chains, each in a process of its own. `names()` lists them, `get(name)` is one."""

from __future__ import annotations

import importlib

from benchmarks.peers.job import Job
from benchmarks.peers.peer import Peer
from tfhet.errors import unknown

__all__ = ["Job", "Peer", "get", "names"]

_MODULES = {
    "tf-batched": "benchmarks.peers.tf_batched",
    "opencv": "benchmarks.peers.opencv",
    "turbojpeg": "benchmarks.peers.turbojpeg",
    "torchvision": "benchmarks.peers.torchvision",
    "albumentations": "benchmarks.peers.albumentations",
    "pillow": "benchmarks.peers.pillow",
    "dali": "benchmarks.peers.dali",
    "grain": "benchmarks.peers.grain",
    "tf-image": "benchmarks.peers.tf_image",
    "spdl": "benchmarks.peers.spdl",
    "keras": "benchmarks.peers.keras",
}
"""Peer name to the module whose `PEER` it is."""


def names() -> tuple[str, ...]:
    """All peers, in the order in which they are listed and measured."""
    return tuple(_MODULES)


def get(name: str) -> Peer:
    """The peer called `name`. Raises UsageError that lists the known ones."""
    if name not in _MODULES:
        unknown("peer", name, _MODULES)
    peer = importlib.import_module(_MODULES[name]).PEER
    if not isinstance(peer, Peer):
        raise TypeError(f"{_MODULES[name]}.PEER is no Peer")
    return peer
