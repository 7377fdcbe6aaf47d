"""What was measured: figures, records of benchmarks, and the folder that a run leaves.

    >>> from tfhet.record import Figure, Record
    >>> cost = Figure.of([12.1, 11.9, 12.4, 12.0, 12.2], unit="us")
    >>> round(cost.value, 1), round(cost.low, 1), round(cost.high, 1), cost.n
    (12.1, 11.9, 12.4, 5)
    >>> Record.of("blur", {"blur.us": cost}).write("results/blur.json")
    PosixPath('results/blur.json')

A run's folder holds its summary, events, logs and timeline: `RunFolder("runs/a").read_summary().wait_pct`.
"""

from __future__ import annotations

from tfhet.record.event_tail import EventTail
from tfhet.record.figure import Figure
from tfhet.record.folder import RunFolder
from tfhet.record.interval import Interval, View
from tfhet.record.machine import machine
from tfhet.record.record import Record
from tfhet.record.run import RunSummary
from tfhet.record.spread import Spread
from tfhet.record.statistics import median, percentile
from tfhet.record.timeline import Timeline
from tfhet.versions import versions

__all__ = [
    "EventTail",
    "Figure",
    "Interval",
    "Record",
    "RunFolder",
    "RunSummary",
    "Spread",
    "Timeline",
    "View",
    "machine",
    "median",
    "percentile",
    "versions",
]
