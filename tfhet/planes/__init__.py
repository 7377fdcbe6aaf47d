"""Data planes: how batches come from the hosts that prepare them to the ranks, behind one protocol.

import tfhet.planes as planes

planes.names()                                        # ('local', 'tf_service', ...)
planes.get("tf_service").serving(settings, roles)     # the hosts that prepare batches
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfhet.planes.costs import PlaneCosts, WireCost
from tfhet.planes.plane import DataPlane, LauncherSide, Loss, Outlets, RankSide
from tfhet.planes.registry import AUTO, PREFERRED, candidates, chosen, get, kind_of, kinds, names

if TYPE_CHECKING:
    from tfhet.planes.distribution import distribute
    from tfhet.planes.reader import Delivery, Reader

__all__ = [
    "AUTO",
    "PREFERRED",
    "DataPlane",
    "Delivery",
    "LauncherSide",
    "Loss",
    "Outlets",
    "PlaneCosts",
    "RankSide",
    "Reader",
    "WireCost",
    "candidates",
    "chosen",
    "distribute",
    "get",
    "kind_of",
    "kinds",
    "names",
]

_HOME = {"distribute": "distribution", "Delivery": "reader", "Reader": "reader"}


def __getattr__(name: str) -> Any:
    # Readers need TensorFlow; a launcher starts in a moment without it.
    if name not in _HOME:
        raise AttributeError(f"module 'tfhet.planes' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"tfhet.planes.{_HOME[name]}"), name)
