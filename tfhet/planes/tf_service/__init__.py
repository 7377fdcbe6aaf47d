"""tf.data service on the hosts: dispatcher, worker, the fleet that keeps them, and the data sets that clients read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfhet.planes.distribute import distribute
    from tfhet.planes.tf_service.epoch import EpochPart
    from tfhet.planes.tf_service.fleet import Fleet

__all__ = ["EpochPart", "Fleet", "distribute"]

_HOME = {"Fleet": "fleet", "distribute": "distribution", "EpochPart": "epoch"}


def __getattr__(name: str) -> Any:
    # The launcher needs the fleet only: it must start in a moment, without TensorFlow.
    if name not in _HOME:
        raise AttributeError(name)
    import importlib

    return getattr(importlib.import_module(f"tfhet.planes.tf_service.{_HOME[name]}"), name)
