"""The compute-time harness, and the suites that users run on their own machine and pipeline.

`run(argv)` is the command `tfhet bench`; `run_suite` runs a suite of another package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from tfhet.bench.command import run, run_suite
    from tfhet.bench.harness import Case, Measurement, in_rounds, measure
    from tfhet.bench.meter import ProcessMeter, Sample
    from tfhet.bench.suite import Suite

__all__ = ["Case", "Measurement", "ProcessMeter", "Sample", "Suite", "in_rounds", "measure", "run", "run_suite"]

lazy.names_on_demand(
    __name__,
    {
        "command": "run run_suite",
        "harness": "Case Measurement in_rounds measure",
        "meter": "ProcessMeter Sample",
        "suite": "Suite",
    },
)
