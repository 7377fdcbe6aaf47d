"""What was measured: figures with their raw samples, records of benchmarks, the folder of one run, the machine."""

from __future__ import annotations

from tfhet.record.figure import Figure
from tfhet.record.folder import RunFolder
from tfhet.record.machine import machine
from tfhet.record.metric_line import MetricLine
from tfhet.record.record import Record
from tfhet.record.run import RunSummary
from tfhet.record.spread import Spread
from tfhet.record.statistics import median, percentile
from tfhet.record.timeline import Timeline
from tfhet.versions import versions

__all__ = [
    "Figure",
    "MetricLine",
    "Record",
    "RunFolder",
    "RunSummary",
    "Spread",
    "Timeline",
    "machine",
    "median",
    "percentile",
    "versions",
]
