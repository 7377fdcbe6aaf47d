"""tfhet keeps GPUs from waiting for their input.

    import tfhet

    ds = tfhet.distribute(ds)      # a plain data set without a data group; a served one with it

Names are loaded when they are first used: `import tfhet` loads neither TensorFlow nor Horovod.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tfhet import stages
    from tfhet.cluster import JobContext
    from tfhet.errors import TfhetError, UsageError
    from tfhet.placement import Cut, Pipeline
    from tfhet.record import Figure, Record, RunFolder, RunSummary
    from tfhet.service import distribute
    from tfhet.source import SyntheticSource, TFRecordSource
    from tfhet.stages import ImageSpec, Stage

__all__ = [
    "Cut",
    "Figure",
    "ImageSpec",
    "JobContext",
    "Pipeline",
    "Record",
    "RunFolder",
    "RunSummary",
    "Stage",
    "SyntheticSource",
    "TFRecordSource",
    "TfhetError",
    "UsageError",
    "distribute",
    "stages",
]

_HOME = {
    "Cut": "placement",
    "Figure": "record",
    "ImageSpec": "stages",
    "JobContext": "cluster",
    "Pipeline": "placement",
    "Record": "record",
    "RunFolder": "record",
    "RunSummary": "record",
    "Stage": "stages",
    "SyntheticSource": "source",
    "TFRecordSource": "source",
    "TfhetError": "errors",
    "UsageError": "errors",
    "distribute": "service",
}


def __getattr__(name: str) -> Any:
    if name == "stages":
        return importlib.import_module("tfhet.stages")
    if name not in _HOME:
        raise AttributeError(f"module 'tfhet' has no attribute {name!r}")
    return getattr(importlib.import_module(f"tfhet.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
