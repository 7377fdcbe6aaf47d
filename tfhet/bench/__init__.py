"""The compute-time harness: cases, repeats, comparisons. `run(argv)` is the command `tfhet bench`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from tfhet.bench.case import Case
    from tfhet.bench.command import run
    from tfhet.bench.harness import measure
    from tfhet.bench.measurement import Measurement
    from tfhet.bench.meter import Meter, ProcessMeter, Sample
    from tfhet.bench.suite import Suite

__all__ = ["Case", "Measurement", "Meter", "ProcessMeter", "Sample", "Suite", "measure", "run"]

lazy.names_on_demand(
    __name__,
    {
        "case": "Case",
        "command": "run",
        "harness": "measure",
        "measurement": "Measurement",
        "meter": "Meter ProcessMeter Sample",
        "suite": "Suite",
    },
)
