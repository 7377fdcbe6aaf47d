"""Other libraries that do the same chains, each in a process of its own. `names()` lists them, `get(name)` is one."""

from __future__ import annotations

import importlib

from tfhet.bench.peers.job import Job
from tfhet.bench.peers.peer import Peer
from tfhet.errors import unknown

__all__ = ["Job", "Peer", "get", "names"]

_MODULES = {
    "opencv": "tfhet.bench.peers.opencv",
    "albumentations": "tfhet.bench.peers.albumentations",
    "pillow": "tfhet.bench.peers.pillow",
    "dali": "tfhet.bench.peers.dali",
    "grain": "tfhet.bench.peers.grain",
    "tf-image": "tfhet.bench.peers.tf_image",
    "keras": "tfhet.bench.peers.keras",
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
