"""The compute-time harness, and the suites that users run on their own machine and pipeline.

from tfhet.bench import Case, measure

taken = measure([Case("sum", lambda _: sum(range(100_000))), Case("max", lambda _: max(range(100_000)))])
print(taken["sum"].cheaper_than(taken["max"], against="max"))
"""

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from tfhet.bench.case import Case, Measurement
    from tfhet.bench.command import run, run_suite
    from tfhet.bench.harness import in_rounds, measure
    from tfhet.bench.meter import ProcessMeter, Sample
    from tfhet.bench.suite import Suite

lazy.names_on_demand(__name__)
