"""The compute-time harness: cases, repeats, comparisons. `run(argv)` is the command `tfhet bench`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfhet.bench.case import Case
    from tfhet.bench.command import run
    from tfhet.bench.harness import measure
    from tfhet.bench.measurement import Measurement
    from tfhet.bench.meter import Meter, ProcessMeter, Sample
    from tfhet.bench.suite import Suite

__all__ = ["Case", "Measurement", "Meter", "ProcessMeter", "Sample", "Suite", "measure", "run"]

# Loaded when asked for: scripts of jobs that are measured (flow/) should not pay for tables and progress bars.
_HOME = {
    "Case": "case",
    "Measurement": "measurement",
    "Meter": "meter",
    "ProcessMeter": "meter",
    "Sample": "meter",
    "Suite": "suite",
    "measure": "harness",
    "run": "command",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tfhet.bench' has no attribute {name!r}")
    return getattr(importlib.import_module(f"tfhet.bench.{_HOME[name]}"), name)
