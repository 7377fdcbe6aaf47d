"""The compute-time harness, and the suites that users run on their own machine and pipeline.

`run(argv)` is the command `tfhet bench`; `run_suite` runs a suite of another package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from tfhet.bench.case import Case
    from tfhet.bench.command import run, run_suite
    from tfhet.bench.harness import in_rounds, measure
    from tfhet.bench.measurement import Measurement
    from tfhet.bench.meter import Meter, ProcessMeter, Sample
    from tfhet.bench.suite import Suite

__all__ = [
    "Case",
    "Measurement",
    "Meter",
    "ProcessMeter",
    "Sample",
    "Suite",
    "in_rounds",
    "measure",
    "run",
    "run_suite",
]

lazy.names_on_demand(
    __name__,
    {
        "case": "Case",
        "command": "run run_suite",
        "harness": "in_rounds measure",
        "measurement": "Measurement",
        "meter": "Meter ProcessMeter Sample",
        "suite": "Suite",
    },
)
